package capture

import (
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// forgeNode makes a Ready Node that names an instance, as any client may that creates Nodes.
func (s *testEnv) forgeNode(name string, id cloud.InstanceID) {
	s.t.Helper()
	n := s.node(name, id)
	n.UID, n.CreationTimestamp = types.UID("forged-"+name), metav1.NewTime(s.clock.Now())
	if s.tracked("nodes", "", name) == nil {
		s.must(s.objects.Create(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
	}
}

// TestAForgedSuccessor takes no donor's place: the new instance's kubelet never joins, and another client makes Nodes.
func TestAForgedSuccessor(t *testing.T) {
	for name, forge := range map[string]func(s *testEnv, grown cloud.InstanceID){
		"of an instance that the cloud does not have": func(s *testEnv, _ cloud.InstanceID) {
			s.forgeNode("forged", cloud.InstanceID(fmt.Sprintf("%s/instances/none", s.pool)))
		},
		"two of the new instance": func(s *testEnv, grown cloud.InstanceID) {
			s.forgeNode("forged-1", grown)
			s.forgeNode("forged-2", grown)
		},
		"one of another node's instance": func(s *testEnv, _ cloud.InstanceID) {
			s.forgeNode("forged", cloud.InstanceID(s.tracked("nodes", "", "peer").(*corev1.Node).Spec.ProviderID))
		},
		"one of the new instance, and no kubelet renews its Lease": func(s *testEnv, grown cloud.InstanceID) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "peer", Namespace: corev1.NamespaceNodeLease, CreationTimestamp: metav1.NewTime(noon)}}
			s.must(s.objects.Create(coordinationv1.SchemeGroupVersion.WithResource("leases"), lease, corev1.NamespaceNodeLease))
			s.forgeNode("forged", grown)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := departInFull(t, true, func(s *testEnv) { s.lonely = true })
			before := d.cloud.InstanceIDs(d.pool)
			forged := false
			p := d.run(func(int) {
				now := d.cloud.InstanceIDs(d.pool)
				i := slices.IndexFunc(now, func(id cloud.InstanceID) bool { return !slices.Contains(before, id) })
				if i < 0 || forged {
					return
				}
				d.clock.Advance(2 * time.Second) // Nodes are younger than the decision
				forge(d.testEnv, now[i])
				forged = true
			})
			if !forged || p == nil || p.Status.Failure == nil || p.Status.Failure.Reason != "NewNodeNotReady" {
				t.Errorf("forged %t: %s", forged, verdict(p))
			}
			if n, _ := d.tracked("nodes", "", donorName).(*corev1.Node); n == nil || n.Spec.Unschedulable ||
				d.cloud.World().Count(memory.ByCaller, memory.EffectStop, "") != 0 {
				t.Errorf("the donor was taken: %+v", n)
			}
		})
	}
}
