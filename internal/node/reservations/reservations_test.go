package reservations

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestHolderOfNode: the record has precedence over the Node, and the holder must exist.
func TestHolderOfNode(t *testing.T) {
	prototype := func(name string, uid types.UID, phase v1alpha1.Phase, record string) v1alpha1.Prototype {
		p := v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
		p.Spec.Donor.NodeName, p.Status.Phase = "n", phase
		if record != "" {
			p.Status.Record = recordOf(uid, record)
		}
		return p
	}
	const ours, recorded = `{"kind":"Prototype","name":"p","uid":"u"}`, `{"reservation":{"kind":"Prototype","name":"p","uid":"u"}}`
	for _, c := range []struct {
		name, reservation string
		prototypes        []v1alpha1.Prototype
		want              State // empty: not held
	}{
		{"nobody", "", nil, ""},
		{"a capture", ours, []v1alpha1.Prototype{prototype("p", "u", v1alpha1.PhaseDraining, recorded)}, ByCapture},
		{"a capture without a record", ours, []v1alpha1.Prototype{prototype("p", "u", v1alpha1.PhaseDraining, "")}, ByCapture},
		{"a capture that has ended", ours, []v1alpha1.Prototype{prototype("p", "u", v1alpha1.PhaseFailed, "{}")}, Orphaned},
		{"a capture that is gone", ours, nil, Orphaned},
		{"another one of that name", ours, []v1alpha1.Prototype{prototype("p", "v", v1alpha1.PhaseDraining, "")}, Orphaned},
		{"a record, and nothing on the Node", "", []v1alpha1.Prototype{prototype("p", "u", v1alpha1.PhaseDraining, recorded)}, ByCapture},
		{"a record, and nonsense on the Node", "?", []v1alpha1.Prototype{prototype("p", "u", v1alpha1.PhaseDraining, recorded)}, ByCapture},
		{"a replacement", `{"kind":"Replacement","name":"kamino-rollback","uid":"kamino-rollback"}`, nil, ByReplacement},
		{"a replacement with an identity", `{"kind":"Replacement","name":"pool1-2026.03.01","uid":"v"}`, nil, ByReplacement},
		{"what a newer version knows", `{"kind":"Pioneer","name":"p","uid":"u"}`, nil, ByUnknown},
		{"what a newer version knows, with a capture's UID", `{"kind":"Pioneer","name":"p","uid":"u"}`,
			[]v1alpha1.Prototype{prototype("p", "u", v1alpha1.PhaseDraining, "")}, ByUnknown},
		{"nonsense", "?", nil, Unreadable},
		{"no holder", "{}", nil, Unreadable},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			if c.reservation != "" {
				n.Annotations = map[string]string{v1alpha1.ReservationAnnotation: c.reservation}
			}
			got, isHeld := CapturesOf(c.prototypes).Of(n)
			if isHeld != (c.want != "") || isHeld && got.State != c.want {
				t.Errorf("it is held: %t, %+v, want %q", isHeld, got, c.want)
			}
			if returnable := c.want != "" && c.want != ByCapture && c.want != ByUnknown; isHeld && got.Returnable() != returnable {
				t.Errorf("a person may release it: %t", !returnable)
			}
		})
	}
}

// TestMarksWithoutReservation: a node with all marks of a hold and no reservation is reported. A node with some marks,
// or with a working capture, is not.
func TestMarksWithoutReservation(t *testing.T) {
	working := v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID("u")}}
	working.Spec.Donor.NodeName, working.Status.Phase = "n", v1alpha1.PhaseDraining
	all := map[string]string{v1alpha1.ScaleDownDisabledAnnotation: "true", v1alpha1.DoNotDisruptAnnotation: "true"}
	for _, c := range []struct {
		name        string
		cordoned    bool
		annotations map[string]string
		prototypes  []v1alpha1.Prototype
		want        bool
	}{
		{"all of it", true, all, nil, true},
		{"at work", true, all, []v1alpha1.Prototype{working}, false},
		{"not cordoned", false, all, nil, false},
		{"cordoned alone", true, nil, nil, false},
		{"one annotation", true, map[string]string{v1alpha1.ScaleDownDisabledAnnotation: "true"}, nil, false},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: c.annotations}}
		n.Spec.Unschedulable = c.cordoned
		got, isHeld := CapturesOf(c.prototypes).Of(n)
		if isHeld != c.want || isHeld && (got.State != Stripped || !got.Left()) {
			t.Errorf("%s: it is held: %t, %+v", c.name, isHeld, got)
		}
	}
}
