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

// removing are the policies whose donors are removed, by what their settings say. Those that may not be read, or that the
// cluster does not know, tell nothing.
func removing(ctx context.Context, policies func(context.Context) ([]v1alpha1.PrototypePolicy, error)) []v1alpha1.PrototypePolicy {
	if policies == nil {
		return nil
	}
	all, err := policies(ctx)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(all), func(p v1alpha1.PrototypePolicy) bool { return !p.Spec.Settings.DonorLeaves() })
}

// removed notes the policies that select a pool by one of its nodes.
func (m *members) removed(n *corev1.Node, by []v1alpha1.PrototypePolicy) {
	for i := range by {
		if s := by[i].Spec.Pools.NodeSelector; s != nil {
			if selector, err := metav1.LabelSelectorAsSelector(s); err == nil && selector.Matches(labels.Set(n.Labels)) {
				m.selected = append(m.selected, by[i].Name)
			}
		}
	}
}

// leaves says why a donor of the pool would not return: what a policy for it says, or how its nodes join; empty if it would.
func (d *Doctor) leaves(ctx context.Context, id cloud.PoolID, m *members) string {
	for i := range d.leaving {
		p := &d.leaving[i]
		named := slices.ContainsFunc(p.Spec.Pools.Names, func(name string) bool { return strings.EqualFold(name, m.name) || strings.EqualFold(name, string(id)) })
		if named || slices.Contains(m.selected, p.Name) || len(p.Spec.Pools.Names) == 0 && p.Spec.Pools.NodeSelector == nil {
			return fmt.Sprintf("policy %s has it removed", p.Name)
		}
	}
	for _, of := range m.likely()[:min(len(m.donors), 1)] {
		thought := d.thoughtOf(id, m.name, of)
		if _, err := d.join(ctx, thought, of); err == nil && thought.Spec.Settings.DonorLeaves() { // what went wrong is told where a capture is looked at
			return fmt.Sprintf("nodes of profile %s join with what is taken off the disk", thought.Spec.Settings.Profile())
		}
	}
	return ""
}

// mayRemove asks the API server whether this command's user may delete Nodes, as a donor needs that does not return.
func mayRemove(ctx context.Context, d *Doctor, pool, why string) Finding {
	const what = "a donor that does not return"
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Resource: "nodes", Verb: "delete"},
	}}
	answer, err := d.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	f := Finding{Level: OK, Check: CheckRBAC, Subject: pool, Message: fmt.Sprintf("%s may delete nodes, which %s needs; %s", d.who, what, why)}
	switch {
	case err != nil:
		f.Level, f.Message = Warn, fmt.Sprintf("whether %s may delete nodes, which %s needs, can't be told: %s", d.who, what, err)
	case !answer.Status.Allowed:
		f.Level, f.Reason = Fail, admission.RemovalNotAllowed
		f.Message = fmt.Sprintf("%s may not delete nodes, which %s needs; %s", d.who, what, why)
		f.Remedy = "give it that right with rbac.removeDonors=true (kamino manifests --remove-donors)"
	}
	return f
}
