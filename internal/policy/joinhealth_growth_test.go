package policy_test

import (
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// hour plays an hour with a pass per minute, and half-hourly looks at the versions in use. each, if set, runs before each
// pass. hour returns the number of requests about the pool.
func (s *promotedPool) hour(each func(minute int)) int {
	s.Helper()
	before := len(s.calls.Calls())
	for minute := range 60 {
		s.clock.Advance(time.Minute)
		if minute%30 == 29 {
			s.decider.PoolCache.Forget(s.pool)
			_, err := s.decider.PoolCache.Watcher().Pool(s.Context(), s.pool)
			s.must(err)
		}
		if each != nil {
			each(minute)
		}
		_, err := s.decider.Pass(s.Context())
		s.must(err)
	}
	requests := 0
	for _, call := range s.calls.Calls()[before:] {
		if call.Resource == string(s.pool) {
			requests++
		}
	}
	return requests
}

// TestRequestsOfAPoolThatIsWatched: a quiet pool causes less than ten requests per hour, also with a missing node for days.
// While pods wait for nodes, Kamino checks the growth every five minutes.
func TestRequestsOfAPoolThatIsWatched(t *testing.T) {
	s := trustInMemory(t)
	s.hour(nil) // what was new has been seen
	quiet := s.hour(nil)
	if quiet >= 10 {
		t.Errorf("%d requests in a quiet hour", quiet)
	}
	waiting := s.hour(func(int) { s.decider.Growth.Expect(s.clock.Now()) })
	if waiting <= quiet || waiting > quiet+12 {
		t.Errorf("%d requests in an hour in which pods wait, %d in a quiet one", waiting, quiet)
	}
	s.cloud.AddInstance(s.pool, "dead")
	s.must(s.cloud.Scale(s.pool, int64(len(s.cloud.InstanceIDs(s.pool)))))
	for range 26 { // it is old by then
		s.hour(nil)
	}
	lacking := s.hour(nil)
	if lacking >= 10 {
		t.Errorf("%d requests in an hour in which a node is lacking", lacking)
	}
	t.Logf("requests an hour: %d when it is quiet, %d while pods wait, %d while a node is lacking for days", quiet, waiting, lacking)
}

// TestUnregisteredInstancesAreCounted: the cluster autoscaler removes an instance after fifteen minutes and orders
// another instance, so the numbers of the pool do not change. Pods wait all the time.
func TestUnregisteredInstancesAreCounted(t *testing.T) {
	for name, offset := range map[string]int{"just after a look": 1, "between two looks": 14, "just before a look": 28} {
		t.Run(name, func(t *testing.T) {
			s := trustInMemory(t)
			s.hour(func(minute int) {
				if minute >= 30 {
					s.decider.Growth.Expect(s.clock.Now()) // long before, and for something else
				}
			})
			var ill cloud.InstanceID
			orders := 0
			round := func(minute int) {
				age := minute - offset
				if age >= 0 && s.seen().Recipe.Version == s.bad {
					if s.decider.Growth.Expect(s.clock.Now()); age%20 == 0 { // a quarter of an hour, and five minutes' pause
						orders++
						ill = s.cloud.AddInstance(s.pool, "lost"+string(rune('a'+orders)))
						s.resize()
					} else if age%20 == 15 {
						s.cloud.RemoveInstance(ill)
						s.resize()
					}
				}
			}
			s.hour(round)
			if s.seen().Recipe.Version != s.good {
				s.hour(func(minute int) { round(minute + 60) })
			}
			if s.seen().Recipe.Version != s.good || orders > 3 {
				t.Fatalf("%d were ordered, the recipe names %s: %+v", orders, s.seen().Recipe.Version, s.joinHealth())
			}
		})
	}
}

func (s *promotedPool) resize() {
	s.Helper()
	if seen, n := s.seen(), int64(len(s.cloud.InstanceIDs(s.pool))); n != seen.Capacity {
		s.must(s.cloud.Scale(s.pool, n))
	}
}

// TestExpectingIsWorthAPassNowAndThen: pods that wait for hours cause one pass every five minutes.
func TestExpectingIsWorthAPassNowAndThen(t *testing.T) {
	s := trustInMemory(t)
	passes := 0
	for range 60 {
		if s.decider.Growth.Expect(s.clock.Now()) {
			passes++
		}
		s.clock.Advance(time.Minute)
	}
	if passes != 12 {
		t.Errorf("%d passes in an hour", passes)
	}
}

// TestAThrottledCloudIsAskedForGrowthLater: a refusal shows nothing about the pool, and counts against no node.
func TestAThrottledCloudIsAskedForGrowthLater(t *testing.T) {
	s := trustInMemory(t)
	s.hour(nil)
	s.calls.Inject(func(c memory.Call) memory.Outcome {
		if c.Op == "Pool" {
			return memory.Throttle(20 * time.Minute)
		}
		return memory.Pass()
	})
	s.decider.Growth.Expect(s.clock.Now())
	before := len(s.calls.Calls())
	s.last(10)
	asked := 0
	for _, c := range s.calls.Calls()[before:] {
		if c.Op == "Pool" && c.Resource == string(s.pool) {
			asked++
		}
	}
	if asked == 0 || asked > 2 {
		t.Errorf("asked %d times, though it said to come back later", asked)
	}
	if s.seen().Recipe.Version != s.bad {
		t.Errorf("the recipe names %s", s.seen().Recipe.Version)
	}
}
