package policy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// fails lets looks at pools fail until now returns false.
func (s *testEnv) fails(so memory.Outcome, now func() bool) {
	s.calls = memory.NewFaulty(s.cloud, func(c memory.Call) memory.Outcome {
		if c.Op == "Pool" && now() {
			return so
		}
		return memory.Pass()
	})
	s.restart()
}

// throttle lets the cloud refuse looks until now returns false.
func (s *testEnv) throttle(after time.Duration, now func() bool) {
	s.fails(memory.Throttle(after), now)
}

// A burst of looks beyond Azure's limit is over in a moment: only the pool's status shows the error.
func TestAThrottledLookIsMadeAgainSoon(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.policy("all", nil)
	throttled := true
	s.throttle(time.Second, func() bool { return throttled })
	s.runPass()
	s.decided("all", "pool1", v1alpha1.PolicyCloudUnavailable)
	s.well("all")
	if got := s.donors(); len(got) > 0 {
		t.Errorf("donors = %v", got)
	}
	throttled = false
	if s.after > 10*time.Second {
		t.Errorf("the next pass is made after %s", s.after)
	}
	s.clock.Advance(s.after)
	s.runPass()
	if got := s.donors(); len(got) != 1 {
		t.Errorf("donors = %v", got)
	}
	if s.heardOf(v1alpha1.PolicyCloudUnavailable) {
		t.Error("an event reports a moment's trouble")
	}
}

// Kamino repeats a lost request in a moment, and asks an absent cloud less and less often: a rollback needs the cloud's
// answer. The condition reports the cloud at once.
func TestACloudThatIsAwayIsAskedAgainSoon(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.policy("all", func(p *v1alpha1.PrototypePolicySpec) { p.DryRun = true })
	begin, away := s.clock.Now(), true
	var asked []time.Duration
	s.fails(memory.FailBefore(cloud.Unavailable), func() bool {
		asked = append(asked, s.clock.Now().Sub(begin))
		return away
	})
	s.runPass()
	s.stalled("all", v1alpha1.PolicyCloudUnavailable, "pool pool1", "Kamino tries again automatically")
	for s.clock.Now().Sub(begin) < 40*time.Minute {
		s.clock.Advance(s.after)
		s.runPass()
	}
	want := []float64{5, 10, 20, 40, 80, 160, 320, 600, 600, 600}
	for i := 1; i < len(asked); i++ {
		if pause := asked[i] - asked[i-1]; i > len(want) || pause.Seconds() != want[i-1] {
			t.Errorf("asked after %v, want after pauses of %v seconds", asked, want)
			break
		}
	}
	away = false
	s.clock.Advance(s.after)
	s.runPass()
	s.decided("all", "pool1", v1alpha1.PolicyDryRun)
	s.well("all")
	away = true
	s.clock.Advance(time.Hour)
	s.runPass()
	if s.after > 10*time.Second {
		t.Errorf("once it has answered, a lost answer is asked for again after %s", s.after)
	}
}

// Kamino asks a cloud that keeps throttling less and less often, and the condition reports the cloud.
func TestLastingThrottleSlowsRequests(t *testing.T) {
	s := newTestEnv(t)
	s.inMemory()
	s.pool("pool1", 3, 20)
	s.policy("all", nil)
	begin := s.clock.Now()
	var asked []time.Duration
	s.throttle(time.Second, func() bool {
		asked = append(asked, s.clock.Now().Sub(begin))
		return true
	})
	for s.clock.Now().Sub(begin) < 35*time.Second {
		s.runPass()
		s.well("all")
		s.clock.Advance(time.Second)
	}
	s.runPass()
	s.stalled("all", v1alpha1.PolicyCloudUnavailable, "pool pool1", "Kamino tries again automatically")
	for s.clock.Now().Sub(begin) < 400*time.Second {
		s.runPass()
		s.clock.Advance(time.Second)
	}
	want := []time.Duration{0, 5 * time.Second, 15 * time.Second, 35 * time.Second, 75 * time.Second, 155 * time.Second, 315 * time.Second}
	if !slices.Equal(asked, want) {
		t.Errorf("asked after %v, want %v", asked, want)
	}
}

// Kamino waits as long as the cloud asks.
func TestThrottleDelayIsRespected(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.policy("all", nil)
	asked := 0
	s.throttle(20*time.Minute, func() bool { asked++; return true })
	for range 19 {
		s.runPass()
		s.clock.Advance(time.Minute)
	}
	if asked != 1 {
		t.Errorf("asked %d times in nineteen minutes", asked)
	}
}
