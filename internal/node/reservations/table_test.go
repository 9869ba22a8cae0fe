package reservations

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// node returns a node with a reservation.
func node(name, reservation string, ready, cordoned bool) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if reservation != "" {
		n.Annotations = map[string]string{v1alpha1.ReservationAnnotation: reservation}
	}
	n.Spec.Unschedulable = cordoned
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	return n
}

// TestReservationFields: holder, start, pending boot and the conditions of the Node. The record has precedence over the
// Node.
func TestReservationFields(t *testing.T) {
	const since, earlier = "2026-03-09T12:00:00Z", "2026-03-09T11:00:00Z"
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	capturing := v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
	capturing.Status.Record = recordOf("u", `{"reservation":{"kind":"Prototype","name":"p","uid":"u","reservedAt":"`+earlier+`"},"generalizeBootID":"b"}`)
	capturing.Spec.Donor.NodeName, capturing.Status.Phase = "n", v1alpha1.PhaseGeneralizing
	for name, c := range map[string]struct {
		reservation string
		prototypes  []v1alpha1.Prototype
		want        Node
	}{
		"by its record": {`{"kind":"Prototype","name":"other","uid":"v","reservedAt":"` + since + `"}`, []v1alpha1.Prototype{capturing},
			Node{State: ByCapture, Holder: v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "p", UID: "u"}, Since: at(earlier),
				Ordered: true, Down: true}},
		"by the Node, ordered": {`{"kind":"Prototype","name":"p","uid":"u","reservedAt":"` + since + `","generalizeBootID":"b"}`, nil,
			Node{State: Orphaned, Holder: v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "p", UID: "u"}, Since: at(since), Ordered: true, Down: true}},
		"by the Node": {`{"kind":"Replacement","name":"r","uid":"w","reservedAt":"` + since + `"}`, []v1alpha1.Prototype{},
			Node{State: ByReplacement, Holder: v1alpha1.Holder{Kind: v1alpha1.HolderReplacement, Name: "r", UID: "w"}, Since: at(since)}},
		"replaced by an earlier version, touched": {`{"kind":"Prototype","name":"p","uid":"u","reservedAt":"` + since +
			`","generalizeBootID":"b","replacement":{}}`, nil,
			Node{State: ByUnknown, Holder: v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "p", UID: "u"}, Since: at(since), Ordered: true,
				Down: true}},
		"replaced by an earlier version, not touched": {`{"kind":"Prototype","name":"p","uid":"u","reservedAt":"` + since +
			`","replacement":{"growFirst":true}}`, nil,
			Node{State: ByUnknown, Holder: v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "p", UID: "u"}, Since: at(since)}},
		"unreadable": {"{", nil, Node{State: Unreadable}},
	} {
		for _, ready := range []bool{false, true} {
			for _, cordoned := range []bool{false, true} {
				want := c.want
				want.Name, want.Ready, want.Cordoned = "n", ready, cordoned
				got, isHeld := CapturesOf(c.prototypes).Of(node("n", c.reservation, ready, cordoned))
				if diff := cmp.Diff(want, got); diff != "" || !isHeld {
					t.Errorf("%s: held %t, reported (-want +got):\n%s", name, isHeld, diff)
				}
			}
		}
	}
}

// TestReleasePermissions: only a capture releases its node without a command. A person cannot release the node of a
// working capture or of an unknown holder.
func TestReleasePermissions(t *testing.T) {
	for state, want := range map[State]struct{ left, returnable bool }{
		ByCapture: {false, false}, ByUnknown: {true, false}, ByReplacement: {true, true},
		Orphaned: {true, true}, Unreadable: {true, true}, Stripped: {true, true},
	} {
		if n := (Node{State: state}); n.Left() != want.left || n.Returnable() != want.returnable {
			t.Errorf("%s: left %t, returnable %t, want %+v", state, n.Left(), n.Returnable(), want)
		}
	}
}

// recordOf is the record of a Prototype with the UID. Text that cannot be read is the record of another Prototype.
func recordOf(uid types.UID, text string) *v1alpha1.Record {
	r := &v1alpha1.Record{}
	if json.Unmarshal([]byte(text), r) == nil {
		r.UID = uid
	}
	return r
}

func TestCaptureReservesOnlyItsDonor(t *testing.T) {
	var all []v1alpha1.Prototype
	for _, name := range []string{"a", "b"} {
		p := v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "of-" + name, UID: types.UID("u-" + name)}}
		p.Status.Record = recordOf(p.UID, `{"reservation":{"kind":"Prototype","name":"of-`+name+`","uid":"u-`+name+`"}}`)
		p.Spec.Donor.NodeName = name
		all = append(all, p)
	}
	c := CapturesOf(all)
	var found []Node
	for _, name := range []string{"c", "b", "a"} {
		if n, isHeld := c.Of(node(name, "", true, false)); isHeld {
			found = append(found, n)
		}
	}
	Sort(found)
	var reported []string
	for _, n := range found {
		reported = append(reported, n.Name+" "+n.Holder.Name)
	}
	if want := []string{"a of-a", "b of-b"}; !slices.Equal(reported, want) {
		t.Errorf("held are %v, want %v", reported, want)
	}
}
