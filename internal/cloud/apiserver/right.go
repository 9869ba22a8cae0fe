package apiserver

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Right is a right of the account on all objects of a resource.
type Right struct {
	schema.GroupResource
	Verbs []string
	// For is Permission.For.
	For string
}

// Rules returns the rules of a role with the rights. Each resource appears once.
func Rules(all []Right) (rules []rbacv1.PolicyRule) {
	for _, r := range all {
		at := slices.IndexFunc(rules, func(rule rbacv1.PolicyRule) bool {
			return rule.APIGroups[0] == r.Group && rule.Resources[0] == r.Resource
		})
		if at < 0 {
			at = len(rules)
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource}})
		}
		for _, verb := range r.Verbs {
			if !slices.Contains(rules[at].Verbs, verb) {
				rules[at].Verbs = append(rules[at].Verbs, verb)
			}
		}
	}
	return rules
}

// Review is what the API server says of the account's rights in a namespace, with those of ClusterRoles.
type Review struct {
	account   authorizationclient.AuthorizationV1Interface
	namespace string
	status    authorizationv1.SubjectRulesReviewStatus
}

// ReviewOf asks the API server once.
func ReviewOf(ctx context.Context, account authorizationclient.AuthorizationV1Interface, namespace string) (Review, error) {
	reported, err := account.SelfSubjectRulesReviews().Create(ctx,
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return Review{}, Fail("read the rights in", "namespace "+namespace, err)
	}
	return Review{account, namespace, reported.Status}, nil
}

// Allows reports whether the account has a right in a namespace. Another namespace than that of the review, and a right that an incomplete
// review lacks, cost a request.
func (v Review) Allows(ctx context.Context, r Right, verb, namespace string) (bool, error) {
	if namespace == v.namespace && slices.ContainsFunc(v.status.ResourceRules, func(rule authorizationv1.ResourceRule) bool { return r.isIn(rule, verb) }) {
		return true, nil
	}
	if namespace == v.namespace && !v.status.Incomplete {
		return false, nil
	}
	asked, err := v.account.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: r.Group, Resource: r.Resource,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, Fail("read the rights in", "namespace "+namespace, err)
	}
	return asked.Status.Allowed, nil
}

// isIn reports whether a rule allows the right. Rules for single names allow nothing, because the names are unknown in advance.
func (r Right) isIn(rule authorizationv1.ResourceRule, verb string) bool {
	has := func(list []string, what string) bool {
		return slices.Contains(list, what) || slices.Contains(list, "*")
	}
	return len(rule.ResourceNames) == 0 && has(rule.APIGroups, r.Group) && has(rule.Resources, r.Resource) && has(rule.Verbs, verb)
}

// Permission says whether the account has the right.
func (r Right) Permission(verb, scope, remedy string, allowed bool) cloud.Permission {
	return cloud.Permission{Action: verb + " " + r.GroupResource.String(), Scope: scope, For: r.For, Remedy: remedy, Allowed: allowed}
}
