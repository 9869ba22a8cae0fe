package karpenter

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/apiserver"
)

// need is a required right in the cluster.
type need struct {
	group, resource string
	verbs           []string
	// feature is Permission.For.
	feature string
}

// needs are all required rights.
var needs = []need{
	{coreGroup, pools.Resource, []string{"list"}, ""},
	{coreGroup, claims.Resource, []string{"get", "list"}, ""},
	{awsGroup, classes.Resource, []string{"get", "list", "patch"}, ""},
	{coreGroup, claims.Resource, []string{"create", "patch", "delete"}, cloud.ForTrialApart},
	{awsGroup, classes.Resource, []string{"create", "delete"}, cloud.ForTrialApart},
	{coreGroup, claims.Resource, []string{"create", "patch", "delete"}, cloud.ForCopy},
	{awsGroup, classes.Resource, []string{"create", "delete"}, cloud.ForCopy},
}

// Rules returns the rules of the account's ClusterRole. Each resource appears once.
func Rules() (rules []rbacv1.PolicyRule) {
	for _, n := range needs {
		at := slices.IndexFunc(rules, func(r rbacv1.PolicyRule) bool { return r.APIGroups[0] == n.group && r.Resources[0] == n.resource })
		if at < 0 {
			at = len(rules)
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{n.group}, Resources: []string{n.resource}})
		}
		for _, verb := range n.verbs {
			if !slices.Contains(rules[at].Verbs, verb) {
				rules[at].Verbs = append(rules[at].Verbs, verb)
			}
		}
	}
	return rules
}

const giveRights = "apply the output of `kamino manifests --karpenter`, or set the chart's value rbac.karpenter"

// Permissions implements cloud.PoolProvider with a rules review, which lists the rights of ClusterRoles too. A right that an incomplete
// review lacks costs an access review.
func (r *access) Permissions(ctx context.Context, _ cloud.PoolID) ([]cloud.Permission, error) {
	const op, where = "read the rights in", "the cluster"
	_, account, err := r.clients()
	if err != nil {
		return nil, err
	}
	reported, err := account.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx,
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: metav1.NamespaceDefault}}, metav1.CreateOptions{})
	if err != nil {
		return nil, apiserver.Fail(op, where, err)
	}
	var all []cloud.Permission
	for _, n := range needs {
		for _, verb := range n.verbs {
			p := cloud.Permission{Action: verb + " " + n.resource + "." + n.group, Scope: where, For: n.feature, Remedy: giveRights,
				Allowed: slices.ContainsFunc(reported.Status.ResourceRules, func(rule authorizationv1.ResourceRule) bool { return n.isIn(rule, verb) })}
			if !p.Allowed && reported.Status.Incomplete {
				asked, err := account.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
					&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
						ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: n.group, Resource: n.resource}}}, metav1.CreateOptions{})
				if err != nil {
					return nil, apiserver.Fail(op, where, err)
				}
				p.Allowed = asked.Status.Allowed
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// isIn reports whether a rule allows the right for all objects.
func (n need) isIn(rule authorizationv1.ResourceRule, verb string) bool {
	has := func(list []string, what string) bool {
		return slices.Contains(list, what) || slices.Contains(list, "*")
	}
	return len(rule.ResourceNames) == 0 && has(rule.APIGroups, n.group) && has(rule.Resources, n.resource) && has(rule.Verbs, verb)
}

// refuseRights returns the refusal of missing rights for a feature. The feature of all captures is empty.
func (r *access) refuseRights(ctx context.Context, feature string) ([]cloud.Refusal, error) {
	all, err := r.Permissions(ctx, "")
	if err != nil {
		return nil, err
	}
	var lack []string
	for _, p := range all {
		if !p.Allowed && p.For == feature {
			lack = append(lack, p.Action)
		}
	}
	if len(lack) == 0 {
		return nil, nil
	}
	return []cloud.Refusal{cloud.Refuse(cloud.PermissionMissing, fmt.Sprintf("the account may not %s", strings.Join(lack, ", ")), giveRights)}, nil
}

// PreflightRecipe implements cloud.PoolProvider.
func (r *PoolProvider) PreflightRecipe(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	v, err := r.view(ctx, spec.Pool)
	if err != nil {
		return nil, err
	}
	lack, err := r.refuseRights(ctx, "")
	if err != nil {
		return nil, err
	}
	found := append(v.refusals(), lack...)
	found = refuse(!spec.Copies, found, cloud.StopTerminates, "set settings.donor.method to Copy", "Karpenter deletes a node whose instance stops")
	c, err := r.claimOf(ctx, opRead, spec.Instance)
	switch {
	case cloud.Is(err, cloud.NotFound):
		return refuse(true, found, reasonElsewhere, "choose a node of a NodeClaim", "instance %s has no NodeClaim", spec.Instance), nil
	case err != nil:
		return nil, err
	}
	return refuse(c.Metadata.DeletionTimestamp != nil, found, reasonElsewhere, "choose another node",
		"Karpenter is removing %s %s", kindClaim, c.Metadata.Name), nil
}
