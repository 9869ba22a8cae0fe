package nodejoin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// Taints of other controllers for a node that will be removed or is stopped.
const (
	autoscalerTaint = "ToBeDeletedByClusterAutoscaler"
	shutdownTaint   = "node.cloudprovider.kubernetes.io/shutdown"
)

// forgotten is the largest age of an instance without a Node. Whether an older instance ever joined is unknown.
const forgotten = 24 * time.Hour

// Observation is the state of a pool in one look.
type Observation struct {
	Now       time.Time
	Instances []cloud.Instance
	// Nodes are the pool's Nodes.
	Nodes []*corev1.Node
	// Images are the pool's versions.
	Images []cloud.Image
	// UnhealthyDaemonSets are by node name.
	UnhealthyDaemonSets map[string]UnhealthyDaemonSet
	// Same compares two instance IDs by the cloud's rules.
	Same func(a, b cloud.InstanceID) bool
	// Reserved reports whether a Lease confirms the reservation on a Node. Nil trusts the Nodes.
	Reserved func(*corev1.Node) bool
	// WithoutKubelet has the Nodes, by UID, without a Lease from a kubelet: see node.Kubelets.Without. Such a Node is
	// forged.
	WithoutKubelet map[types.UID]bool
}

// UnhealthyDaemonSet is an unready pod of a DaemonSet that is healthy on other nodes.
type UnhealthyDaemonSet struct {
	// DaemonSet is namespace/name. Since is when the pod became unready.
	DaemonSet string
	Since     time.Time
}

// Nodes returns the pool's instances with their Nodes, except instances in removal.
func Nodes(s Observation) []joinhealth.Node {
	byID := s.byInstance()
	made := map[string]time.Time{}
	for _, image := range s.Images {
		made[image.Version] = history.BuiltAt(image)
	}
	all := make([]joinhealth.Node, 0, len(s.Instances))
	for i := range s.Instances {
		instance := &s.Instances[i]
		if instance.Removing {
			continue // an instance in removal does not join
		}
		all = append(all, s.one(instance, byID[fold(instance.ID)], made[instance.BuiltFrom]))
	}
	return all
}

// Names returns the name of each instance's oldest Node, or the instance's ID before the node has joined.
func Names(s Observation) []string {
	names, byID := make([]string, len(s.Instances)), s.byInstance()
	for i := range s.Instances {
		names[i] = string(s.Instances[i].ID)
		if nodes := byID[fold(s.Instances[i].ID)]; len(nodes) > 0 {
			names[i] = nodes[0].Name
		}
	}
	return names
}

// OtherNodes are the instances of a pool with a Node, in numbers.
type OtherNodes struct {
	Nodes, Ready, Arriving int
}

// Count counts each instance once, by its oldest Node. A Node without an instance in the cloud and a second Node of an
// instance are ignored: any client that writes Nodes can have created them.
func Count(s Observation) OtherNodes {
	var o OtherNodes
	byID := s.byInstance()
	for i := range s.Instances {
		nodes := slices.DeleteFunc(byID[fold(s.Instances[i].ID)], func(n *corev1.Node) bool { return s.WithoutKubelet[n.UID] })
		if s.Instances[i].Removing || len(nodes) == 0 {
			continue
		}
		o.Nodes++
		switch {
		case nodestate.Ready(nodes[0]):
			o.Ready++
		case nodestate.Arriving(nodes[0], s.Now):
			o.Arriving++
		}
	}
	return o
}

func fold(id cloud.InstanceID) cloud.InstanceID { return cloud.InstanceID(strings.ToLower(string(id))) }

// byInstance returns the Nodes of each instance by its ID, regardless of spelling: oldest first, then by name.
func (s Observation) byInstance() map[cloud.InstanceID][]*corev1.Node {
	byID := make(map[cloud.InstanceID][]*corev1.Node, len(s.Nodes))
	known := make(map[cloud.InstanceID]bool, len(s.Instances))
	for i := range s.Instances {
		known[fold(s.Instances[i].ID)] = true
	}
	for _, node := range s.Nodes {
		id := fold(cloud.InstanceID(node.Spec.ProviderID))
		if !known[id] && id != "" && s.Same != nil {
			i := slices.IndexFunc(s.Instances, func(i cloud.Instance) bool { return s.Same(cloud.InstanceID(node.Spec.ProviderID), i.ID) })
			if i >= 0 {
				id = fold(s.Instances[i].ID)
			}
		}
		byID[id] = append(byID[id], node)
	}
	for _, nodes := range byID {
		slices.SortFunc(nodes, func(a, b *corev1.Node) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
	}
	return byID
}

// one returns an instance with its Node, or without. made is when the instance's image was built.
func (s Observation) one(instance *cloud.Instance, named []*corev1.Node, made time.Time) joinhealth.Node {
	nodes := slices.DeleteFunc(slices.Clone(named), func(n *corev1.Node) bool { return s.WithoutKubelet[n.UID] })
	var node *corev1.Node
	if len(nodes) > 0 {
		node = nodes[0]
	}
	n := joinhealth.Node{Instance: instance.ID, Zone: instance.Zone, Version: instance.BuiltFrom, Running: instance.CreatedAt.UTC().Truncate(time.Second)}
	if node != nil && instance.CreatedAt.IsZero() {
		n.Running = node.CreationTimestamp.UTC() // the cloud does not report the start
	}
	n.ExcludedReason = s.excludedReason(instance, node, made)
	if node == nil {
		if len(named) > 0 {
			n.Forged = named[0].Name
		}
		return n
	}
	n.Name, n.UID = node.Name, string(node.UID)
	if len(nodes) > 1 {
		n.ExcludedReason = fmt.Sprintf("nodes %s and %s name the same instance", nodes[0].Name, nodes[1].Name)
	}
	n.Changed, n.Ready = nodestate.ReadySince(node)
	if lack, lacking := s.UnhealthyDaemonSets[node.Name]; lacking {
		n.UnhealthyDaemonSet, n.UnhealthySince = lack.DaemonSet, lack.Since
	}
	return n
}

func (s Observation) isReserved(node *corev1.Node) bool {
	return node.Annotations[v1alpha1.ReservationAnnotation] != "" && (s.Reserved == nil || s.Reserved(node))
}

// excludedReason returns why a node says nothing about its version; empty if the node is judged.
func (s Observation) excludedReason(instance *cloud.Instance, node *corev1.Node, made time.Time) string {
	switch {
	case instance.Power == cloud.PowerStopped || instance.Power == cloud.PowerStopping:
		return "the instance is stopped"
	case instance.CreatedAt.Before(made) && !instance.CreatedAt.IsZero():
		return "the instance was rebuilt, and the cloud does not report the time"
	case node == nil && !instance.CreatedAt.IsZero() && s.Now.Sub(instance.CreatedAt) > forgotten:
		return "is without a Node for so long that an earlier Node is unknown"
	case node == nil:
		return ""
	case node.DeletionTimestamp != nil:
		return "the Node is being deleted"
	case s.isReserved(node):
		return "is held by Kamino"
	case node.Spec.Unschedulable:
		return "is cordoned"
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == autoscalerTaint || taint.Key == shutdownTaint {
			return fmt.Sprintf("has the taint %s", taint.Key)
		}
	}
	return ""
}

// Young reports whether the outcome of a join may still change: the join is pending, or the node joined a short time
// ago.
func Young(joins []joinhealth.Join, version string, now time.Time, limits joinhealth.Limits) bool {
	watch := limits.Defaulted().Watch
	for _, join := range joins {
		open := join.Outcome == joinhealth.Waiting || join.Outcome == joinhealth.Joined && now.Sub(join.Running) <= watch
		if open && same(join.Version, version) && !join.Running.IsZero() {
			return true
		}
	}
	return false
}

// Memory keeps so many joins of a version. Failures are evidence for other pools, too.
const (
	rememberedFailed = 24
	rememberedJoined = 24
	rememberedOpen   = 16
)

// Memory returns the joins of a version for the next look: the newest judged joins, overdue joins, and joins with a known
// Node.
func Memory(joins []joinhealth.Join, version string) []joinhealth.Join {
	var kept, open []joinhealth.Join
	failed, joined := 0, 0
	for _, join := range slices.Backward(joins) {
		switch {
		case !same(join.Version, version):
		case join.Outcome == joinhealth.Failed:
			if failed++; failed <= rememberedFailed {
				kept = append(kept, join)
			}
		case join.Outcome == joinhealth.Joined:
			if joined++; joined <= rememberedJoined {
				kept = append(kept, join)
			}
		case join.Outcome == joinhealth.Waiting && (!join.OverdueSince.IsZero() || join.NodeUID != ""), join.Doubted:
			open = append(open, join)
		}
	}
	slices.Reverse(kept)
	// Overdue joins come first.
	slices.SortStableFunc(open, func(a, b joinhealth.Join) int { return cmp.Compare(rank(a), rank(b)) })
	return append(kept, open[:min(len(open), rememberedOpen)]...)
}

func rank(join joinhealth.Join) int {
	if join.Outcome == joinhealth.Waiting && !join.OverdueSince.IsZero() {
		return 0
	}
	return 1
}

func same(a, b string) bool { return a != "" && b != "" && imageversion.Compare(a, b) == 0 }

// Keep drops the joins of removed instances, except the joins that Memory keeps.
func Keep(joins []joinhealth.Join, nodes []joinhealth.Node, version string) []joinhealth.Join {
	wanted := map[cloud.InstanceID]bool{}
	for _, n := range nodes {
		wanted[n.Instance] = true
	}
	for _, join := range Memory(joins, version) {
		wanted[join.Instance] = true
	}
	return slices.DeleteFunc(joins, func(join joinhealth.Join) bool { return !wanted[join.Instance] })
}

// Strip returns a copy of a Node with only the fields about joining, for callers that keep many Nodes.
func Strip(n *corev1.Node) *corev1.Node {
	kept := &corev1.Node{}
	kept.Name, kept.UID, kept.CreationTimestamp, kept.DeletionTimestamp = n.Name, n.UID, n.CreationTimestamp, n.DeletionTimestamp
	kept.Spec.ProviderID, kept.Spec.Unschedulable, kept.Spec.Taints = n.Spec.ProviderID, n.Spec.Unschedulable, n.Spec.Taints
	if held := n.Annotations[v1alpha1.ReservationAnnotation]; held != "" {
		kept.Annotations = map[string]string{v1alpha1.ReservationAnnotation: held}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			kept.Status.Conditions = []corev1.NodeCondition{c}
		}
	}
	return kept
}
