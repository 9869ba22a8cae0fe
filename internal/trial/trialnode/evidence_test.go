package trialnode

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

// anEvent is a Warning event of a pod, from the kubelet of the node.
func anEvent(name, node, reason string, count int32) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}, Type: corev1.EventTypeWarning, Reason: reason,
		Message: "the message of " + reason, Count: count,
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "log-agent"}, Source: corev1.EventSource{Component: "kubelet", Host: node},
	}
}

// TestEvidence has the most frequent events of the node and of its pods.
func TestEvidence(t *testing.T) {
	about := anEvent("n", "", "KernelDeadlock", 0)
	about.InvolvedObject = corev1.ObjectReference{Kind: "Node", Name: "t-0"}
	newer := anEvent("m", "", "Unhealthy", 0)
	newer.ReportingInstance = "t-0"
	of := func(events ...runtime.Object) string {
		return (&Observer{Kube: fake.NewClientset(events...)}).Evidence(t.Context(), "t-0")
	}
	for name, c := range map[string]struct {
		events []runtime.Object
		want   string
	}{
		"none":            {nil, ""},
		"another's":       {[]runtime.Object{anEvent("a", "w-1", "Failed", 9)}, ""},
		"one":             {[]runtime.Object{anEvent("a", "t-0", "Failed", 1)}, ". Warning events: Pod log-agent: Failed: the message of Failed"},
		"about the Node":  {[]runtime.Object{about}, ". Warning events: Node t-0: KernelDeadlock: the message of KernelDeadlock"},
		"by another name": {[]runtime.Object{newer}, ". Warning events: Pod log-agent: Unhealthy: the message of Unhealthy"},
		"many": {[]runtime.Object{anEvent("a", "t-0", "A", 1), anEvent("b", "t-0", "B", 4), anEvent("c", "t-0", "B", 3), anEvent("d", "t-0", "C", 2),
			anEvent("e", "t-0", "D", 3)},
			". Warning events: Pod log-agent: B: the message of B (7 times); Pod log-agent: D: the message of D (3 times); Pod log-agent: C: " +
				"the message of C (2 times)"},
	} {
		if got := of(c.events...); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	long := anEvent("l", "t-0", "Failed", 1)
	long.Message = "a\n" + strings.Repeat("x", 5000)
	if got := of(long); strings.Contains(got, "\n") || len(got) > 300 {
		t.Errorf("%q", got)
	}
	if got := (&Observer{Kube: fake.NewClientset(anEvent("a", "t-0", "A", 1))}).Evidence(t.Context(), ""); got != "" {
		t.Errorf("without a Node: %q", got)
	}
}
