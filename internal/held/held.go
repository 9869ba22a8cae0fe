// Package held tells which nodes are held, by whom, since when, and whether that holder is there to give them back.
//
// It is pure: Nodes and Prototypes are given to it. It does not give anything back (package capture, kamino return).
package held

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

// State says whether somebody will give a node back.
type State string

const (
	// ByCapture: a capture holds it that has not ended, and gives it back.
	ByCapture State = "capture"
	// ByReplacement: a replacement of nodes holds it, or did when it was interrupted: nobody can tell.
	ByReplacement State = "replacement"
	// ByUnknown: something holds it that a newer version of Kamino knows, which gives it back.
	ByUnknown State = "unknown"
	// Orphaned: the Prototype that holds it is gone or has ended.
	Orphaned State = "orphaned"
	// Unreadable: it carries a reservation that cannot be read, and no Prototype's record speaks of it.
	Unreadable State = "unreadable"
	// Stripped: it is cordoned and carries every annotation that a hold sets, but no reservation, and no capture is at
	// work on it: somebody took the reservation away, unless somebody else keeps the node like that.
	Stripped State = "stripped"
)

// Node is a node that is held.
type Node struct {
	Name   string          `json:"node"`
	State  State           `json:"state"`
	Holder v1alpha1.Holder `json:"holder"`
	// Since is when the hold began; zero if that cannot be read.
	Since time.Time `json:"since,omitzero"`
	// Cordoned and Ready are what the Node says now.
	Cordoned bool `json:"cordoned"`
	Ready    bool `json:"ready"`
	// Ordered tells that its disk was ordered generalized, and Down that it went down for its holder or is to, as with each
	// order: it must go through a boot before it serves again.
	Ordered bool `json:"ordered"`
	Down    bool `json:"down"`
	// Leaves tells that it does not return, because what it joined by is off its disk: its instance is removed instead.
	Leaves bool `json:"leaves,omitempty"`
}

// Captures are the Prototypes as much as telling holders needs of them.
type Captures struct {
	working map[types.UID]bool
	nodes   map[string]bool                // that a capture is at work on, whether it holds them or not
	donors  map[string]*v1alpha1.Prototype // whose record says that they are held
}

// CapturesOf reads the Prototypes.
func CapturesOf(all []v1alpha1.Prototype) Captures {
	c := Captures{working: map[types.UID]bool{}, nodes: map[string]bool{}, donors: map[string]*v1alpha1.Prototype{}}
	for i := range all {
		p := &all[i]
		if p.Status.Terminal() {
			continue
		}
		c.working[p.UID], c.nodes[p.Spec.Donor.NodeName] = true, true
		if record, err := v1alpha1.RecordOf(p); err == nil && record.Reservation != nil {
			c.donors[p.Spec.Donor.NodeName] = p
		}
	}
	return c
}

// Of tells who holds a node; false if nobody does. What a Prototype's record says counts before what stands on the
// Node: its engine mends that by itself.
func (c Captures) Of(n *corev1.Node) (Node, bool) {
	text := n.Annotations[v1alpha1.ReservationAnnotation]
	donor := c.donors[n.Name]
	found := Node{Name: n.Name, Cordoned: n.Spec.Unschedulable, Ready: nodestate.Ready(n)}
	if text == "" && donor == nil {
		found.State = Stripped
		return found, !c.nodes[n.Name] && marked(n)
	}
	r, err := v1alpha1.ReservationOf(n.Annotations)
	switch {
	case donor != nil:
		record, _ := v1alpha1.RecordOf(donor)
		r = record.Reservation
		found.State = ByCapture
		found.Holder = v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: donor.Name, UID: donor.UID}
		found.Since, found.Ordered, found.Down = r.ReservedAt.Time, record.GeneralizeBootID != "", record.LeaveBoot() != ""
		found.Leaves = found.Ordered && (record.Departure != nil || r.Departure != nil)
		return found, true
	case err != nil || r == nil || r.UID == "":
		found.State = Unreadable
		return found, true
	case !r.Known():
		found.State = ByUnknown
	case r.Is(v1alpha1.HolderReplacement):
		found.State = ByReplacement
	case c.working[r.UID]:
		found.State = ByCapture
	default:
		found.State = Orphaned
	}
	found.Holder, found.Since = r.Holder, r.ReservedAt.Time
	found.Ordered, found.Down = r.GeneralizeBootID != "", r.LeaveBoot() != ""
	found.Leaves = found.Ordered && r.Departure != nil
	return found, true
}

// marked tells whether a node has all that a hold sets on it beside the reservation.
func marked(n *corev1.Node) bool {
	return n.Spec.Unschedulable && n.Annotations[v1alpha1.ScaleDownDisabledAnnotation] == "true" &&
		n.Annotations[v1alpha1.DoNotDisruptAnnotation] == "true"
}

// Left tells whether a node is held by nobody of whom it is known that he is at work and gives it back by himself.
func (n Node) Left() bool { return n.State != ByCapture }

// Returnable tells whether a person may have the node given back in the holder's place.
func (n Node) Returnable() bool { return n.State != ByCapture && n.State != ByUnknown }

// Kinds of what captures leave.
const (
	Pod      = "pod"
	Order    = "order"
	Snapshot = "snapshot"
	Trial    = "trial"
)

// Leftover is a thing that a capture made, whose Prototype is gone or has ended.
type Leftover struct {
	// Kind is "pod", "order", "snapshot" or "trial".
	Kind string `json:"kind"`
	// Name of the pod or order, as namespace/name, of the trial, or the ID of the snapshot.
	Name string `json:"name"`
	// Prototype that it was made for, and its UID.
	Prototype string    `json:"prototype"`
	UID       types.UID `json:"uid"`
}

// Sort orders nodes by name.
func Sort(nodes []Node) {
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
}
