package node

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestCarryOver: the replacement gets the donor's labels and taints with the keys, and keeps all others. A second call writes
// nothing.
func TestCarryOver(t *testing.T) {
	const no, execute = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute
	keys := v1alpha1.CarryOver{Labels: []string{"team", "absent"}, Taints: []string{"dedicated", "absent"}}
	donor := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "blue", "rack": "7"}}}
	now := metav1.Now()
	donor.Spec.Taints = []corev1.Taint{
		{Key: "dedicated", Value: "batch", Effect: no}, {Key: "dedicated", Value: "batch", Effect: execute, TimeAdded: &now}, {Key: "other", Effect: no},
	}
	for name, c := range map[string]struct {
		labels, wantLabels map[string]string
		taints, wantTaints []corev1.Taint
		none               bool // nothing is written
	}{
		"a new node": {
			wantLabels: map[string]string{"team": "blue"},
			wantTaints: []corev1.Taint{{Key: "dedicated", Value: "batch", Effect: no}, {Key: "dedicated", Value: "batch", Effect: execute}},
		},
		"other values": {
			labels: map[string]string{"team": "red", "absent": "x"}, wantLabels: map[string]string{"team": "blue", "absent": "x"},
			taints: []corev1.Taint{{Key: "dedicated", Value: "web", Effect: no}, {Key: "mine", Effect: no}},
			wantTaints: []corev1.Taint{{Key: "mine", Effect: no}, {Key: "dedicated", Value: "batch", Effect: no},
				{Key: "dedicated", Value: "batch", Effect: execute}},
		},
		"the same values": {
			labels: map[string]string{"team": "blue"}, wantLabels: map[string]string{"team": "blue"},
			taints:     donor.Spec.Taints[:2],
			wantTaints: []corev1.Taint{{Key: "dedicated", Value: "batch", Effect: no}, {Key: "dedicated", Value: "batch", Effect: execute}}, none: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, nil)
			n := y.getNode()
			n.Labels, n.Spec.Taints = maps.Clone(c.labels), slices.Clone(c.taints)
			n, err := y.kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
			y.must(err)
			old := n.DeepCopy()
			old.ResourceVersion = "1"
			if err := CarryOver(t.Context(), y.kube, donor, old, keys); !c.none && !apierrors.IsConflict(err) || c.none && err != nil {
				t.Errorf("an outdated Node: %v", err)
			}
			y.must(TryCarryOver(t.Context(), y.kube, n, keys))
			if left := y.getNode(); left.ResourceVersion != n.ResourceVersion {
				t.Error("a dry run has changed the Node")
			}
			y.must(CarryOver(t.Context(), y.kube, donor, n, keys))
			got := y.getNode()
			if (got.ResourceVersion == n.ResourceVersion) != c.none {
				t.Errorf("the Node was written: %t", !c.none)
			}
			for i := range got.Spec.Taints {
				got.Spec.Taints[i].TimeAdded = nil // the API server sets the time of NoExecute
			}
			if !maps.Equal(got.Labels, c.wantLabels) || !slices.Equal(got.Spec.Taints, c.wantTaints) {
				t.Errorf("labels %v, taints %v", got.Labels, got.Spec.Taints)
			}
			again := y.getNode()
			y.must(CarryOver(t.Context(), y.kube, donor, again, keys))
			if y.getNode().ResourceVersion != again.ResourceVersion {
				t.Error("a second call writes")
			}
		})
	}
}
