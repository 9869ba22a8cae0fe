package nodestate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestState(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	is := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(at)}
	}
	for _, test := range []struct {
		name             string
		conditions       []corev1.NodeCondition
		cordoned         bool
		ready, available bool
		since            time.Time
	}{
		{name: "says nothing"},
		{name: "Ready", conditions: []corev1.NodeCondition{is(corev1.NodeReady, corev1.ConditionTrue)}, ready: true, available: true, since: at},
		{name: "cordoned", conditions: []corev1.NodeCondition{is(corev1.NodeReady, corev1.ConditionTrue)}, cordoned: true, ready: true, since: at},
		{name: "not Ready", conditions: []corev1.NodeCondition{is(corev1.NodeReady, corev1.ConditionFalse)}, since: at},
		{name: "silent", conditions: []corev1.NodeCondition{is(corev1.NodeReady, corev1.ConditionUnknown)}, since: at},
		{name: "another condition is true", conditions: []corev1.NodeCondition{is(corev1.NodeDiskPressure, corev1.ConditionTrue)}},
		{
			name:       "the last of several",
			conditions: []corev1.NodeCondition{is(corev1.NodeDiskPressure, corev1.ConditionFalse), is(corev1.NodeReady, corev1.ConditionTrue)},
			ready:      true, available: true, since: at,
		},
		{
			name:       "no time",
			conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			ready:      true, available: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: test.cordoned}, Status: corev1.NodeStatus{Conditions: test.conditions}}
			since, ready := ReadySince(n)
			if ready != test.ready || !since.Equal(test.since) || Ready(n) != test.ready || Available(n) != test.available {
				t.Errorf("ReadySince is %v, %v; Ready %v; Available %v", since, ready, Ready(n), Available(n))
			}
		})
	}
}

// TestArriving: a Node that is not Ready is arriving only if the Node is new and was never Ready.
func TestArriving(t *testing.T) {
	came := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		ready   corev1.ConditionStatus
		changed time.Duration
		age     time.Duration
		want    bool
	}{
		"has just come":         {corev1.ConditionFalse, time.Second, time.Minute, true},
		"its status is to come": {"", -1, time.Second, true},
		"is Ready":              {corev1.ConditionTrue, time.Second, time.Minute, false},
		"was Ready":             {corev1.ConditionFalse, 30 * time.Second, time.Minute, false},
		"has fallen silent":     {corev1.ConditionUnknown, 10 * time.Minute, 20 * time.Minute, false},
		"came an hour ago":      {corev1.ConditionFalse, time.Second, time.Hour, false},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(came)}}
		if test.ready != "" {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: test.ready,
				LastTransitionTime: metav1.NewTime(came.Add(test.changed))}}
		}
		if got := Arriving(n, came.Add(test.age)); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestBootOf: a change of Ready or of the boot ID changes the result. Labels, other conditions and heartbeats do not.
func TestBootOf(t *testing.T) {
	node := func(ready corev1.ConditionStatus, boot string) *corev1.Node {
		n := &corev1.Node{}
		n.Status.NodeInfo.BootID = boot
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: ready}}
		return n
	}
	before := BootOf(node(corev1.ConditionTrue, "a"))
	if before != (Boot{Ready: true, ID: "a"}) {
		t.Errorf("it is %+v", before)
	}
	for name, test := range map[string]struct {
		after *corev1.Node
		news  bool
	}{
		"as it was":  {node(corev1.ConditionTrue, "a"), false},
		"not Ready":  {node(corev1.ConditionFalse, "a"), true},
		"unknown":    {node(corev1.ConditionUnknown, "a"), true},
		"a new boot": {node(corev1.ConditionTrue, "b"), true},
		"no word":    {&corev1.Node{}, true},
	} {
		test.after.Labels = map[string]string{"any": "label"}
		if (BootOf(test.after) != before) != test.news {
			t.Errorf("%s: %+v", name, BootOf(test.after))
		}
	}
}

// TestNotReady: the words of the kubelet follow the name.
func TestNotReady(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	if got := NotReady(n); got != "node node-1 is not Ready" {
		t.Error(got)
	}
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeDiskPressure, Message: "no pressure"}, {Type: corev1.NodeReady, Message: "cni plugin not initialized."}}
	if got := NotReady(n); got != "node node-1 is not Ready: cni plugin not initialized" {
		t.Error(got)
	}
}
