package policy_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// The gate of SECURITY.md, verbatim.
const (
	donorLabel = "node-restriction.kubernetes.io/kamino-donor"
	gate       = `node.metadata.labels[?"node-restriction.kubernetes.io/kamino-donor"].orValue("") != "true"`
)

// TestAKubeletNominatesItsOwnNode uses a kubelet's credential, against an API server with the Node authorizer and
// NodeRestriction, as in kubeadm. The kubelet writes all inputs of a policy on its Node, except the gate's label, on its
// own node and on other nodes.
func TestAKubeletNominatesItsOwnNode(t *testing.T) {
	for _, gated := range []bool{false, true} {
		t.Run(fmt.Sprintf("gated: %t", gated), func(t *testing.T) {
			s := newTestEnv(t)
			id := s.cloud.AddPool(memory.PoolSpec{Name: "pool1", Capacity: 2, MaxSize: 100})
			names := []string{"honest", "thiefs"}
			for i, name := range names {
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
				n.Spec.ProviderID = string(s.cloud.AddInstance(id, fmt.Sprint(i)))
				s.must(s.client.Create(t.Context(), n))
				t.Cleanup(func() { _ = s.client.Delete(context.WithoutCancel(t.Context()), n) })
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
					LastTransitionTime: metav1.NewTime(s.clock.Now().Add(-10 * time.Hour))}}
				s.must(s.client.Status().Update(t.Context(), n))
			}
			look := func() {
				for _, name := range names {
					n := &corev1.Node{}
					s.must(s.client.Get(t.Context(), client.ObjectKey{Name: name}, n))
					s.nodes.Set(n)
				}
				s.runPass()
			}
			s.policy("all", func(p *v1alpha1.PrototypePolicySpec) {
				if gated {
					p.Selection.Refuse = gate
				}
			})
			look()
			if got := s.donors(); len(got) > 0 {
				t.Fatalf("donors = %v, though no node has a patch time", got)
			}

			thief := &kubelet{s: s, client: apitest.Kubelet(t, "thiefs")}
			thief.nominates()
			thief.mayNotLabel("thiefs")
			thief.mayNotLabel("honest")
			look()
			if got := s.donors(); gated && len(got) > 0 || !gated && (len(got) != 1 || got[0] != "thiefs") {
				t.Fatalf("gated %t, and the donors are %v", gated, got)
			}
			if !gated {
				return
			}
			// An account that may label nodes opens the gate.
			n := &corev1.Node{}
			s.must(s.client.Get(t.Context(), client.ObjectKey{Name: "thiefs"}, n))
			n.Labels[donorLabel] = "true"
			s.must(s.client.Update(t.Context(), n))
			s.clock.Advance(time.Minute)
			look()
			if got := s.donors(); len(got) != 1 || got[0] != "thiefs" {
				t.Errorf("a node that an administrator has labelled is no donor: %v", got)
			}
		})
	}
}

// kubelet has the credential of a kubelet.
type kubelet struct {
	s      *testEnv
	client client.Client
}

// nominates writes on its own node all values of the best donor.
func (k *kubelet) nominates() {
	k.s.Helper()
	ctx, n := k.s.Context(), &corev1.Node{}
	k.s.must(k.client.Get(ctx, client.ObjectKey{Name: "thiefs"}, n))
	n.Annotations = map[string]string{v1alpha1.KuredRebootNeededAnnotation: k.s.clock.Now().Add(-48 * time.Hour).Format(time.RFC3339)}
	k.s.must(k.client.Update(ctx, n))
	n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(k.s.clock.Now().Add(-40 * time.Hour))
	k.s.must(k.client.Status().Update(ctx, n))
}

func (k *kubelet) mayNotLabel(name string) {
	k.s.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, donorLabel))
	err := k.client.Patch(k.s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch)
	if !apierrors.IsForbidden(err) {
		k.s.Errorf("the kubelet labels node %s: %v", name, err)
	}
}
