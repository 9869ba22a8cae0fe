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
	// Unconfirmed: the Node carries a reservation that no Lease of Kamino's confirms. Anyone who may annotate Nodes can have written
	// it, so that Kamino does nothing to the node.
	Unconfirmed State = "unconfirmed"
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
	// Removing tells that the removal of its instance has begun.
	Removing bool `json:"-"`
	// InService tells that it is Ready and takes pods under the boot that it must leave, so that a person must decide.
	InService bool `json:"inService,omitempty"`
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
	}
	found.State = c.stateOf(r.Holder)
	found.Holder, found.Since = r.Holder, r.ReservedAt.Time
	found.Ordered, found.Down = r.GeneralizeBootID != "", r.LeaveBoot() != ""
	found.Leaves = found.Ordered && r.Departure != nil
	return found, true
}

// Confirm corrects what Of tells of a node by the Lease of its reservation, which is nil if there is none. What the Node itself
// says is not believed: without a Lease, only a capture at work holds its own donor.
func (c Captures) Confirm(n *corev1.Node, found Node, isHeld bool, lease *v1alpha1.Reservation) (Node, bool) {
	if !isHeld || c.donors[n.Name] != nil || found.State == ByCapture && c.nodes[n.Name] {
		return found, isHeld
	}
	bare := Node{Name: found.Name, Cordoned: found.Cordoned, Ready: found.Ready}
	switch nameless := found.State == Unreadable || found.State == Stripped; {
	case nameless && lease == nil:
		return found, true
	case lease == nil || !nameless && !lease.Same(found.Holder):
		bare.State, bare.Holder, bare.Since = Unconfirmed, found.Holder, found.Since
		return bare, true
	}
	bare.Holder, bare.Since = lease.Holder, lease.ReservedAt.Time
	bare.Ordered, bare.Down = lease.GeneralizeBootID != "", lease.LeaveBoot() != ""
	bare.Leaves = bare.Ordered && lease.Departure != nil
	bare.Removing = bare.Leaves && lease.Departure.Removing
	bare.InService = bare.Down && bare.Ready && !bare.Cordoned && n.Status.NodeInfo.BootID == lease.LeaveBoot()
	bare.State = c.stateOf(lease.Holder)
	return bare, true
}

// stateOf tells whether a holder gives its node back.
func (c Captures) stateOf(h v1alpha1.Holder) State {
	switch {
	case !h.Known():
		return ByUnknown
	case h.Is(v1alpha1.HolderReplacement):
		return ByReplacement
	case c.working[h.UID]:
		return ByCapture
	}
	return Orphaned
}

// marked tells whether a node has all that a hold sets on it beside the reservation.
func marked(n *corev1.Node) bool {
	return n.Spec.Unschedulable && n.Annotations[v1alpha1.ScaleDownDisabledAnnotation] == "true" &&
		n.Annotations[v1alpha1.DoNotDisruptAnnotation] == "true"
}

// Believed tells whether more is known of the node's reservation than what anyone may have written on the Node. Only then is
// anything done to its instance.
func (n Node) Believed() bool {
	return n.State != Unconfirmed && n.State != Unreadable && n.State != Stripped
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
	Lease    = "lease"
)

// Leftover is a thing that a capture made, whose Prototype is gone or has ended.
type Leftover struct {
	// Kind is "pod", "order", "snapshot", "trial" or "lease".
	Kind string `json:"kind"`
	// Name of the pod, order or Lease, as namespace/name, of the trial, or the ID of the snapshot.
	Name string `json:"name"`
	// Prototype that it was made for, and its UID.
	Prototype string    `json:"prototype"`
	UID       types.UID `json:"uid"`
}

// Sort orders nodes by name.
func Sort(nodes []Node) {
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
}
