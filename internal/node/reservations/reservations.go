// Package reservations finds which nodes are reserved, by which holder, since when, and whether the holder will release them.
//
// The package is pure. It releases nothing: see package capture and `kamino return-node`.
package reservations

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// State is whether the holder of a node will release the node.
type State string

const (
	// ByCapture: a running capture reserved the node, and will release the node.
	ByCapture State = "capture"
	// ByReplacement: a rebuild of nodes reserved the node. Whether the rebuild still runs is unknown.
	ByReplacement State = "replacement"
	// ByUnknown: only another version of Kamino can release the node: a newer one with holders of another kind, or an earlier one
	// that replaces the node.
	ByUnknown State = "unknown"
	// Orphaned: the Prototype that reserved the node is deleted or has ended.
	Orphaned State = "orphaned"
	// Unreadable: the node has an unreadable reservation, and no record of a Prototype names the node.
	Unreadable State = "unreadable"
	// Stripped: the node is cordoned and has all annotations of a reservation, but no reservation and no running
	// capture. Either a client deleted the reservation, or a person keeps the node in this state.
	Stripped State = "stripped"
	// Unconfirmed: the Node has a reservation that no Lease confirms. Any client that annotates Nodes can write a
	// reservation, so Kamino does not act on the node.
	Unconfirmed State = "unconfirmed"
)

// Node is a reserved node.
type Node struct {
	Name   string          `json:"node"`
	State  State           `json:"state"`
	Holder v1alpha1.Holder `json:"holder"`
	// Since is the start of the reservation; zero if unreadable.
	Since time.Time `json:"since,omitzero"`
	// Cordoned and Ready are the current state of the Node.
	Cordoned bool `json:"cordoned"`
	Ready    bool `json:"ready"`
	// Ordered is true if the holder ordered the generalization of the disk. Down is true if the holder stopped the node
	// or will stop the node. Either way the node must boot before it returns to service.
	Ordered bool `json:"ordered"`
	Down    bool `json:"down"`
	// InService is true if the node is Ready and accepts pods under the boot that it had to leave. A person must
	// decide.
	InService bool `json:"inService,omitempty"`
}

// Captures has the facts about Prototypes for finding holders.
type Captures struct {
	working map[types.UID]bool
	nodes   map[string]bool                // nodes of running captures, reserved or not
	donors  map[string]*v1alpha1.Prototype // nodes reserved by the record of a Prototype
}

// CapturesOf reads the facts from the Prototypes.
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

// Of returns the holder of a node; false for a free node. The record of a Prototype takes precedence over the Node's
// annotation, because the capture restores the annotation automatically.
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
		return found, true
	case err != nil || r == nil || r.UID == "":
		found.State = Unreadable
		return found, true
	}
	found.State = c.stateOf(r)
	found.Holder, found.Since = r.Holder, r.ReservedAt.Time
	found.Ordered, found.Down = r.GeneralizeBootID != "", r.LeaveBoot() != ""
	return found, true
}

// Confirm corrects the result of Of by the Lease of the reservation; lease is nil without a Lease. The Node's
// annotation is not trusted: without a Lease only a running capture can reserve its own donor.
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
	bare.InService = bare.Down && bare.Ready && !bare.Cordoned && n.Status.NodeInfo.BootID == lease.LeaveBoot()
	bare.State = c.stateOf(lease)
	return bare, true
}

// stateOf returns whether the holder of a reservation will release its node.
func (c Captures) stateOf(r *v1alpha1.Reservation) State {
	switch h := r.Holder; {
	case !h.Known(), r.Replaces():
		return ByUnknown
	case h.Is(v1alpha1.HolderReplacement):
		return ByReplacement
	case c.working[h.UID]:
		return ByCapture
	}
	return Orphaned
}

// marked reports whether a node has the cordon and all annotations of a reservation.
func marked(n *corev1.Node) bool {
	return n.Spec.Unschedulable && n.Annotations[v1alpha1.ScaleDownDisabledAnnotation] == "true" &&
		n.Annotations[v1alpha1.DoNotDisruptAnnotation] == "true"
}

// Believed reports whether the reservation is confirmed beyond the Node's annotation. Kamino acts on the instance only
// then.
func (n Node) Believed() bool {
	return n.State != Unconfirmed && n.State != Unreadable && n.State != Stripped
}

// Left reports whether no running capture will release the node.
func (n Node) Left() bool { return n.State != ByCapture }

// Returnable reports whether `kamino return-node` may release the node for its holder.
func (n Node) Returnable() bool { return n.State != ByCapture && n.State != ByUnknown }

// Kinds of leftover objects of captures.
const (
	Pod      = "pod"
	Order    = "order"
	Snapshot = "snapshot"
	Trial    = "trial"
	Workshop = "workshop"
	Copy     = "copy"
	Lease    = "lease"
	// TrialNode is the Node of a trial or a workshop that has ended. The cloud's controller deletes the Node, or Kamino with the right
	// to do so (rbac.deleteTrialNodes), or a person.
	TrialNode = "node"
)

// Leftover is an object of a capture whose Prototype is deleted or has ended.
type Leftover struct {
	// Kind is "pod", "order", "snapshot", "trial", "workshop", "copy", "lease" or "node".
	Kind string `json:"kind"`
	// Name is namespace/name of a pod, order or Lease, the name of a trial, or the ID of a snapshot.
	Name string `json:"name"`
	// Prototype and UID name the capture that made the object.
	Prototype string    `json:"prototype"`
	UID       types.UID `json:"uid"`
	// Unmarked is true for a thing in the cloud without a tag of its cluster, as earlier versions of Kamino made.
	Unmarked bool `json:"-"`
	// Overdue: its tag or its age says that even an active capture needs the thing no more.
	Overdue bool `json:"-"`
	// HeldBy keeps the cloud from deleting the thing, and Release is the command that ends it; empty without such a thing.
	HeldBy  string `json:"heldBy,omitempty"`
	Release string `json:"release,omitempty"`
}

// Command removes the leftover.
func (l Leftover) Command() string {
	if l.Kind == TrialNode {
		return "kubectl delete node " + l.Name
	}
	return "kamino return-node --leftovers"
}

// Sort orders nodes by name.
func Sort(nodes []Node) {
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
}
