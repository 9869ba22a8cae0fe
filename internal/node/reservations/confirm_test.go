package reservations

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestTheLeaseIsBelieved: a reservation on the Node alone is unconfirmed, and the reservation of the Lease counts.
func TestTheLeaseIsBelieved(t *testing.T) {
	const ordered = `{"kind":"Prototype","name":"p","uid":"u","generalizeBootID":"b"}`
	const kept = `{"kind":"Prototype","name":"p","uid":"u"}`
	p := v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "p", UID: "u"}
	at := func(node string) []v1alpha1.Prototype {
		p := v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
		p.Spec.Donor.NodeName, p.Status.Phase = node, v1alpha1.PhaseDraining
		return []v1alpha1.Prototype{p}
	}
	working, elsewhere := at("n"), at("other")
	for name, c := range map[string]struct {
		node, lease string
		prototypes  []v1alpha1.Prototype
		cordoned    bool
		want        Node
		none        bool
	}{
		"a donor, by the Node alone": {node: ordered, want: Node{State: Unconfirmed, Holder: p}},
		"a rebuild, by the Node alone": {node: `{"kind":"Replacement","name":"r","uid":"r"}`,
			want: Node{State: Unconfirmed, Holder: v1alpha1.Holder{Kind: v1alpha1.HolderReplacement, Name: "r", UID: "r"}}},
		"a kind of the future, likewise": {node: `{"kind":"Pioneer","name":"r","uid":"r"}`,
			want: Node{State: Unconfirmed, Holder: v1alpha1.Holder{Kind: "Pioneer", Name: "r", UID: "r"}}},
		"another holder's Lease":            {node: ordered, lease: `{"kind":"Prototype","name":"q","uid":"v"}`, want: Node{State: Unconfirmed, Holder: p}},
		"a capture that works elsewhere":    {node: ordered, prototypes: elsewhere, want: Node{State: Unconfirmed, Holder: p}},
		"a capture that is reserving it":    {node: kept, prototypes: working, want: Node{State: ByCapture, Holder: p}},
		"both":                              {node: kept, lease: kept, want: Node{State: Orphaned, Holder: p}},
		"more on the Node than was allowed": {node: ordered, lease: kept, want: Node{State: Orphaned, Holder: p}},
		"less on the Node": {node: kept, lease: ordered, cordoned: true,
			want: Node{State: Orphaned, Holder: p, Ordered: true, Down: true, Cordoned: true}},
		"one that takes pods": {node: kept, lease: ordered,
			want: Node{State: Orphaned, Holder: p, Ordered: true, Down: true, InService: true}},
		"unreadable, with a Lease":   {node: "?", lease: kept, want: Node{State: Orphaned, Holder: p}},
		"unreadable":                 {node: "?", want: Node{State: Unreadable}},
		"a Lease whose Node is free": {lease: kept, none: true},
	} {
		n := node("n", c.node, true, c.cordoned)
		n.Status.NodeInfo.BootID = "b"
		var lease *v1alpha1.Reservation
		if c.lease != "" {
			var err error
			if lease, err = v1alpha1.ReservationOf(map[string]string{v1alpha1.ReservationAnnotation: c.lease}); err != nil {
				t.Fatal(err)
			}
		}
		captures := CapturesOf(c.prototypes)
		said, isHeld := captures.Of(n)
		got, isHeld := captures.Confirm(n, said, isHeld, lease)
		if isHeld == c.none {
			t.Errorf("%s: held %t", name, isHeld)
		}
		if c.none {
			continue
		}
		c.want.Name, c.want.Ready = "n", true
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	stripped := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{
		v1alpha1.ScaleDownDisabledAnnotation: "true", v1alpha1.DoNotDisruptAnnotation: "true"}}}
	stripped.Spec.Unschedulable = true
	said, isHeld := CapturesOf(nil).Of(stripped)
	if got, _ := CapturesOf(nil).Confirm(stripped, said, isHeld, &v1alpha1.Reservation{Holder: p}); got.State != Orphaned || got.Holder != p {
		t.Errorf("without its reservation, and with a Lease: %+v", got)
	}
}
