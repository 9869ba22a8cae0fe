// Package nodestate reads what a Kubernetes Node says of itself. It is pure: one answer to each question, for
// everybody who asks it.
package nodestate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Ready tells whether the node's kubelet says so now.
func Ready(n *corev1.Node) bool {
	_, ready := ReadySince(n)
	return ready
}

// ReadySince is the moment from which on the node has been Ready without a break, to the second. It is false
// for a node that is not Ready now; the time is that of the last change then, and the zero time where the
// condition does not say.
func ReadySince(n *corev1.Node) (since time.Time, ready bool) {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.LastTransitionTime.Time, c.Status == corev1.ConditionTrue
		}
	}
	return time.Time{}, false
}

// arrival is for how long a node that was never Ready counts as one that has just come.
const arrival = time.Hour

// Arriving tells whether a node has come within the last hour and not been Ready yet: its condition is the one that it came with.
// Both times are in whole seconds.
func Arriving(n *corev1.Node, now time.Time) bool {
	changed, ready := ReadySince(n)
	came := n.CreationTimestamp.Time
	return !ready && now.Sub(came) < arrival && changed.Sub(came) <= 2*time.Second
}

// Available tells whether a node takes pods: it is Ready and not cordoned.
func Available(n *corev1.Node) bool { return Ready(n) && !n.Spec.Unschedulable }

// Boot is what a capture waits for on its donor: that it is Ready or no longer, and under which boot. Nothing else of a
// donor is news.
type Boot struct {
	Ready bool
	ID    string
}

// BootOf reads it.
func BootOf(n *corev1.Node) Boot { return Boot{Ready(n), n.Status.NodeInfo.BootID} }
