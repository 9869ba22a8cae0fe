package recipe

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestStaleAnswersOfTheCloud makes each change, a rollback among them, while the cloud's answers are up to 30 seconds old. Each pass is a
// new process.
func TestStaleAnswersOfTheCloud(t *testing.T) {
	schedules := 20
	if testing.Short() {
		schedules = 1
	}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			memory.Seeds(t, schedules, func(t *testing.T, seed uint64) {
				s := newTestEnv(t)
				stale := memory.NewStale(s.cloud, s.clock.Now)
				stale.Draw(seed)
				s.toItsEnd(kind.name, kind.of(s, memory.NewFaulty(stale, nil)))
				if err := kind.want(s); err != nil {
					t.Error(err)
				}
				if t.Failed() {
					t.Logf("old answers:\n%s", strings.Join(stale.Served(), "\n"))
				}
			})
		})
	}
}
