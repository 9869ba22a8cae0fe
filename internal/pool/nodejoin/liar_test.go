package nodejoin

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// TestKubeletAffectsOwnNodeOnly: a kubelet cannot make another node fail. A kubelet can make its own node fail
// only by the conditions.
func TestKubeletAffectsOwnNodeOnly(t *testing.T) {
	node := func(name, id string, isReady bool) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(ago(38))}}
		n.Spec.ProviderID = id
		if ready(n, ago(37)); !isReady {
			n.Status.Conditions[0].Status = corev1.ConditionFalse
		}
		return n
	}
	seen := Observation{Now: noon, Instances: []cloud.Instance{
		{ID: "x://1", BuiltFrom: "2026.03.08", CreatedAt: ago(40), Power: cloud.PowerRunning},
		{ID: "x://2", BuiltFrom: "2026.03.08", CreatedAt: ago(40), Power: cloud.PowerRunning},
	}}
	honest, liar := node("honest", "x://1", true), node("liar", "X://1", false)
	for _, nodes := range [][]*corev1.Node{{honest, liar}, {liar, honest}} { // the liar has the ID of the other node
		seen.Nodes = nodes
		for _, join := range joinhealth.Judge(noon, ago(600), Nodes(seen), []joinhealth.Join{
			{Instance: "x://1", Version: "2026.03.08", Running: ago(40), Outcome: joinhealth.Waiting, OverdueSince: ago(20)},
		}, joinhealth.Limits{}) {
			if join.Instance == "x://1" && (join.Outcome != joinhealth.Uncounted || !strings.Contains(join.Why, "honest") ||
				!strings.Contains(join.Why, "liar")) {
				t.Errorf("one of two nodes' word counts: %+v", join)
			}
		}
	}
	written := node("written", "x://2", true)
	written.Annotations = map[string]string{v1alpha1.ReservationAnnotation: "{}", "kamino.dev/join-health": "Failed", "kamino.dev/trial": "Failed"}
	written.Labels = map[string]string{"kamino.dev/version": "2026.03.08", "kamino.dev/trial": "x"}
	written.Spec.Taints = []corev1.Taint{{Key: autoscalerTaint}, {Key: shutdownTaint}}
	seen.Nodes = []*corev1.Node{honest, written}
	for _, join := range joinhealth.Judge(noon, ago(600), Nodes(seen), nil, joinhealth.Limits{}) {
		if join.Outcome == joinhealth.Failed {
			t.Errorf("what it writes speaks against its version: %+v", join)
		}
	}
}
