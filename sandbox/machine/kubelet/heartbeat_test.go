package kubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStatusHeartbeats: a status with an older heartbeat than a kubelet allows is written again.
func TestStatusHeartbeats(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		ready corev1.ConditionStatus
		age   time.Duration
		want  bool
	}{
		{corev1.ConditionTrue, time.Minute, true},
		{corev1.ConditionTrue, statusReport + time.Second, false},
		{corev1.ConditionUnknown, time.Minute, false},
	} {
		status := &corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: test.ready, LastHeartbeatTime: metav1.NewTime(now.Add(-test.age)),
		}}}
		if got := reportedRecently(status, corev1.ConditionTrue, now); got != test.want {
			t.Errorf("Ready %s, said %s ago: %t", test.ready, test.age, got)
		}
	}
}
