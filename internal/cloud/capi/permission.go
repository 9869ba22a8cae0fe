package capi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/apiserver"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// right is a required right of the account in the management cluster, in the Cluster's namespace.
type right struct {
	group, resource string
	verbs           []string
	// purpose is the feature that needs the right; empty if captures need the right.
	purpose string
	// pools is true if only MachinePools need the right.
	pools bool
}

const readVerbs = "get list"

// forTopology is the purpose of rights that every pool from a ClusterClass needs, and no other pool.
const forTopology = "a pool made from a ClusterClass"

// giveRights is the remedy for missing rights.
const giveRights = "give the account in the management cluster the Role that `kamino manifests --management` prints: see " + page.ClusterAPI + "#rights"

// rights returns all required rights for the infrastructure kinds.
func rights(kinds ...string) []right {
	need := func(resource, verbs, purpose string) right {
		return right{group: coreGroup, resource: resource, verbs: strings.Fields(verbs), purpose: purpose}
	}
	all := []right{
		need("clusters", "get", ""), need("machinedeployments", readVerbs+" patch", ""), need("machinesets", readVerbs+" patch", ""),
		need("machines", readVerbs+" patch", ""), need("clusters", "patch", forTopology), need(resourceClasses, "get", forTopology),
		{group: coreGroup, resource: machinePools, verbs: strings.Fields(readVerbs), pools: true},
	}
	for _, kind := range kinds {
		infra := infrastructures[kind]
		resource := strings.ToLower(infra.machine)
		of := func(resource, verbs string) right {
			return right{group: infrastructureGroup, resource: resource, verbs: strings.Fields(verbs)}
		}
		all = append(all, of(strings.ToLower(infra.cluster)+"s", "get"), of(resource+"templates", "get list create delete"), of(resource+"s", "list"))
		all = append(all, poolRights(kind)...)
	}
	all = append(all, separateRights(cloud.ForTrialApart, kinds)...)
	return append(all, separateRights(cloud.ForCopy, kinds)...)
}

// separateRights returns the rights for separate Machines of the infrastructure kinds.
func separateRights(purpose string, kinds []string) (all []right) {
	need := func(group, resource, verbs string) {
		all = append(all, right{group: group, resource: resource, verbs: strings.Fields(verbs), purpose: purpose})
	}
	for _, kind := range kinds {
		need(coreGroup, "machines", "create delete")
		need(bootstrapGroup, "kubeadmconfigtemplates", "get")
		need(bootstrapGroup, "kubeadmconfigs", "get create delete")
		need(infrastructureGroup, strings.ToLower(kind)+"s", "get create delete")
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
	var rules []rbacv1.PolicyRule
	for _, need := range rights(kinds...) {
		at := slices.IndexFunc(rules, func(r rbacv1.PolicyRule) bool { return r.APIGroups[0] == need.group && r.Resources[0] == need.resource })
		if at < 0 {
			at = len(rules)
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{need.group}, Resources: []string{need.resource}})
		}
		for _, verb := range need.verbs {
			if !slices.Contains(rules[at].Verbs, verb) {
				rules[at].Verbs = append(rules[at].Verbs, verb)
			}
		}
	}
	return rules, nil
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
	const op = "read the rights in"
	where := "namespace " + r.cluster.Namespace
	reported, err := r.account.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx,
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: r.cluster.Namespace}}, metav1.CreateOptions{})
	if err != nil {
		return nil, apiserver.Fail(op, where, err)
	}
	var kinds []string
	if v.known {
		kinds = append(kinds, v.of.machine)
	}
	var all []cloud.Permission
	for _, need := range rights(kinds...) {
		switch {
		case need.purpose == forTopology && v.topology == nil, // other pools should not have the right
			need.pools && v.resource != machinePools:
			continue
		}
		for _, verb := range need.verbs {
			p := cloud.Permission{
				Action: verb + " " + schema.GroupResource{Group: need.group, Resource: need.resource}.String(), Scope: where,
				For: need.purpose, Remedy: giveRights, Allowed: allows(reported.Status.ResourceRules, need, verb),
			}
			in := r.cluster.Namespace
			if need.purpose == forTopology {
				p.For = ""
			}
			if namespace, _ := classOf(v.cluster); need.resource == resourceClasses && namespace != in {
				in, p.Allowed, p.Scope, p.Remedy = namespace, false, "namespace "+namespace, remedyClass(namespace, in)
			}
			if !p.Allowed && (reported.Status.Incomplete || in != r.cluster.Namespace) {
				if p.Allowed, err = r.accessReview(ctx, in, need, verb); err != nil {
					return nil, apiserver.Fail(op, p.Scope, err)
				}
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// allows reports whether a rule allows the right. Rules for single names allow nothing, because the names are unknown in
// advance.
func allows(rules []authorizationv1.ResourceRule, need right, verb string) bool {
	has := func(list []string, what string) bool {
		return slices.Contains(list, what) || slices.Contains(list, "*")
	}
	return slices.ContainsFunc(rules, func(rule authorizationv1.ResourceRule) bool {
		return len(rule.ResourceNames) == 0 && has(rule.APIGroups, need.group) && has(rule.Resources, need.resource) && has(rule.Verbs, verb)
	})
}

func (r *clusterAccess) accessReview(ctx context.Context, namespace string, need right, verb string) (bool, error) {
	asked, err := r.account.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: need.group, Resource: need.resource,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return asked.Status.Allowed, nil
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
