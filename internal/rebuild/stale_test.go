package rebuild

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestStaleAnswersOfTheCloud rebuilds nodes while the cloud's answers are up to 30 seconds old, with restarts: each node is rebuilt
// once, one after the other.
func TestStaleAnswersOfTheCloud(t *testing.T) {
	schedules := 40
	if testing.Short() {
		schedules = 2
	}
	memory.Seeds(t, schedules, func(t *testing.T, seed uint64) {
		random, crashes := rand.New(rand.NewPCG(seed, 32)), map[int]memory.Loss{}
		for range random.IntN(3) {
			crashes[random.IntN(60)] = memory.Losses()[2+random.IntN(2)]
		}
		s, schedule := newTestEnv(t, 2), memory.NewSchedule(crashes)
		stale := memory.NewStale(s.cloud, s.clock.Now)
		stale.Draw(seed)
		s.rebuildAll(memory.NewFaulty(stale, schedule.Inject))
		s.wantClean(good, s.badNodes()...)
		if s.rebuilds() != 2 || s.worst > 1 {
			t.Errorf("%d rebuilds of 2 nodes, %d nodes out of service at once", s.rebuilds(), s.worst)
		}
		if t.Failed() {
			t.Logf("%s\n%s\n%s", strings.Join(stale.Served(), "\n"), strings.Join(schedule.Lost(), "\n"), strings.Join(s.said, "\n"))
		}
	})
}
