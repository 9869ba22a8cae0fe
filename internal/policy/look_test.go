package policy_test

import (
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
	"github.com/kamino-dev/kamino/internal/policy"
)

// TestAStepOfACaptureIsLookedAtAfresh: what it changed must not be decided on as it was; a pass that is no step changes
// nothing.
func TestAStepOfACaptureIsLookedAtAfresh(t *testing.T) {
	there := memory.New(memory.Config{})
	pool := there.AddPool(memory.PoolSpec{Name: "pool1"})
	donor := there.AddInstance(pool, "0")
	provider := memory.NewFaulty(there, nil)
	looks := policy.NewLooks(provider, time.Now)
	asks := func() bool {
		t.Helper()
		before := len(provider.Calls())
		if _, err := looks.At(t.Context(), pool, time.Hour); err != nil {
			t.Fatal(err)
		}
		return len(provider.Calls()) > before
	}
	at := func(phase v1alpha1.Phase) *v1alpha1.Prototype {
		p := &v1alpha1.Prototype{}
		p.Spec.Donor.ProviderID, p.Status.Phase = string(donor), phase
		return p
	}
	if !asks() || asks() {
		t.Fatal("a look does not stand")
	}
	looks.Observe(t.Context(), at(v1alpha1.PhasePublishing), at(v1alpha1.PhasePublishing))
	if asks() {
		t.Error("a pass that was no step has the cloud asked again")
	}
	looks.Observe(t.Context(), at(v1alpha1.PhasePublishing), at(v1alpha1.PhasePromoting))
	if !asks() {
		t.Error("a step leaves what was known")
	}
}
