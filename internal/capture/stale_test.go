package capture

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// staleCourses are captures that end the same with old answers of the cloud as without.
var staleCourses = map[string]func(t *testing.T) (*testEnv, func()){
	"in place": func(t *testing.T) (*testEnv, func()) {
		s := inFull(t)
		return s, func() {
			s.succeeded(s.play())
			s.checkIntendedChanges()
		}
	},
	"by copy": func(t *testing.T) (*testEnv, func()) {
		c := byCopy(t)
		c.decide()
		return c.testEnv, func() { c.copied(c.course()) }
	},
	"a pioneer in place": func(t *testing.T) (*testEnv, func()) {
		s := newTestEnv(t, pioneering).decide(pioneer)
		return s, func() { s.succeeded(s.play()) }
	},
	"a pioneer by copy": func(t *testing.T) (*testEnv, func()) {
		c := copiedPioneer(t)
		c.decide()
		return c.testEnv, func() { c.pioneered(c.voyage()) }
	},
	"a trial": func(t *testing.T) (*testEnv, func()) {
		v := published(t)
		return v.testEnv, func() { v.nothingLeft(v.run()) }
	},
}

// answerLate makes the answers of the cloud old, and restarts the engine up to three times.
func (s *testEnv) answerLate(seed uint64) {
	s.stale.Draw(seed)
	random, crashes := rand.New(rand.NewPCG(seed, 31)), map[int]memory.Loss{}
	for range random.IntN(4) {
		crashes[random.IntN(200)] = memory.Losses()[2+random.IntN(2)]
	}
	s.schedule = memory.NewSchedule(crashes)
}

// TestStaleAnswersOfTheCloud plays captures whose reads of the cloud are up to 30 seconds old, with restarts: each ends as without.
func TestStaleAnswersOfTheCloud(t *testing.T) {
	schedules := 24
	if testing.Short() {
		schedules = 1
	}
	for name, begin := range staleCourses {
		t.Run(name, func(t *testing.T) {
			var old, played atomic.Int32
			t.Cleanup(func() {
				t.Logf("%d schedules, %d old answers", played.Load(), old.Load())
				if old.Load() < played.Load() {
					t.Error("most answers were true")
				}
			})
			memory.Seeds(t, schedules, func(t *testing.T, seed uint64) {
				s, play := begin(t)
				s.answerLate(seed)
				defer func() {
					if t.Failed() {
						t.Logf("seed %d: %s\n%s\n%s\n%s", seed, verdict(s.prototype()), strings.Join(s.stale.Served(), "\n"),
							strings.Join(s.schedule.Lost(), "\n"), s.lastCalls(60))
					}
				}()
				play()
				played.Add(1)
				old.Add(int32(len(s.stale.Served()))) //nolint:gosec // a few hundred
			})
		})
	}
}
