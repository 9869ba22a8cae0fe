package nodelabel

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestASecondNodeOfAnInstanceIsNoJoin: of two Nodes with one instance, the joined Node is unknown.
func TestASecondNodeOfAnInstanceIsNoJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestEnv(t)
		s.start()
		n := s.node("n", true)
		s.nodeOf("forged", n.Spec.ProviderID, true)
		s.after(time.Minute)
		if len(s.joined) > 0 {
			t.Errorf("joined: %v", s.joined)
		}
		s.node("m", true)
		s.after(time.Minute)
		if len(s.joined) != 1 {
			t.Errorf("joined: %v", s.joined)
		}
	})
}
