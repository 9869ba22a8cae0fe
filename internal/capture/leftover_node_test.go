package capture

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node/reservations"
)

// TestNodesOfEndedTrialsAreFound: a Node of a trial that is down is named after its capture, once the cloud's controller had its time.
// No sweep deletes the Node.
func TestNodesOfEndedTrialsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		uid    types.UID // of the Prototype in the mark; empty: no mark
		ready  corev1.ConditionStatus
		down   time.Duration
		isLeft bool
	}{
		"a capture that is gone":           {"gone", corev1.ConditionUnknown, time.Hour, true},
		"a Node that never reported":       {"gone", "", time.Hour, true},
		"time for the cloud's controller":  {"gone", corev1.ConditionUnknown, 10 * time.Minute, false},
		"a Node that serves":               {"gone", corev1.ConditionTrue, time.Hour, false},
		"a Node of the pool":               {"", corev1.ConditionUnknown, time.Hour, false},
		"a capture at work":                {"working", corev1.ConditionUnknown, time.Hour, false},
		"a capture at work, after its end": {"working", corev1.ConditionUnknown, 27 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := published(t)
			uid := c.uid
			if uid == "working" {
				uid = v.prototype().UID
			}
			at := metav1.NewTime(v.clock.Now().Add(-c.down))
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "t-0", CreationTimestamp: at}}
			if uid != "" {
				n.Labels = map[string]string{v1alpha1.TrialKey: string(uid)}
				n.Annotations = map[string]string{v1alpha1.TrialKey: `{"prototype":"p1"}`}
			}
			if c.ready != "" {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: c.ready, LastTransitionTime: at}}
			}
			v.must(v.objects.Add(n))
			var want []reservations.Leftover
			if c.isLeft {
				want = append(want, reservations.Leftover{Kind: reservations.TrialNode, Name: "t-0", Prototype: "p1", UID: uid, Overdue: c.down > nodeOverdue})
			}
			left, err := v.engine.Leftovers(t.Context(), nil, nil)
			v.must(err)
			if diff := cmp.Diff(want, left, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			swept, err := v.engine.SweepLeftovers(t.Context(), nil)
			if v.must(err); len(swept) > 0 || v.tracked("nodes", "", "t-0") == nil {
				t.Errorf("a sweep removes %+v", swept)
			}
		})
	}
}
