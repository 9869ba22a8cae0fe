package policy_test

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/policy"
)

// TestLookAgain: the next pass sees an acknowledgement, and only in policies that report on the pool.
func TestLookAgain(t *testing.T) {
	s := newTrust(t, nil)
	s.policy("other", func(spec *v1alpha1.PrototypePolicySpec) { spec.Pools.Names = []string{"pool9"} })
	s.grow(2, false)
	s.last(30)
	s.grow(1, true)
	s.last(10)
	if s.joinHealth().Suspect == "" {
		t.Fatalf("it did not go back: %+v", s.joinHealth())
	}
	s.acknowledge()
	s.last(1)
	if s.joinHealth().Suspect == "" {
		t.Fatal("reported already, and nothing is shown")
	}
	s.must(policy.LookAgain(s.Context(), s.client, "pool1", s.clock.Now()))
	s.last(1)
	if s.joinHealth().Suspect != "" {
		t.Errorf("it is not heard: %+v", s.joinHealth())
	}
	s.must(policy.LookAgain(s.Context(), s.client, "pool8", s.clock.Now()))
	for name, asked := range map[string]bool{"all": true, "other": false} {
		p := &v1alpha1.PrototypePolicy{}
		s.must(s.client.Get(context.WithoutCancel(s.Context()), client.ObjectKey{Name: name}, p))
		if got := p.Annotations[v1alpha1.RetryAnnotation] != ""; got != asked {
			t.Errorf("policy %s was reported %t, want %t", name, got, asked)
		}
	}
}
