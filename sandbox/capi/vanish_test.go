package capi_test

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestDonorInstanceTerminatedByOthers: a donor's instance ends like a spot instance, and the Machine stays. If the
// disk was already changed, the Machine is removed with its place, because the pool has grown before. Any other
// Machine is released, so that its owner can delete the Machine.
func TestDonorInstanceTerminatedByOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// at is the call during which the instance ends, or a write of a call, after which the engine also crashes.
		// nth selects one of these calls, from 1.
		at  string
		nth int
		// fails is the reason of the capture's failure; empty for success.
		fails plan.Reason
		// stays: the Machine does.
		stays bool
	}{
		"before it is taken":      {at: "ProtectFromScaleIn", nth: 1, fails: plan.DonorGone, stays: true},
		"before its disk is read": {at: "EnsureSnapshot", nth: 1, fails: plan.DonorGone},
		"when it is removed":      {at: "EnsureRemoved", nth: 1},
		"once it is marked":       {at: "EnsureRemoved: PATCH machines", nth: 1},
		"once it is deleted":      {at: "EnsureRemoved: DELETE machines", nth: 1},
		"once the pool is paused": {at: "EnsureRemoved: PATCH machinedeployments", nth: 1},
		"once its place is taken": {at: "EnsureRemoved: PATCH machinesets", nth: 1},
		"once the pause is over":  {at: "EnsureRemoved: PATCH machinedeployments", nth: 2},
		"once its hook is gone":   {at: "EnsureRemoved: PATCH machines", nth: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newReplacement(t)
			seen, strikes := 0, false
			s.hears = func(what string) {
				if strikes = false; what == c.at {
					if seen++; seen == c.nth {
						strikes = true
						s.made.lose(nodeNameOf(s.donor))
					}
				}
			}
			s.cut = func(int, string) memory.Outcome {
				if strikes {
					return memory.CrashAfter()
				}
				return memory.Pass()
			}
			p := s.play()
			if seen < c.nth {
				t.Fatalf("there were %d calls %s", seen, c.at)
			}
			if c.fails == "" && p.Status.Phase != v1alpha1.PhaseSucceeded ||
				c.fails != "" && (p.Status.Failure == nil || p.Status.Failure.Reason != string(c.fails.Public())) {
				t.Errorf("the capture has come to: %s", verdict(p))
			}
			size := int64(2)
			if c.stays {
				size++ // the node of the growth stays, too
			}
			if now := s.current(s.donor); (now != nil) != c.stays || now != nil && now.GetDeletionTimestamp() != nil {
				t.Errorf("the donor's Machine is %v", now)
			}
			s.wantUnmarked()
			if above, machines := s.get("MachineDeployment", s.pool.name), s.list("Machine"); replicas(*above) != size || len(machines) != int(size) {
				t.Errorf("the pool wants %d machines, and has %d, want %d", replicas(*above), len(machines), size)
			}
			s.wantUntouched(s.peer)
		})
	}
}
