package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// policiesOf are the policies of the cluster; empty without the definition of policies.
func policiesOf(ctx context.Context, policies func(context.Context) ([]v1alpha1.PrototypePolicy, error)) ([]v1alpha1.PrototypePolicy, error) {
	if policies == nil {
		return nil, nil
	}
	all, err := policies(ctx)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// selectedBy notes the policies that select a pool by one of its nodes.
func (m *members) selectedBy(n *corev1.Node, by []v1alpha1.PrototypePolicy) {
	for i := range by {
		if s := by[i].Spec.Pools.NodeSelector; s != nil {
			if selector, err := metav1.LabelSelectorAsSelector(s); err == nil && selector.Matches(labels.Set(n.Labels)) {
				m.selected = append(m.selected, by[i].Name)
			}
		}
	}
}

// policy is the first policy for the pool with matching settings; nil if there is none.
func (m *members) policy(all []v1alpha1.PrototypePolicy, id cloud.PoolID, is func(v1alpha1.Settings) bool) *v1alpha1.PrototypePolicy {
	for i := range all {
		p := &all[i]
		named := slices.ContainsFunc(p.Spec.Pools.Names, func(name string) bool { return strings.EqualFold(name, m.name) || strings.EqualFold(name, string(id)) })
		selects := named || slices.Contains(m.selected, p.Name) || len(p.Spec.Pools.Names) == 0 && p.Spec.Pools.NodeSelector == nil
		if selects && is(p.Spec.Settings) {
			return p
		}
	}
	return nil
}

// tries reports whether captures of the pool have a trial, by the policies for the pool.
func tries(d *Doctor, id cloud.PoolID, m *members) bool {
	tries := func(s v1alpha1.Settings) bool { return s.Trial.Mode != v1alpha1.TrialOff }
	selects := func(v1alpha1.Settings) bool { return true }
	return m.policy(d.policies, id, tries) != nil || m.policy(d.policies, id, selects) == nil
}

// leaves is the reason why a donor of the pool would not return, from a policy or from the profile; empty if the donor
// would return.
func (d *Doctor) leaves(ctx context.Context, id cloud.PoolID, m *members) string {
	if p := m.policy(d.policies, id, v1alpha1.Settings.DonorLeaves); p != nil {
		return fmt.Sprintf("policy %s removes donors", p.Name)
	}
	for _, of := range m.likely()[:min(len(m.donors), 1)] {
		thought := d.thoughtOf(id, m, of)
		if _, err := d.join(ctx, thought, of); err == nil && thought.Spec.Settings.DonorLeaves() { // the check of a capture reports errors
			return fmt.Sprintf("Kamino deletes the join credential of profile %s from the disk", thought.Spec.Settings.Profile())
		}
	}
	return ""
}

// mayRemove asks the API server whether this command's user may delete Nodes, as a donor that does not return requires.
func mayRemove(ctx context.Context, d *Doctor, pool, why string) Finding {
	const what = "a donor that does not return"
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Resource: "nodes", Verb: "delete"},
	}}
	answer, err := d.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	f := Finding{Level: OK, Check: CheckRBAC, Subject: pool, Message: fmt.Sprintf("%s may delete nodes, needed for %s; %s", d.who, what, why)}
	switch {
	case err != nil:
		f.Level, f.Message = Warn, fmt.Sprintf("unknown whether %s may delete nodes, needed for %s: %s", d.who, what, err)
	case !answer.Status.Allowed:
		f.Level, f.Reason = Fail, admission.RemovalNotAllowed
		f.Message = fmt.Sprintf("%s may not delete nodes, needed for %s; %s", d.who, what, why)
		f.Remedy = "grant the permission with rbac.removeDonors=true (kamino manifests --remove-donors)"
	}
	return f
}
