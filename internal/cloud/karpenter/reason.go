package karpenter

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	// reasonElsewhere is as for nodes of Cluster API.
	reasonElsewhere = "NotInPool"
	// reasonParameter: a parameter names the image.
	reasonParameter = "ManagedByParameter"
	// cautionGitOps: another tool may revert the recipe.
	cautionGitOps = "RecipeInGitOps"
)

// Reasons returns the reasons of this package's refusals, sorted by name.
func Reasons() []cloud.Reason {
	return []cloud.Reason{
		{
			Name: cloud.DiskUnsupported, Means: "with `instanceStorePolicy: RAID0`, images and pods are on instance stores, which no image holds",
			Remedy: "remove `instanceStorePolicy` from the EC2NodeClass, or leave the pool out",
		},
		{
			Name: reasonParameter, Means: "a parameter of the Systems Manager names the image: Kamino makes and tries a version, then hands the version over",
			Remedy: "set the parameter with `aws ssm put-parameter`, as the message says",
		},
		{
			Name: cloud.NodesWouldBeReplaced, Means: "Karpenter would replace every running node of the EC2NodeClass at a new image",
			Remedy: "add the disruption budget that the message prints to each NodePool",
		},
		{
			Name: reasonElsewhere, Means: "the instance has no NodeClaim, so Karpenter does not manage it",
			Remedy: "choose a node of a NodeClaim",
		},
		{
			Name: cloud.PermissionMissing, Means: "the account in the cluster lacks rights on Karpenter's objects; the message names them",
			Remedy: giveRights,
		},
		{
			Name: cloud.PoolBeingDeleted, Means: "the EC2NodeClass is being deleted",
			Remedy: "leave the pool out",
		},
		{
			Name: cloud.PoolUnsupported, Means: "the NodePools of the EC2NodeClass may launch several architectures, and an image has one",
			Remedy: "give each architecture an EC2NodeClass, and require `kubernetes.io/arch` in the NodePools",
		},
		{
			Name: cloud.PoolUnsupported, Means: "the alias of the EC2NodeClass gives other images to GPU and Neuron types, and a single image would replace them",
			Remedy: "give these types an EC2NodeClass and a NodePool of their own",
		},
		{
			Name: cloud.StopTerminates, Means: "Karpenter deletes a node whose instance stops",
			Remedy: "capture by copy",
		},
		{
			Name: cloud.SystemUnsupported, Means: "the nodes run Bottlerocket or Windows",
			Remedy: "leave the pool out",
		},
		{
			Name: cloud.TemplateUnsuitable, Means: "Karpenter has found no image, no subnet or no NodePool for the EC2NodeClass",
			Remedy: "check the conditions of the EC2NodeClass",
		},
	}
}

// giveRights is the remedy for missing rights.
const giveRights = "apply the output of `kamino manifests --karpenter`, or set the chart's value rbac.karpenter"

// refuse appends a refusal if when is true.
func refuse(when bool, found []cloud.Refusal, reason, remedy, obstacle string, args ...any) []cloud.Refusal {
	if !when {
		return found
	}
	return append(found, cloud.Refuse(reason, fmt.Sprintf(obstacle, args...), remedy))
}

// refusals returns the reasons against any capture in the pool.
func (v view) refusals() []cloud.Refusal {
	c, found := v.class, []cloud.Refusal(nil)
	if c.Metadata.DeletionTimestamp != nil {
		return refuse(true, nil, cloud.PoolBeingDeleted, "leave the pool out", "%s is being deleted", v)
	}
	_, pending := v.unverified() // SetRecipe must take it back
	if drift := refuseDrift(v.name(), v.pools); drift != nil && !pending {
		found = append(found, *drift)
	}
	family, several := c.family(), v.architectures()
	found = refuse(family == "Bottlerocket" || strings.HasPrefix(family, "Windows"), found, cloud.SystemUnsupported, "leave the pool out",
		"%s has the AMI family %s, and Kamino cannot generalize the disk of such a node", v, family)
	found = refuse(c.Spec.InstanceStore != "", found, cloud.DiskUnsupported, "remove instanceStorePolicy from the class, or leave the pool out",
		"%s has the instanceStorePolicy %s: the images of its nodes are on instance stores, which no image holds", v, c.Spec.InstanceStore)
	found = refuse(len(v.pools) == 0, found, cloud.TemplateUnsuitable, "point a NodePool at the class, or leave the pool out", "no NodePool names %s", v)
	found = refuse(len(several) > 1, found, cloud.PoolUnsupported,
		"give each architecture an EC2NodeClass of its own, and require kubernetes.io/arch In [amd64] or [arm64] in each NodePool",
		"the NodePools of %s may launch %s, and an image has one architecture", v, strings.Join(several, " and "))
	if at := slices.IndexFunc(v.pools, nodePool.mayAccelerate); at >= 0 && c.alias() != "" && c.hasAccelerated() {
		found = refuse(true, found, cloud.PoolUnsupported,
			"require karpenter.k8s.aws/instance-category In [c, m, r] in the NodePool, and give other types an EC2NodeClass of their own",
			"alias %s of %s gives GPU and Neuron types images with drivers, and NodePool %s may launch such types", c.alias(), v, v.pools[at].Metadata.Name)
	}
	if v.native == "" || v.region == "" {
		why := conditionOf(c.Status.Conditions, "Ready")
		message := why.Message
		if why.Status != metav1.ConditionFalse || message == "" {
			message = "Karpenter has not resolved images and subnets yet"
		}
		found = refuse(true, found, cloud.TemplateUnsuitable, "check the conditions of the class", "%s has no image: %s", v, message)
	}
	return found
}

// cautions warn of a tool that would revert the recipe.
func (v view) cautions() []cloud.Refusal {
	tool := ""
	for key, value := range v.class.Metadata.Labels {
		switch {
		case key == "argocd.argoproj.io/instance":
			tool = "Argo CD"
		case strings.HasSuffix(key, ".toolkit.fluxcd.io/name"):
			tool = "Flux"
		case key == "app.kubernetes.io/managed-by" && value == "Helm":
			tool = "Helm"
		}
	}
	if v.class.Metadata.Annotations["argocd.argoproj.io/tracking-id"] != "" {
		tool = "Argo CD"
	}
	if tool == "" || v.class.parameter() != "" {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(cautionGitOps, fmt.Sprintf("%s applies %s, and would revert a promotion", tool, v),
		"let the class name its image with ssmParameter, or let the tool ignore spec.amiSelectorTerms and spec.amiFamily")}
}

// accelerated are the categories of instance types with GPUs or AWS's accelerators.
var accelerated = []string{"dl", "g", "gr", "inf", "p", "trn"}

// hasAccelerated reports whether Karpenter resolved images for GPU or Neuron types.
func (c nodeClass) hasAccelerated() bool {
	for _, ami := range c.Status.AMIs {
		if slices.ContainsFunc(ami.Requirements, func(r requirement) bool { return r.Operator == "Exists" }) {
			return true
		}
	}
	return false
}

// mayAccelerate reports whether a NodePool may launch GPU or Neuron types: no requirement excludes them.
func (p nodePool) mayAccelerate() bool {
	for _, r := range p.Spec.Template.Spec.Requirements {
		categories := accelerated
		switch r.Key {
		case awsGroup + "/instance-category":
		case awsGroup + "/instance-gpu-count", awsGroup + "/instance-accelerator-count":
			if r.Operator == "DoesNotExist" {
				return false
			}
			continue
		case awsGroup + "/instance-family", labelType:
			if r.Operator != "In" {
				continue
			}
			if !slices.ContainsFunc(r.Values, func(name string) bool { return slices.Contains(accelerated, categoryOf(name)) }) {
				return false
			}
			continue
		default:
			continue
		}
		if !slices.ContainsFunc(categories, r.allows) {
			return false
		}
	}
	return true
}

// categoryOf returns the letters at the beginning of an instance type or family.
func categoryOf(name string) string {
	if n := strings.IndexAny(name, "0123456789"); n > 0 {
		return name[:n]
	}
	return name
}
