package capture

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// leave creates all possible leftovers of a gone capture: pod, NodeOrder, snapshot, and a version of the snapshot.
func (s *testEnv) leave(name, uid string) {
	s.t.Helper()
	ctx := context.Background()
	tags := map[string]string{cloud.TagPrototype: name, cloud.TagUID: uid, cloud.TagCluster: ourCluster}
	snapshot, err := s.cloud.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: name, Instance: s.donor, Tags: tags})
	s.must(err)
	s.clock.Advance(10 * time.Second)
	s.cloud.MarkGeneralized(s.donor)
	_, err = s.cloud.EnsureImage(ctx, cloud.ImageSpec{ImageRef: cloud.ImageRef{Pool: s.pool, Version: "2026.03.12"}, SnapshotID: snapshot.ID, Tags: tags})
	s.must(err)
	labels := map[string]string{v1alpha1.PrototypeLabel: name, v1alpha1.PrototypeUIDLabel: uid}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "kamino-" + name, Namespace: podspace, Labels: labels}}
	pod.Spec.ServiceAccountName = v1alpha1.GeneralizeServiceAccount
	s.must(s.objects.Add(pod))
	order := &v1alpha1.NodeOrder{ObjectMeta: metav1.ObjectMeta{Name: "kamino-" + name, Namespace: podspace}}
	order.Spec.Holder = v1alpha1.Holder{Name: name, UID: "gone"}
	s.must(s.clean.Create(ctx, order))
}

// TestASweepLosesEachCall: what a capture has left goes, whichever call of the sweeps is lost, and however.
func TestASweepLosesEachCall(t *testing.T) {
	memory.Courses{Losses: losses, Least: 20, Play: func(t *testing.T, schedule *memory.Schedule) {
		s := newTestEnv(t)
		s.schedule = schedule
		s.leave("pool1-2026.03.12", "gone")
		for range 12 {
			memory.RunUntilCrash(func() { _, _ = s.engine.SweepLeftovers(t.Context(), []cloud.PoolID{s.pool}) })
			s.clock.Advance(3 * time.Second) // a version takes twenty
		}
		snapshots, err := s.cloud.Snapshots(t.Context(), s.pool)
		s.must(err)
		images, err := s.cloud.Images(t.Context(), s.pool)
		s.must(err)
		orders := &v1alpha1.NodeOrderList{}
		s.must(s.clean.List(t.Context(), orders))
		pod := s.tracked("pods", podspace, "kamino-pool1-2026.03.12")
		if len(snapshots)+len(images)+len(orders.Items) > 0 || pod != nil {
			t.Errorf("snapshots %v, images %v, orders %d, pod %t", snapshots, images, len(orders.Items), pod != nil)
		}
	}}.LoseEach(t)
}
