package policy_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestReadyMessageOfPolicy reads the message that kubectl shows without an obstacle.
func TestReadyMessageOfPolicy(t *testing.T) {
	s := newTestEnv(t)
	says := func(want string) {
		t.Helper()
		s.runPass()
		if got := meta.FindStatusCondition(s.status("all").Status.Conditions, v1alpha1.ConditionReady); got == nil || got.Message != want {
			t.Errorf("it says %+v, want %q", got, want)
		}
	}
	s.pool("pool1", 1, 1) // whose only node is never taken
	s.policy("all", nil)
	says("Kamino watches 1 pool; status.pools shows the decision")
	s.pool("pool2", 1, 1)
	says("Kamino watches 2 pools; status.pools shows the decisions")
	s.pool("pool3", 2, 3)
	says("a capture runs in 1 of 3 pools")
}
