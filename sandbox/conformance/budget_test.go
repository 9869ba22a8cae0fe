package conformance

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	simulator "github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

// budget is the number of requests of a capture, by class.
type budget struct{ reads, writes, repeats, polls int }

func (b budget) all() int { return b.reads + b.writes + b.repeats + b.polls }

func (b budget) minus(o budget) budget {
	return budget{b.reads - o.reads, b.writes - o.writes, b.repeats - o.repeats, b.polls - o.polls}
}

// TestRequestsOfACapture has the engine capture a node twice at Azure's own latencies, and once with a trial. The page on
// requests lists the requests of the first capture, with reasons.
func TestRequestsOfACapture(t *testing.T) {
	settings := v1alpha1.Settings{Trial: v1alpha1.TrialSettings{Mode: v1alpha1.TrialOff}}
	settings.Generalize.Profile = v1alpha1.ProfileStatic
	sent := map[string]budget{}
	played := func(name string, play func(c *captureCourse)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(day)) // the version's
				play(newCourse(newCloudEnv(t, options{wire: newWire(), config: func(c *simulator.Config) {
					c.Clock, c.Latencies = clock.Clock{Scale: 1}, simulator.Latencies{}
				}}).stage()))
			})
		})
	}
	played("without a trial", func(c *captureCourse) {
		sent["first"] = c.play(c.t.Context(), version, settings)
		wantDocumented(c.t, "../../docs/contribute/requests-azure.md", inPlace, c.requests.Requests(), func(r requestlog.Request) string {
			if r.Class == requestlog.Login {
				return ""
			}
			return r.Noun + " " + r.Operation
		})
		time.Sleep(time.Hour)
		sent["later"] = c.play(c.t.Context(), version+"02", settings)
	})
	played("with a trial", func(c *captureCourse) {
		settings.Trial.Mode = v1alpha1.TrialApart
		sent["tried"] = c.play(c.t.Context(), version, settings)
	})
	for what, c := range map[string]struct {
		have budget
		most int
	}{
		"a pool's first capture sends": {sent["first"], 95},
		"a later capture sends":        {sent["later"], 95},
		"a trial adds":                 {sent["tried"].minus(sent["first"]), 150},
	} {
		if c.have.all() > c.most {
			t.Errorf("%s %+v, more than %d", what, c.have, c.most)
		}
	}
}
