// Package selection chooses the donor. Each rule refuses with a reason and a sentence. All rules are applied, so that a
// person sees every reason at once. Refusals judges a node that a person named; Choose judges all nodes of a pool by a
// policy's rules and takes the best.
//
// The package is pure. Package schedule decides when a capture may begin. The provider decides whether the cloud can
// capture the instance (cloud.PoolProvider.Preflight).
package selection

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// Candidate is a node that may become a donor, with the facts that the rules need.
type Candidate struct {
	Node *corev1.Node
	// Pool is the name of the node's pool.
	Pool string
	// Peers are the other nodes of the pool.
	Peers []corev1.Node
	// Reserved reports whether a Lease confirms the reservation on a peer. Nil trusts the Nodes.
	Reserved func(*corev1.Node) bool
	// OwnNode is the name of the node of this process; empty outside a node.
	OwnNode string
	// Prototype is the capture that asks: its own reservation does not refuse the node. Empty before the Prototype
	// exists.
	Prototype string
	// Disrupt allows a node with the annotation do-not-disrupt.
	Disrupt bool
	// MaxUnavailable is the limit for the pool's nodes out of service, including the donor. Zero means one.
	MaxUnavailable intstr.IntOrString
	// InService is true if the node stays in service (v1alpha1.Settings.CopiesDonor): rules about its absence do not apply.
	InService bool
}

// Reasons of the rules in this package.
const (
	ControlPlane  = "ControlPlane"
	BeingDeleted  = "BeingDeleted"
	NotReady      = "NotReady"
	DiskPressure  = "DiskPressure"
	OnlyReadyNode = "OnlyReadyNode"
	OwnNode       = "OwnNode"
	Reserved      = "Reserved"
)

// rules in the order of a person's questions.
var rules = []func(Candidate) *cloud.Refusal{
	linux, changeable, worker, staying, ready, roomy, absent(notAlone), absent(outnumbered), absent(notHere), absent(undisrupted), free,
}

// absent adapts a rule about the absence of the donor. A donor that stays in service is never absent.
func absent(rule func(Candidate) *cloud.Refusal) func(Candidate) *cloud.Refusal {
	return func(s Candidate) *cloud.Refusal {
		if s.InService {
			return nil
		}
		return rule(s)
	}
}

// Refusals applies every rule. A node without refusals may be a donor.
func Refusals(s Candidate) []cloud.Refusal {
	var refusals []cloud.Refusal
	for _, rule := range rules {
		if refusal := rule(s); refusal != nil {
			refusals = append(refusals, *refusal)
		}
	}
	return refusals
}

// refuse returns a refusal with the obstacle and the remedy. The remedy comes first in the parameters.
func refuse(reason, remedy, obstacle string, args ...any) *cloud.Refusal {
	r := cloud.Refuse(reason, fmt.Sprintf(obstacle, args...), remedy)
	return &r
}

func linux(s Candidate) *cloud.Refusal {
	os := s.Node.Labels[corev1.LabelOSStable]
	if os == "" {
		os = s.Node.Status.NodeInfo.OperatingSystem
	}
	if os == "" || os == string(corev1.Linux) {
		return nil
	}
	return refuse(cloud.SystemUnsupported, "choose a node of a Linux pool", "node %s runs %s; only Linux nodes can be captured", s.Node.Name, os)
}

// bottlerocket is the prefix of PRETTY_NAME in cloud.SystemUnsupported's os-release, as the kubelet reports it.
const bottlerocket = "Bottlerocket"

// changeable refuses a system without a package manager: cloud.SystemUnsupported updates replace the whole read-only system
// partition.
func changeable(s Candidate) *cloud.Refusal {
	os := s.Node.Status.NodeInfo.OSImage
	if !strings.HasPrefix(os, bottlerocket) {
		return nil
	}
	return refuse(cloud.SystemUnsupported, "exclude the pool; the vendor publishes updates as images",
		"node %s runs %s, an image-based system that verifies each boot, so a capture is useless", s.Node.Name, os)
}

func worker(s Candidate) *cloud.Refusal {
	for _, label := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-role.kubernetes.io/etcd"} {
		if _, found := s.Node.Labels[label]; found {
			return refuse(ControlPlane, "choose a worker node",
				"node %s is a control plane node (label %s), and control plane keys must never be in an image", s.Node.Name, label)
		}
	}
	return nil
}

func staying(s Candidate) *cloud.Refusal {
	if s.Node.DeletionTimestamp != nil {
		return refuse(BeingDeleted, "choose another", "node %s is being deleted", s.Node.Name)
	}
	if taint := nodestate.Leaving(s.Node); taint != "" {
		return refuse(BeingDeleted, "choose another", "node %s is about to be removed (taint %s)", s.Node.Name, taint)
	}
	return nil
}

func ready(s Candidate) *cloud.Refusal {
	if nodestate.Ready(s.Node) {
		return nil
	}
	return refuse(NotReady, "choose another node, or repair the node first", "node %s is not Ready", s.Node.Name)
}

// roomy refuses a node with DiskPressure, because the next boot could not write its files. Generalizing checks the free
// space again before the first change of the disk.
func roomy(s Candidate) *cloud.Refusal {
	for i := range s.Node.Status.Conditions {
		if c := &s.Node.Status.Conditions[i]; c.Type == corev1.NodeDiskPressure && c.Status == corev1.ConditionTrue {
			return refuse(DiskPressure, "free disk space, or choose another node",
				"node %s has DiskPressure, and generalizing the disk needs space", s.Node.Name)
		}
	}
	return nil
}

func notAlone(s Candidate) *cloud.Refusal {
	for i := range s.Peers {
		if takesPods(&s.Peers[i], s.Reserved) {
			return nil
		}
	}
	return onlyReadyNode(s)
}

func onlyReadyNode(s Candidate) *cloud.Refusal {
	return refuse(OnlyReadyNode, "grow the pool by one first",
		"node %s is the only Ready and schedulable node of pool %s; evicted pods would have no other node", s.Node.Name, s.Pool)
}

func notHere(s Candidate) *cloud.Refusal {
	if s.OwnNode == "" || s.OwnNode != s.Node.Name {
		return nil
	}
	return refuse(OwnNode, "run the command elsewhere, or choose another node", "this process runs on node %s and would drain itself", s.Node.Name)
}

func free(s Candidate) *cloud.Refusal {
	reservation, err := v1alpha1.ReservationOf(s.Node.Annotations)
	switch {
	case err != nil, reservation != nil && reservation.Name == "":
		return refuse(Reserved, fmt.Sprintf("to see the holder, run `kamino reservations`; without a holder, run `kamino return-node %s`", s.Node.Name),
			"node %s has an unreadable reservation (annotation %s)", s.Node.Name, v1alpha1.ReservationAnnotation)
	case reservation == nil, reservation.Is(v1alpha1.HolderPrototype) && reservation.Name == s.Prototype:
		return nil
	case !reservation.Known():
		return refuse(Reserved, "release the node with the Kamino version that reserved the node", "node %s is reserved by %s", s.Node.Name, reservation.Holder)
	case !reservation.Is(v1alpha1.HolderPrototype):
		return refuse(Reserved, fmt.Sprintf("wait for the end, or release the node with `kamino return-node %s`", s.Node.Name), "node %s is reserved by %s",
			s.Node.Name, reservation.Holder)
	}
	return refuse(Reserved, "wait for the end of the capture, or delete the prototype", "node %s is reserved by prototype %s", s.Node.Name, reservation.Name)
}
