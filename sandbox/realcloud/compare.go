package realcloud

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Compare lists the differences between a report and what the simulation does: outcomes of checks, times, and texts of errors.
func Compare(report, simulated *Report) []string {
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if report.inCluster() {
		for _, c := range report.Checks {
			if c.Outcome != AsAssumed {
				say("check %s: %s. The cluster: %s. Expected: %s", c.Name, c.Sentence, c.Seen, c.Expected)
			}
		}
		return all
	}
	for _, c := range report.Checks {
		at := slices.IndexFunc(simulated.Checks, func(o Check) bool { return o.Name == c.Name })
		switch {
		case at < 0:
			say("check %s: this version has no such check", c.Name)
		case c.Outcome == Unclear:
			say("check %s: unclear: %s", c.Name, c.Seen)
		case c.Seen != simulated.Checks[at].Seen:
			say("check %s: %s. The cloud: %s. The simulation: %s", c.Name, c.Sentence, c.Seen, simulated.Checks[at].Seen)
		}
	}
	for _, c := range simulated.Checks {
		if !report.has(c.Name) {
			say("check %s: the report lacks it", c.Name)
		}
	}
	all = append(all, times(report, simulated)...)
	for _, r := range report.Refusals {
		at := slices.IndexFunc(simulated.Refusals, func(o Refusal) bool { return o.Action == r.Action && o.Code == r.Code })
		switch {
		case at < 0:
			say("error of %s: %s, which the simulation did not return: %q", r.Action, r.Code, r.Text)
		case !slices.ContainsFunc(simulated.Refusals, func(o Refusal) bool { return o == r }):
			say("text of %s of %s: the cloud: %q, the simulation: %q", r.Code, r.Action, r.Text, simulated.Refusals[at].Text)
		}
	}
	return all
}

// Times differ by more than looks and luck if one is this much longer than the other, in seconds and as a factor.
const (
	apart  = 30.0
	factor = 3.0
)

// times compares the longest of each measured time. Ages of tokens depend on the run, and are no times of the cloud.
func times(report, simulated *Report) []string {
	longest := func(r *Report) map[string]float64 {
		out := map[string]float64{}
		for _, m := range r.Measured {
			if !strings.HasPrefix(m.What, "age of ") {
				out[m.What] = max(out[m.What], m.Seconds)
			}
		}
		return out
	}
	real, assumed := longest(report), longest(simulated)
	var all []string
	for _, what := range slices.Sorted(maps.Keys(real)) {
		a, known := assumed[what]
		if r := real[what]; known && max(r, a)-min(r, a) > apart && max(r, a) > factor*min(r, a) {
			all = append(all, fmt.Sprintf("time %s: the cloud %.0f s, the simulation %.0f s", what, r, a))
		}
	}
	return all
}
