package joinhealth

import (
	"fmt"
	"slices"
	"time"
)

// A pool rolls back from a version after so many failures: of the first nodes, or later in a row.
const (
	firstFailures = 2
	laterFailures = 3
	// settling is the number of successful joins in a row that end a series of failures.
	settling = 3
	// alone is the length of a series of failures, in multiples of the join time, after which a verdict needs no
	// successful join elsewhere. Default: nearly an hour and a half.
	alone = 6
)

// Healthy is the percentage of Ready nodes of other versions below which another cause than the image is likely.
const Healthy = 80

// Pause is the shortest time between two automatic rollbacks of a pool.
const Pause = 24 * time.Hour

// memory is the largest age of a failure that causes a rollback. Other causes at the time of an older failure are
// unknown.
const memory = 24 * time.Hour

// overdueAfter is how long a node must be pending before Kamino reports that failures are not held against the version.
const overdueAfter = 30 * time.Minute

// Facts are the facts about a pool and the other pools.
type Facts struct {
	Now  time.Time
	Pool string
	// Current is the version in the recipe; empty for an image from elsewhere.
	Current string
	// Prior is the version for a rollback; empty if there is none.
	Prior string
	// Since is when the recipe began to name Current, or when a person acknowledged earlier failures. Earlier joins are
	// ignored.
	Since time.Time
	// Joins are the results of Judge for all versions.
	Joins []Join
	// Others is the number of nodes from other images than Current in all pools. OthersReady is the number of Ready
	// nodes among them.
	Others, OthersReady int
	// Unlisted names unready Nodes among Others without an instance in the cloud, and the reason; empty if there are
	// none. Any client that writes Nodes can have made these Nodes.
	Unlisted string
	// Elsewhere are the joins of other pools' nodes.
	Elsewhere []Join
	// Suspect is the version after an automatic rollback, until its guilt is decided; empty if there is none.
	Suspect string
	// WentBack is when the pool last rolled back automatically; zero for never.
	WentBack time.Time
	// Off is true if automatic rollback is off. The verdict is then only reported.
	Off bool
}

// Action is the consequence of a verdict.
type Action string

const (
	// Nothing: no action.
	Nothing Action = ""
	// GoBack: promote the prior version, and mark the current version as suspect.
	GoBack Action = "GoBack"
	// ConfirmBad: the next node of the earlier version has joined, so the suspect was bad. The suspect is quarantined.
	ConfirmBad Action = "Condemn"
	// ClearSuspect: the next node of the earlier version failed too, so the image was not the cause. The suspicion ends, and
	// a person must look at the pool.
	ClearSuspect Action = "Absolve"
)

// State is the state of a pool's probation. Each state is the reason of a condition.
type State string

const (
	// Idle: the recipe names no version of the pool.
	Idle State = "NotOnAVersion"
	// Watching: nodes join, or there are too few joins for a verdict.
	Watching State = "Watching"
	// Suspected: the pool rolled back, and the next node decides about the suspect.
	Suspected State = "Suspected"
	// RollingBack: the rollback of the pool is in progress.
	RollingBack State = "RollingBack"
	// Bad: nodes of the version do not join.
	Bad State = "NodesDoNotJoin"
	// Confirmed: the suspect was bad.
	Confirmed State = "VersionWasBad"
	// Cleared: the suspect was not the cause, because nodes of the earlier version fail too.
	Cleared State = "VersionWasNotBad"

	// The following states explain why a pool stays on a version whose nodes do not join.

	// NoControl: there is no node of another image for comparison.
	NoControl State = "NothingToCompare"
	// Unwell: too many nodes of other images are unready.
	Unwell State = "OthersNotReady"
	// Everywhere: nodes of other pools do not join either.
	Everywhere State = "JoinsFailEverywhere"
	// Awaited: other pools' nodes of the same time are pending, and none has joined.
	Awaited State = "JoinsElsewhereAwaited"
	// Alone: nodes joined before, but no node of another pool since. Whether any node can join now is unknown.
	Alone State = "NoOtherJoins"
	// LongAgo: the last failure is more than a day ago.
	LongAgo State = "FailedLongAgo"
	// NoPrior: there is no version for a rollback.
	NoPrior State = "NoPrior"
	// TooSoon: the pool rolled back automatically a short time ago.
	TooSoon State = "WentBackLately"
	// SwitchedOff: the policy has automatic rollback off.
	SwitchedOff State = "RollbackOff"
)

// Frozen reports whether the pool stays on a version whose nodes do not join. A person must be informed.
func (s State) Frozen() bool {
	switch s {
	case NoControl, Unwell, Everywhere, Awaited, Alone, LongAgo, NoPrior, TooSoon, SwitchedOff:
		return true
	case Idle, Watching, Suspected, RollingBack, Bad, Confirmed, Cleared:
	}
	return false
}

// Verdict is the decision about a pool's version.
type Verdict struct {
	Do      Action `json:"do,omitempty"`
	State   State  `json:"state"`
	Message string `json:"message"`
	// To is the version for the rollback, for ConfirmBad or for ClearSuspect.
	To string `json:"to,omitempty"`
	// Failed are the joins that speak against the version.
	Failed []Join `json:"failed,omitempty"`
}

// Decide returns the verdict on the pool's version.
func Decide(f Facts) Verdict {
	switch {
	case f.Current == "":
		return Verdict{State: Idle, Message: fmt.Sprintf("the recipe of pool %s names no version of the pool", f.Pool)}
	case f.Suspect != "" && f.Suspect != f.Current:
		return countertest(f)
	}
	judged := judgedOf(f.Joins, f.Current, f.Since)
	failed := f.fires(judged)
	if len(failed) == 0 {
		return f.watch()
	}
	state, why := f.frozen()
	own := f.own(judged, Failed, Waiting)
	switch sure, row := f.fires(own), f.row(own); {
	case len(f.fires(f.own(judged, Failed))) == 0:
		state, why = Everywhere, "new nodes of other pools did not join either, so the image is not the cause"
	case len(sure) == 0:
		state, why = Awaited, "new nodes of other pools have not joined yet, so the image may not be the cause"
	case len(row) == 0:
		failed, state, why = sure, Alone, "no node of another pool joined at that time, so the image may not be the cause"
	case f.old(own):
		failed, state, why = row, LongAgo, "the failures are more than a day old; the next nodes decide"
	default:
		failed = row
	}
	last := failed[len(failed)-1]
	against := fmt.Sprintf("%d nodes of version %s in pool %s did not join, last %s: %s", len(failed), f.Current, f.Pool, last.name(), last.Why)
	if state != "" {
		return Verdict{State: state, Failed: failed, Message: against + "; the pool stays on the version: " + why}
	}
	return Verdict{Do: GoBack, State: Bad, To: f.Prior, Failed: failed, Message: against + "; version " + f.Prior + " is the version before"}
}

// watch returns the verdict without a series of failures. If too many other nodes are unready for any verdict, the
// message says so as soon as a node is pending for long.
func (f Facts) watch() Verdict {
	overdue := 0
	for _, join := range f.Joins {
		if join.Version == f.Current && join.Outcome == Waiting && !join.Running.Before(f.Since) && f.Now.Sub(join.Running) > overdueAfter {
			overdue++
		}
	}
	if overdue == 0 || !f.unwell() {
		return Verdict{State: Watching, Message: f.count()}
	}
	return Verdict{State: Unwell, Message: fmt.Sprintf("%s, %d of them for more than %s; failures are ignored while only %d of %d nodes of other images are Ready",
		f.count(), overdue, minutes(overdueAfter), f.OthersReady, f.Others) + f.unlisted()}
}

// unlisted returns the end of a message about other nodes.
func (f Facts) unlisted() string {
	if f.Unlisted == "" {
		return ""
	}
	return "; " + f.Unlisted
}

func (f Facts) unwell() bool { return f.OthersReady*100 < f.Others*Healthy }

// countertest decides about the suspect by the next node of the earlier version.
func countertest(f Facts) Verdict {
	judged := judgedOf(f.Joins, f.Current, f.WentBack)
	if len(judged) == 0 {
		return Verdict{State: Suspected, Message: fmt.Sprintf("pool %s rolled back from version %s to %s: the next node shows whether the image was the cause", f.Pool, f.Suspect, f.Current)}
	}
	next := judged[0]
	if next.Outcome == Failed {
		return Verdict{Do: ClearSuspect, State: Cleared, To: f.Suspect, Failed: judged[:1], Message: fmt.Sprintf(
			"version %s of pool %s was not the cause: node %s of version %s did not join either: %s", f.Suspect, f.Pool, next.name(), f.Current, next.Why)}
	}
	if f.Now.Sub(next.Running) <= failingAge(judgedOf(f.Joins, f.Suspect, time.Time{})) {
		return Verdict{State: Suspected, Message: fmt.Sprintf("pool %s rolled back from version %s to %s: node %s has joined, but is younger than the nodes of version %s at the failure",
			f.Pool, f.Suspect, f.Current, next.name(), f.Suspect)}
	}
	return Verdict{Do: ConfirmBad, State: Confirmed, To: f.Suspect, Message: fmt.Sprintf(
		"version %s of pool %s was bad: node %s of version %s has joined", f.Suspect, f.Pool, next.name(), f.Current)}
}

// frozen returns why a pool stays on a version whose nodes do not join; empty if it may roll back.
func (f Facts) frozen() (state State, why string) {
	switch {
	case f.Others == 0:
		return NoControl, "there is no node of another image to compare with"
	case f.unwell():
		return Unwell, fmt.Sprintf("only %d of %d nodes of other images are Ready, so the image may not be the cause", f.OthersReady, f.Others) + f.unlisted()
	case f.Prior == "", f.Prior == f.Current:
		return NoPrior, "there is no version to roll back to"
	case !f.WentBack.IsZero() && f.Now.Sub(f.WentBack) < Pause:
		return TooSoon, fmt.Sprintf("the last automatic rollback was at %s, and Kamino rolls a pool back at most once a day", f.WentBack.UTC().Format(time.RFC3339))
	case f.Off:
		return SwitchedOff, "the policy does not enable automatic rollback"
	}
	return "", ""
}

// judgedOf returns the joined and failed joins of a version that started at the time or later, in order. All times have
// whole seconds. A join in the same second was built after the change of the recipe, because no other recipe names the
// version.
func judgedOf(joins []Join, version string, since time.Time) []Join {
	var judged []Join
	for _, join := range joins {
		if join.Version == version && !join.Running.Before(since) && (join.Outcome == Joined || join.Outcome == Failed) {
			judged = append(judged, join)
		}
	}
	return judged
}

// old reports whether all failures are too old for a rollback.
func (f Facts) old(judged []Join) bool {
	return !slices.ContainsFunc(judged, func(join Join) bool { return join.Outcome == Failed && f.Now.Sub(join.late()) <= memory })
}

// fires returns the failures that speak against the version: its first two nodes failed, or later three in a row, and
// fewer than settling joins in a row succeeded since. Otherwise the result is nil.
func (f Facts) fires(judged []Join) []Join {
	return f.firesIf(judged, func([]Join, bool) bool { return true })
}

// row returns the failures of fires for which an outage is excluded: a node of another pool started later and joined in
// time; or the first nodes failed and no other pool got nodes that day; or the failures last longer than usual outages.
func (f Facts) row(judged []Join) []Join {
	return f.firesIf(judged, func(row []Join, first bool) bool {
		given := row[0].late().Sub(row[0].Running)
		return row[len(row)-1].Running.Sub(row[0].Running) >= alone*given || first && f.only(row[0].Running) ||
			row[len(row)-1].outdone(f.grown(row[len(row)-1])) // only the last: an outage may have begun between the others
	})
}

func (f Facts) firesIf(judged []Join, counts func(row []Join, first bool) bool) []Join {
	for end := range judged {
		start := end
		for start >= 0 && judged[start].Outcome == Failed {
			start--
		}
		row := judged[start+1 : end+1]
		if (start < 0 && len(row) >= firstFailures || len(row) >= laterFailures) && counts(row, start < 0) && !f.passed(judged[end+1:], failingAge(judged[start+1:])) {
			return row
		}
	}
	return nil
}

// failingAge returns the largest age of a failed node at its failure. Instances without a Node are ignored, because
// each node that joins has come further.
func failingAge(judged []Join) time.Duration {
	var age time.Duration
	for _, join := range judged {
		if join.Outcome == Failed && join.Node != "" {
			age = max(age, join.late().Sub(join.Running))
		}
	}
	return age
}

// passed reports whether enough nodes have joined in a row to end the series. Nodes younger than age are ignored,
// because they may still fail in the same way. A pool that grows quickly always has several young nodes.
func (f Facts) passed(since []Join, age time.Duration) bool {
	row := 0
	for _, join := range since {
		switch {
		case join.Outcome == Failed:
			row = 0
		case f.Now.Sub(join.Running) > age:
			row++
		}
		if row == settling {
			return true
		}
	}
	return false
}

// Tally has the numbers of a version's joins.
type Tally struct {
	Joined  int `json:"joined"`
	Failed  int `json:"failed"`
	Waiting int `json:"waiting"`
	// Median is the median time from the start of an instance until its node was Ready; zero without such a node.
	Median time.Duration `json:"median,omitempty"`
}

// Count returns the tally of a version.
func Count(joins []Join, version string) Tally {
	var t Tally
	var took []time.Duration
	for _, join := range joins {
		if join.Version != version {
			continue
		}
		switch join.Outcome {
		case Joined:
			t.Joined++
		case Failed:
			t.Failed++
		case Waiting:
			t.Waiting++
		case Uncounted:
		}
		if join.Outcome == Joined && join.Took > 0 {
			took = append(took, join.Took)
		}
	}
	t.Median = median(took)
	return t
}

// count returns the tally in a sentence without times.
func (f Facts) count() string {
	t := Count(f.Joins, f.Current)
	return fmt.Sprintf("version %s of pool %s: %d nodes joined, %d failed, %d pending", f.Current, f.Pool, t.Joined, t.Failed, t.Waiting)
}

func median(of []time.Duration) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[len(of)/2]
}
