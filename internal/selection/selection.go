// Package selection decides which node is the donor. Each rule refuses by a name and a sentence; all rules
// are asked, so that a person sees every reason at once. Refusals judges a node that a person named; Choose
// judges all nodes of a pool by a policy's rules and takes the best.
//
// It is pure: what it needs to know of the cluster is given to it. When a capture may begin is package
// schedule's to say, and whether the cloud can capture the instance is the provider's
// (cloud.Recipes.Preflight).
package selection

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

// Subject is a node that may become a donor, and what the rules need to know around it.
type Subject struct {
	Node *corev1.Node
	// Pool is the name of the node's pool.
	Pool string
	// Peers are the other nodes of its pool.
	Peers []corev1.Node
	// OwnNode is the name of the node that this process runs on; empty if it runs on none.
	OwnNode string
	// Prototype that asks; a reservation of its own does not refuse. Empty if none exists yet.
	Prototype string
	// Disrupt: a node that asks not to be disrupted may be taken all the same.
	Disrupt bool
	// MaxUnavailable of the pool's nodes, the donor included. One if it is zero.
	MaxUnavailable intstr.IntOrString
}

// Reasons of the rules in this package.
const (
	NotLinux      = "NotLinux"
	ControlPlane  = "ControlPlane"
	BeingDeleted  = "BeingDeleted"
	NotReady      = "NotReady"
	DiskPressure  = "DiskPressure"
	OnlyReadyNode = "OnlyReadyNode"
	OwnNode       = "OwnNode"
	Reserved      = "Reserved"
)

// rules, in the order in which a person would ask.
var rules = []func(Subject) *cloud.Refusal{linux, worker, staying, ready, roomy, notAlone, outnumbered, notHere, undisrupted, free}

// Refusals asks every rule. None means that the node may be a donor.
func Refusals(s Subject) []cloud.Refusal {
	var refusals []cloud.Refusal
	for _, rule := range rules {
		if refusal := rule(s); refusal != nil {
			refusals = append(refusals, *refusal)
		}
	}
	return refusals
}

func refuse(reason, format string, args ...any) *cloud.Refusal {
	return &cloud.Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func linux(s Subject) *cloud.Refusal {
	os := s.Node.Labels[corev1.LabelOSStable]
	if os == "" {
		os = s.Node.Status.NodeInfo.OperatingSystem
	}
	if os == "" || os == string(corev1.Linux) {
		return nil
	}
	return refuse(NotLinux, "node %s runs %s; only Linux nodes can be captured: choose a node of a Linux pool", s.Node.Name, os)
}

func worker(s Subject) *cloud.Refusal {
	for _, label := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
		if _, found := s.Node.Labels[label]; found {
			return refuse(ControlPlane, "node %s is of the control plane (label %s), whose keys must never be in an image: choose a worker node", s.Node.Name, label)
		}
	}
	return nil
}

func staying(s Subject) *cloud.Refusal {
	if s.Node.DeletionTimestamp == nil {
		return nil
	}
	return refuse(BeingDeleted, "node %s is being deleted: choose another", s.Node.Name)
}

func ready(s Subject) *cloud.Refusal {
	if nodestate.Ready(s.Node) {
		return nil
	}
	return refuse(NotReady, "node %s is not Ready, and a node that does not work is no prototype: choose another, or mend it first", s.Node.Name)
}

// roomy refuses a node whose kubelet says that its disk is nearly full: what its next boot needs could not be
// written. A look at the disk itself comes before anything is changed on it.
func roomy(s Subject) *cloud.Refusal {
	for i := range s.Node.Status.Conditions {
		if c := &s.Node.Status.Conditions[i]; c.Type == corev1.NodeDiskPressure && c.Status == corev1.ConditionTrue {
			return refuse(DiskPressure, "node %s has hardly any room left on its disk, and generalizing it needs some: make room there, or choose another", s.Node.Name)
		}
	}
	return nil
}

func notAlone(s Subject) *cloud.Refusal {
	for i := range s.Peers {
		if takesPods(&s.Peers[i]) {
			return nil
		}
	}
	return onlyReadyNode(s)
}

func onlyReadyNode(s Subject) *cloud.Refusal {
	return refuse(OnlyReadyNode, "node %s is the only one of pool %s that is Ready and schedulable; taking it out would leave its pods nowhere to go: grow the pool by one first", s.Node.Name, s.Pool)
}

func notHere(s Subject) *cloud.Refusal {
	if s.OwnNode == "" || s.OwnNode != s.Node.Name {
		return nil
	}
	return refuse(OwnNode, "this process runs on node %s and would be drained by its own work: run it elsewhere, or choose another node", s.Node.Name)
}

func free(s Subject) *cloud.Refusal {
	reservation, err := v1alpha1.ReservationOf(s.Node.Annotations)
	switch {
	case err != nil, reservation != nil && reservation.Name == "":
		return refuse(Reserved, "node %s carries a reservation that cannot be read (annotation %s): `kamino held` tells who holds the node, and `kamino return %s` gives it back if nobody does", s.Node.Name, v1alpha1.ReservationAnnotation, s.Node.Name)
	case reservation == nil, reservation.Is(v1alpha1.HolderPrototype) && reservation.Name == s.Prototype:
		return nil
	case !reservation.Known():
		return refuse(Reserved, "node %s is held by %s: the version that took it gives it back", s.Node.Name, reservation.Holder)
	case !reservation.Is(v1alpha1.HolderPrototype):
		return refuse(Reserved, "node %s is held by %s: let it end, or give the node back with `kamino return %s`", s.Node.Name, reservation.Holder, s.Node.Name)
	}
	return refuse(Reserved, "node %s is reserved by prototype %s: wait until it is done, or delete that prototype", s.Node.Name, reservation.Name)
}
