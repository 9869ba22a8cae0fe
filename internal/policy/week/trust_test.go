package week

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// tally counts the results of weeks.
type tally struct {
	mu                         sync.Mutex
	latency                    []time.Duration
	stays                      int // bad versions of which too few nodes failed
	reported                   int // bad versions that the pool keeps, and that a person knows of
	detections, alarms, missed int
	built                      map[string][]int // nodes of a bad version, by the fault
}

// TestWeekOfBadVersions: every second day some pools get a bad version, with one of the faults. Pools get a node every 3
// to 60 minutes, the autoscaler replaces nodes, and outages take up to three hours. Each bad version with enough evidence
// is rolled back, except if an outage hides the joins of the control group: then the policy reports the version. At most
// three good versions in a hundred weeks are rolled back.
func TestWeekOfBadVersions(t *testing.T) {
	seeds := seeds(t, testing.Short())
	all := tally{built: map[string][]int{}}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // weeks of small garbage
	t.Run("weeks", func(t *testing.T) {
		for seed := range seeds {
			t.Run(strconv.Itoa(seed), func(t *testing.T) {
				t.Parallel()
				w := newTrust(t, uint64(seed), 4)
				for day := 1; day <= days; day++ {
					w.playDay(day)
				}
				all.add(t, seed, w)
			})
		}
	})
	all.report(t, seeds)
}

// hasEvidence reports whether the last six nodes of a version suffice for a rollback.
func hasEvidence(word string) bool {
	word = strings.ReplaceAll(word, "x", "")
	word = word[max(0, len(word)-6):]
	failed := strings.Count(word, "F")
	return failed >= 2 && 2*failed > len(word)
}

// add judges a week.
func (a *tally) add(t *testing.T, seed int, w *trustEnv) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, ill := range w.bad {
		reported := fmt.Sprintf("seed %d: %s, %s: %s, ordered at %s, %s; %v", seed, k, ill.name, ill.word, ill.times(), ill.states, w.troubles)
		switch {
		case !ill.back.IsZero():
			t.Logf("%s: back after %s with %d nodes", ill.name, ill.back.Sub(ill.births[0]), len(ill.births))
			a.built[ill.name] = append(a.built[ill.name], len(ill.births))
		case hasEvidence(string(ill.word)) && ill.frozen:
			a.reported++
			t.Logf("the pool stays, and a person knows: %s", reported)
		case hasEvidence(string(ill.word)):
			a.missed++
			t.Errorf("the pool never rolled back, and no condition reported the version: %s", reported)
		default:
			a.stays++
			t.Logf("the rule lets it stay: %s", reported)
		}
	}
	for i, messages := range w.alarmed {
		t.Logf("seed %d: false alarm: %s; troubles %v%s", seed, messages, w.troubles, w.stories[i])
	}
	a.detections, a.alarms, a.latency = a.detections+len(w.detected), a.alarms+len(w.alarmed), append(a.latency, w.latency...)
	t.Logf("seed %d: %d bad versions, %d detected, %d false alarms, %d nodes built, up to %d at once, %d killings",
		seed, len(w.bad), len(w.detected), len(w.alarmed), w.made, w.step, w.killed)
}

// report judges and logs the results of the weeks.
func (a *tally) report(t *testing.T, seeds int) {
	if len(a.latency) == 0 {
		t.Fatal("nothing was bad: such weeks show nothing")
	}
	slices.Sort(a.latency)
	t.Logf("%d weeks: %d detections, %d only reported, %d missed, %d false alarms, %d of which too few failed; "+
		"from the first node until the pool rolled back: median %s, nine of ten within %s",
		seeds, a.detections, a.reported, a.missed, a.alarms, a.stays, a.latency[len(a.latency)/2], a.latency[len(a.latency)*9/10])
	if 10*a.reported > a.detections {
		t.Errorf("%d bad versions were only reported, and %d rolled back", a.reported, a.detections)
	}
	if most := (3*seeds + 99) / 100; a.alarms > most {
		t.Errorf("%d false alarms, want %d at most", a.alarms, most)
	}
	for _, f := range faults {
		if built := a.built[f.name]; len(built) > 0 {
			slices.Sort(built)
			t.Logf("%s: %d versions, nodes built: median %d, worst %d", f.name, len(built), built[len(built)/2], built[len(built)-1])
		}
	}
}
