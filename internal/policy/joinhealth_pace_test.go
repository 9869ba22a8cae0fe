package policy_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestAPolicyThatWaitsForLessLooksMoreOften: a policy with limits of seconds has a verdict within seconds, by its own
// passes.
func TestAPolicyThatWaitsForLessLooksMoreOften(t *testing.T) {
	s := newTrust(t, func(spec *v1alpha1.PrototypePolicySpec) {
		spec.Rollback.JoinTimeout = metav1.Duration{Duration: 20 * time.Second}
	})
	s.grow(2, false)
	began := s.clock.Now()
	for s.seen().Recipe.Version == s.bad {
		after, err := s.decider.Pass(s.Context())
		s.must(err)
		if s.clock.Advance(after); s.clock.Now().Sub(began) > time.Minute {
			t.Fatalf("after %s the recipe names %s: %+v", s.clock.Now().Sub(began), s.bad, s.joinHealth())
		}
	}
	// The joining node must stay for as long as Kamino may see a node late.
	s.grow(1, true)
	for range 10 {
		s.clock.Advance(2 * time.Second)
		_, err := s.decider.Pass(s.Context())
		s.must(err)
	}
	if tags := s.tags(s.bad); tags["kamino-quarantined"] == "" {
		t.Errorf("20 seconds after the next node has joined, the version carries %v", tags)
	}
}
