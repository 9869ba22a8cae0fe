package capture

import (
	"context"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// looksAfterEachAction compares each decision after an action in the same pass with the decision after a new
// observation. It returns the decisions seen.
func (s *testEnv) looksAfterEachAction() map[plan.Action]int {
	seen := map[plan.Action]int{}
	restart := s.onRestart
	s.onRestart = func() {
		if restart != nil {
			restart()
		}
		s.engine.onFollowUp = func(_ context.Context, w *observed, next plan.Decision) {
			seen[next.Do]++
			p := s.prototype()
			if p == nil {
				return
			}
			p.Status = *w.p.Status.DeepCopy() // written at the end of the pass
			lose := s.lose
			s.lose = nil
			defer func() { s.lose = lose }()
			calls := len(s.calls)
			fresh, err := s.engine.observe(cloud.WithReadCache(context.Background()), p, s.engine.readRecord(p), nil)
			s.calls = s.calls[:calls]
			s.must(err)
			if want := plan.Next(fresh.facts); want != next {
				s.t.Errorf("in the same pass follows %s, by a new look %s:\nassumed %+v\nlooked  %+v", next, want, w.facts, fresh.facts)
			}
		}
	}
	s.onRestart()
	return seen
}

// TestFollowUpsEqualNewObservations holds next and applied of the actions: without other changes in the world, a pass continues
// as a new pass would.
func TestFollowUpsEqualNewObservations(t *testing.T) {
	all := map[plan.Action]int{}
	for name, options := range map[string][]option{
		"returns":            nil,
		"cordoned before":    {func(s *testEnv) { s.cordoned, s.protected = true, true }},
		"without protection": {func(s *testEnv) { s.holdless = true }},
		"recipes apart":      {func(s *testEnv) { s.apart, s.instant = true, true }},
		"stays on":           {func(s *testEnv) { s.lingering = true }},
		"copied in a moment": {func(s *testEnv) { s.instant = true }},
	} {
		t.Run(name, func(t *testing.T) {
			s := inFull(t, options...)
			seen := s.looksAfterEachAction()
			s.succeeded(s.play())
			for action, n := range seen {
				all[action] += n
			}
		})
	}
	for _, grow := range []bool{true, false} {
		s := newTestEnv(t, func(s *testEnv) { s.tidy = true }).decide(removedDonor(grow))
		seen := s.looksAfterEachAction()
		s.play()
		for action, n := range seen {
			all[action] += n
		}
	}
	v := published(t)
	seen := v.looksAfterEachAction()
	v.nothingLeft(v.run())
	for action, n := range seen {
		all[action] += n
	}
	var missing []plan.Action
	for _, performed := range actions {
		for _, action := range performed.next {
			if all[action] == 0 {
				missing = append(missing, action)
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("no test has seen %v follow: %v", missing, all)
	}
}

// TestAPassWithOldFactsIsOver: an API server that takes long to answer ends the pass; the next one looks again.
func TestAPassWithOldFactsIsOver(t *testing.T) {
	s := newTestEnv(t).decide()
	followed := 0
	s.engine.onFollowUp = func(context.Context, *observed, plan.Decision) { followed++ }
	s.lose = func(int, string) memory.Outcome {
		s.clock.Advance(maxFactAge + time.Millisecond)
		return memory.Pass()
	}
	p := s.play()
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
		t.Fatal(verdict(p))
	}
	if followed > 0 {
		t.Errorf("%d decisions were made on facts that were older than %s", followed, maxFactAge)
	}
}
