// Package nodestate reads the state of a Kubernetes Node from the Node object. The package is pure.
package nodestate

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Ready reports whether the condition Ready is True.
func Ready(n *corev1.Node) bool {
	_, ready := ReadySince(n)
	return ready
}

// ReadySince reports whether the node is Ready, and the last change of the condition, in whole seconds. For a Ready
// node the change is the start of the current Ready period. The time is zero without a condition.
func ReadySince(n *corev1.Node) (since time.Time, ready bool) {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.LastTransitionTime.Time, c.Status == corev1.ConditionTrue
		}
	}
	return time.Time{}, false
}

// NotReady says why a node is not Ready, in the words of its kubelet.
func NotReady(n *corev1.Node) string {
	text := "node " + n.Name + " is not Ready"
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Message != "" {
			text += ": " + strings.TrimSuffix(c.Message, ".")
		}
	}
	return text
}

// arrival is the time after creation in which a node that was never Ready is arriving.
const arrival = time.Hour

// Arriving reports whether a node was created within the last hour and was never Ready: the condition has not changed
// since the creation. Both times are in whole seconds.
func Arriving(n *corev1.Node, now time.Time) bool {
	changed, ready := ReadySince(n)
	came := n.CreationTimestamp.Time
	return !ready && now.Sub(came) < arrival && changed.Sub(came) <= 2*time.Second
}

// Available reports whether a node accepts pods: Ready and not cordoned.
func Available(n *corev1.Node) bool { return Ready(n) && !n.Spec.Unschedulable }

// removalTaints announce that a node is about to be removed. Sources: cluster-autoscaler, utils/taints; karpenter, apis/v1, taints.go;
// aws-node-termination-handler, pkg/node/node.go: a spot interruption, or a termination by the group.
var removalTaints = []string{"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "aws-node-termination-handler/spot-itn",
	"aws-node-termination-handler/asg-lifecycle-termination"}

// Leaving returns the taint that announces the removal of a node; empty if there is none.
func Leaving(n *corev1.Node) string {
	for i := range n.Spec.Taints {
		if key := n.Spec.Taints[i].Key; slices.Contains(removalTaints, key) {
			return key
		}
	}
	return ""
}

// Boot is the part of a donor's state that a capture waits for: readiness and boot ID. Other changes do not matter.
type Boot struct {
	Ready bool
	ID    string
}

// BootOf returns the Boot of a node.
func BootOf(n *corev1.Node) Boot { return Boot{Ready(n), n.Status.NodeInfo.BootID} }
