package capi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/apiserver"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// right is a required right of the account in the management cluster, in the Cluster's namespace. Its For is the feature that needs it.
type right struct {
	apiserver.Right
	// pools is true if only MachinePools need the right.
	pools bool
}

func need(group, resource, verbs, purpose string) right {
	return right{Right: apiserver.Right{GroupResource: schema.GroupResource{Group: group, Resource: resource}, Verbs: strings.Fields(verbs), For: purpose}}
}

// ofPools limits rights to those of MachinePools.
func ofPools(r right) right {
	r.pools = true
	return r
}

const readVerbs = "get list"

// forTopology is the purpose of rights that every pool from a ClusterClass needs, and no other pool.
const forTopology = "a pool made from a ClusterClass"

// giveRights is the remedy for missing rights.
const giveRights = "give the account in the management cluster the Role that `kamino manifests --management` prints: see " + page.ClusterAPI + "#rights"

// rights returns all required rights for the infrastructure kinds.
func rights(kinds ...string) []right {
	all := []right{
		need(coreGroup, "clusters", "get", ""), need(coreGroup, "machinedeployments", readVerbs+" patch", ""),
		need(coreGroup, "machinesets", readVerbs+" patch", ""), need(coreGroup, "machines", readVerbs+" patch", ""),
		need(coreGroup, "clusters", "patch", forTopology), need(coreGroup, resourceClasses, "get", forTopology),
		ofPools(need(coreGroup, machinePools, readVerbs, "")),
	}
	for _, kind := range kinds {
		infra := infrastructures[kind]
		resource := strings.ToLower(infra.machine)
		all = append(all, need(infrastructureGroup, strings.ToLower(infra.cluster)+"s", "get", ""),
			need(infrastructureGroup, resource+"templates", "get list create delete", ""), need(infrastructureGroup, resource+"s", "list", ""))
		all = append(all, poolRights(kind)...)
	}
	all = append(all, separateRights(cloud.ForTrialApart, kinds)...)
	return append(all, separateRights(cloud.ForCopy, kinds)...)
}

// separateRights returns the rights for separate Machines of the infrastructure kinds.
func separateRights(purpose string, kinds []string) (all []right) {
	for _, kind := range kinds {
		all = append(all, need(coreGroup, "machines", "create delete", purpose), need(bootstrapGroup, "kubeadmconfigtemplates", "get", purpose),
			need(bootstrapGroup, "kubeadmconfigs", "get create delete", purpose),
			need(infrastructureGroup, strings.ToLower(kind)+"s", "get create delete", purpose))
	}
	return all
}

// Rules returns the account's rules in the Cluster's namespace for machines of a cloud. Each resource appears once. Rules
// returns an error if Kamino does not support Cluster API on the cloud.
func Rules(d cloud.Description) ([]rbacv1.PolicyRule, error) {
	if d.NewDisks == nil {
		return nil, fmt.Errorf("nodes of Cluster API on %s are not supported: see %s", d.Name, page.ClusterAPI)
	}
	var kinds []string
	for kind, of := range infrastructures {
		if of.cloud == d.Name {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	var all []apiserver.Right
	for _, need := range rights(kinds...) {
		all = append(all, need.Right)
	}
	return apiserver.Rules(all), nil
}

// bootstrapGroup is the API group of kubeadm's bootstrap configurations.
const bootstrapGroup = "bootstrap.cluster.x-k8s.io"

// Permissions implements cloud.PoolProvider with a single rules review. An incomplete review costs an access review
// per missing right.
func (r *PoolProvider) Permissions(ctx context.Context, pool cloud.PoolID) ([]cloud.Permission, error) {
	v, err := r.view(ctx, pool)
	if err != nil {
		return nil, err
	}
	all, err := r.permissions(ctx, v)
	if err != nil {
		return nil, err
	}
	more, err := r.inGroups().permissions(ctx, v)
	return append(all, more...), err
}

func (r *clusterAccess) permissions(ctx context.Context, v poolView) ([]cloud.Permission, error) {
	review, err := apiserver.ReviewOf(ctx, r.account.AuthorizationV1(), r.cluster.Namespace)
	if err != nil {
		return nil, err
	}
	var kinds []string
	if v.known {
		kinds = append(kinds, v.of.machine)
	}
	var all []cloud.Permission
	for _, need := range rights(kinds...) {
		switch {
		case need.For == forTopology && v.topology == nil, // other pools should not have the right
			need.pools && v.resource != machinePools:
			continue
		}
		for _, verb := range need.Verbs {
			in, remedy := r.cluster.Namespace, giveRights
			if namespace, _ := classOf(v.cluster); need.Resource == resourceClasses && namespace != in {
				in, remedy = namespace, remedyClass(namespace, in)
			}
			allowed, err := review.Allows(ctx, need.Right, verb, in)
			if err != nil {
				return nil, err
			}
			p := need.Permission(verb, "namespace "+in, remedy, allowed)
			if need.For == forTopology {
				p.For = ""
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// refuseRights returns the refusal of missing rights for the purposes. The purpose of captures is empty.
func (r *clusterAccess) refuseRights(ctx context.Context, v poolView, purposes ...string) ([]cloud.Refusal, error) {
	all, err := r.permissions(ctx, v)
	if err != nil {
		return nil, err
	}
	var lack []string
	for _, p := range all {
		elsewhere := p.Scope != "namespace "+r.cluster.Namespace // an unreadable ClusterClass has its own refusal
		if !p.Allowed && !elsewhere && slices.Contains(purposes, p.For) && !slices.Contains(lack, p.Action) {
			lack = append(lack, p.Action)
		}
	}
	if len(lack) == 0 {
		return nil, nil
	}
	return []cloud.Refusal{cloud.Refuse(cloud.PermissionMissing,
		fmt.Sprintf("in namespace %s of the management cluster, the account may not %s", r.cluster.Namespace, strings.Join(lack, ", ")),
		giveRights)}, nil
}

// PreflightRecipe implements cloud.PoolProvider.
func (r *PoolProvider) PreflightRecipe(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	v, err := r.view(ctx, spec.Pool)
	if err != nil {
		return nil, err
	}
	found := append(v.refusals(), v.pending()...)
	lack, err := r.refuseRights(ctx, v, "")
	if err != nil {
		return nil, err
	}
	if found, err = r.refuseMachine(ctx, append(found, lack...), spec); err != nil {
		return nil, err
	}
	if v.group != nil {
		return r.inGroups().preflight(ctx, v, spec, found)
	}
	return found, nil
}

// refuseMachine appends the reasons why an instance's Machine cannot be a donor.
func (r *clusterAccess) refuseMachine(ctx context.Context, found []cloud.Refusal, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	m, err := r.machineOf(ctx, "read", spec.Instance)
	switch {
	case cloud.Is(err, cloud.NotFound):
		return append(found, cloud.Refuse(reasonElsewhere, fmt.Sprintf("instance %[2]s has no Machine in Cluster %[1]s", r.cluster, spec.Instance),
			"choose a node of a Machine")), nil
	case err != nil:
		return nil, err
	case m.deleting():
		return append(found, cloud.Refuse(reasonElsewhere, m.String()+" is being deleted", "choose another node")), nil
	}
	return found, nil
}
