package week

import (
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tally counts the results of weeks.
type tally struct {
	latency                    []time.Duration
	held, stays                int // bad versions that stay: the status reports why, or too few nodes failed in a row
	detections, alarms, missed int
	built, after               map[int][]int // of a bad version, by the percentage of bad nodes
	builtSlowly, afterSlowly   []int         // of a version with only bad nodes, in a pool that grows by single nodes
}

// TestWeekOfBadVersions: every second day some pools get a bad version, of which all nodes, or 70 or 90 percent,
// never join. Pools grow, the autoscaler replaces nodes, the API server is away, the cloud throttles, and joins
// pause for up to three hours. A pool rolls back only because of its version. No pool stays on a bad version with
// enough evidence.
func TestWeekOfBadVersions(t *testing.T) {
	seeds := seeds(t, testing.Short())
	all := tally{built: map[int][]int{}, after: map[int][]int{}}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // weeks of small garbage
	for seed := range seeds {
		w := newTrust(t, uint64(seed), 4)
		for day := 1; day <= days; day++ {
			w.playDay(day)
		}
		all.add(t, seed, w)
	}
	all.report(t, seeds)
}

// fires is the rule over the results of nodes: a row of failures, then never three joined nodes in a row.
var fires = regexp.MustCompile(`(^FF|FFF)(F|JF|JJF)*J?J?$`)

// add judges a week.
func (a *tally) add(t *testing.T, seed int, w *trustWorld) {
	for k, ill := range w.bad {
		seen := strings.ReplaceAll(string(ill.word), "x", "")
		reported := fmt.Sprintf("seed %d: %s, of which %d %% are bad: %s, ordered at %s, %s; %v", seed, k, ill.percent, ill.word, ill.times(), ill.states, w.troubles)
		switch gone := !ill.back.IsZero(); {
		case !gone && fires.MatchString(seen) && ill.frozen:
			a.held++
			t.Logf("the pool stays, and a person is told: %s", reported)
			continue
		case !gone && fires.MatchString(seen):
			a.missed++
			t.Errorf("nobody went back: %s", reported)
			continue
		case !gone:
			a.stays++
			t.Logf("the rule lets it stay: %s", reported)
			continue
		}
		a.built[ill.percent], a.after[ill.percent] = append(a.built[ill.percent], len(ill.births)), append(a.after[ill.percent], ill.after())
		if ill.percent == 100 && w.step == 1 {
			a.builtSlowly, a.afterSlowly = append(a.builtSlowly, len(ill.births)), append(a.afterSlowly, ill.after())
		}
		if ill.percent == 100 && ill.after() > 0 {
			messages := t.Logf
			if !ill.hindered {
				messages = t.Errorf
			}
			messages("seed %d: of %s %d nodes were ordered when two could have been judged: %s, ordered at %s, back at %s", seed, k, ill.after(), ill.states, ill.times(), ill.back.Format("15:04"))
		}
	}
	for i, messages := range w.alarmed {
		t.Errorf("seed %d: false alarm: %s; troubles %v%s", seed, messages, w.troubles, w.stories[i])
	}
	a.detections, a.alarms, a.latency = a.detections+len(w.detected), a.alarms+len(w.alarmed), append(a.latency, w.latency...)
	t.Logf("seed %d: %d bad versions, %d detected, %d false alarms, %d nodes built, up to %d at once, %d killings", seed, len(w.bad), len(w.detected), len(w.alarmed), w.made, w.step, w.killed)
}

// report logs the results of the weeks.
func (a *tally) report(t *testing.T, seeds int) {
	if len(a.latency) == 0 {
		t.Fatal("nothing was bad: such weeks show nothing")
	}
	slices.Sort(a.latency)
	t.Logf("%d weeks: %d detections, %d missed, %d false alarms, %d kept with a person told, %d of which too few failed; from the first node until the pool went back: median %s, nine of ten within %s",
		seeds, a.detections, a.missed, a.alarms, a.held, a.stays, a.latency[len(a.latency)/2], a.latency[len(a.latency)*9/10])
	for _, percent := range []int{70, 90, 100} {
		describe(t, strconv.Itoa(percent)+" % bad", a.built[percent], a.after[percent])
	}
	describe(t, "100 % bad, one node at a time", a.builtSlowly, a.afterSlowly)
}

func describe(t *testing.T, of string, built, after []int) {
	if len(built) == 0 {
		return
	}
	sum := func(of []int) float64 {
		n := 0
		for _, m := range of {
			n += m
		}
		return float64(n) / float64(len(of))
	}
	t.Logf("%s: %d versions, %.1f nodes built from each until the pool went back, %d at most; of those ordered when two could have been judged %.1f, %d at most",
		of, len(built), sum(built), slices.Max(built), sum(after), slices.Max(after))
}
