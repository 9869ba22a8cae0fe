package probation

import (
	"fmt"
	"slices"
	"time"
)

// A version is gone back from when its first judged nodes fail, or later so many in a row.
const (
	firstFailures = 2
	laterFailures = 3
	// settling joins in a row, behind that, show that it has passed.
	settling = 3
	// alone is over how many times the time that a node has failures must have begun to count although no join elsewhere tells
	// that it is not the time's fault: nearly an hour and a half.
	alone = 6
)

// Healthy is the share, in percent, of the nodes of other versions that must be Ready: with fewer something else than the
// image may be the cause.
const Healthy = 80

// Pause is the shortest time between two times that a pool goes back by itself.
const Pause = 24 * time.Hour

// memory is how old a failure may be for a pool to go back for it: what else was wrong at the time is forgotten by then.
const memory = 24 * time.Hour

// overdueAfter is how long a node that is awaited must run for somebody to be told that nothing is held against its version.
const overdueAfter = 30 * time.Minute

// Facts are what is known of a pool and of what surrounds it.
type Facts struct {
	Now  time.Time
	Pool string
	// Current is the version that the recipe names; empty if it is none of the pool's own.
	Current string
	// Prior is the version that going back goes to; empty if there is none.
	Prior string
	// Since is when the recipe began to name it, or a person has said that what was before is settled. Joins that began
	// earlier do not count.
	Since time.Time
	// Joins as Judge tells them, of all versions.
	Joins []Join
	// Others are the nodes that were built from other images than Current, of this pool and of the other ones, and
	// OthersReady how many of them are Ready.
	Others, OthersReady int
	// Unlisted names Nodes among them that are not Ready, and whose instances the cloud did not list, with the reason. Any client that may
	// write Nodes can have made them. Empty if there are none.
	Unlisted string
	// Elsewhere are the joins of other pools' nodes.
	Elsewhere []Join
	// Suspect is the version that the pool went back from by itself, and whose guilt is open; empty if there is none.
	Suspect string
	// WentBack is when the pool last went back by itself; zero if it never did.
	WentBack time.Time
	// Off: nobody asked for going back; what would be done is only told.
	Off bool
}

// Action is what follows.
type Action string

const (
	// Nothing follows.
	Nothing Action = ""
	// GoBack: promote the prior version, and suspect the current one.
	GoBack Action = "GoBack"
	// Condemn: the next node of the version that the pool went back to has joined, so that the suspect was bad. It is
	// quarantined.
	Condemn Action = "Condemn"
	// Absolve: it fails as well, so that the image was not it. Suspicion ends, and a person must see to the pool.
	Absolve Action = "Absolve"
)

// State of a pool's probation. Each is the reason of a condition.
type State string

const (
	// Idle: the recipe names no version of the pool's own.
	Idle State = "NotOnAVersion"
	// Watching: its nodes join, or there are too few to say.
	Watching State = "Watching"
	// Suspected: the pool went back, and the next node decides about the version that it went back from.
	Suspected State = "Suspected"
	// RollingBack: the pool is on its way back from the version.
	RollingBack State = "RollingBack"
	// Bad: the nodes of the version do not join.
	Bad State = "NodesDoNotJoin"
	// Convicted: the version that the pool went back from was bad.
	Convicted State = "VersionWasBad"
	// Innocent: it was not, for nodes of the other fail as well.
	Innocent State = "VersionWasNotBad"

	// The following say why a pool stays on a version whose nodes do not join.

	// NoControl: there is no node of another image to compare with.
	NoControl State = "NothingToCompare"
	// Unwell: too many nodes of other images are not Ready.
	Unwell State = "OthersNotReady"
	// Everywhere: nodes of other pools do not join either.
	Everywhere State = "JoinsFailEverywhere"
	// Awaited: nodes that other pools got at that time are awaited, and none has joined.
	Awaited State = "JoinsElsewhereAwaited"
	// Alone: other pools' nodes, or the version's own, have joined before, and none of another pool since that would tell that one can.
	Alone State = "NoOtherJoins"
	// LongAgo: the last one that did not join is more than a day ago.
	LongAgo State = "FailedLongAgo"
	// NoPrior: there is nothing to go back to.
	NoPrior State = "NoPrior"
	// TooSoon: the pool went back by itself a short time ago.
	TooSoon State = "WentBackLately"
	// SwitchedOff: the policy does not ask for it.
	SwitchedOff State = "RollbackOff"
)

// Frozen tells that a pool stays on a version whose nodes do not join, so that a person must know.
func (s State) Frozen() bool {
	switch s {
	case NoControl, Unwell, Everywhere, Awaited, Alone, LongAgo, NoPrior, TooSoon, SwitchedOff:
		return true
	case Idle, Watching, Suspected, RollingBack, Bad, Convicted, Innocent:
	}
	return false
}

// Verdict on a pool's version.
type Verdict struct {
	Do      Action `json:"do,omitempty"`
	State   State  `json:"state"`
	Message string `json:"message"`
	// To is the version to go back to, Condemn or Absolve.
	To string `json:"to,omitempty"`
	// Failed are the joins that speak against the version.
	Failed []Join `json:"failed,omitempty"`
}

// Decide what follows.
func Decide(f Facts) Verdict {
	switch {
	case f.Current == "":
		return Verdict{State: Idle, Message: fmt.Sprintf("the recipe of pool %s names no version of its own", f.Pool)}
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
		state, why = Everywhere, "the nodes that other pools got at that time did not join either, so that something else is the cause"
	case len(sure) == 0:
		state, why = Awaited, "of the nodes that other pools got at that time none has joined yet, so that something else may be the cause"
	case len(row) == 0:
		failed, state, why = sure, Alone, "no node of another pool joined when these might have, so that something else may be the cause"
	case f.old(own):
		failed, state, why = row, LongAgo, "that is more than a day ago, and what else was the matter then is forgotten; its next nodes tell"
	default:
		failed = row
	}
	last := failed[len(failed)-1]
	against := fmt.Sprintf("%d nodes of version %s in pool %s did not join, the last one %s: %s", len(failed), f.Current, f.Pool, last.name(), last.Why)
	if state != "" {
		return Verdict{State: state, Failed: failed, Message: against + "; the pool stays on it, because " + why}
	}
	return Verdict{Do: GoBack, State: Bad, To: f.Prior, Failed: failed, Message: against + "; version " + f.Prior + " is the one before"}
}

// watch is the verdict while nothing speaks against the version. Where nothing can, because the time is held against nobody, that is
// told as soon as there is a node which it would be held against.
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
	return Verdict{State: Unwell, Message: fmt.Sprintf("%s, %d of them for more than %s; nothing is held against the version while only %d of %d nodes of other images are Ready",
		f.count(), overdue, minutes(overdueAfter), f.OthersReady, f.Others) + f.unlisted()}
}

// unlisted is the end of a sentence about other nodes.
func (f Facts) unlisted() string {
	if f.Unlisted == "" {
		return ""
	}
	return "; " + f.Unlisted
}

func (f Facts) unwell() bool { return f.OthersReady*100 < f.Others*Healthy }

// countertest has the next node of the version that the pool went back to decide about the one that it went back from.
func countertest(f Facts) Verdict {
	judged := judgedOf(f.Joins, f.Current, f.WentBack)
	if len(judged) == 0 {
		return Verdict{State: Suspected, Message: fmt.Sprintf("pool %s went back from version %s to %s: its next node tells whether the image was the cause", f.Pool, f.Suspect, f.Current)}
	}
	next := judged[0]
	if next.Outcome == Failed {
		return Verdict{Do: Absolve, State: Innocent, To: f.Suspect, Failed: judged[:1], Message: fmt.Sprintf(
			"version %s of pool %s was not the cause: node %s of version %s did not join either: %s", f.Suspect, f.Pool, next.name(), f.Current, next.Why)}
	}
	if f.Now.Sub(next.Running) <= failingAge(judgedOf(f.Joins, f.Suspect, time.Time{})) {
		return Verdict{State: Suspected, Message: fmt.Sprintf("pool %s went back from version %s to %s: node %s has joined, but is younger than the nodes of version %s were when they failed",
			f.Pool, f.Suspect, f.Current, next.name(), f.Suspect)}
	}
	return Verdict{Do: Condemn, State: Convicted, To: f.Suspect, Message: fmt.Sprintf(
		"version %s of pool %s was bad: node %s of version %s has joined", f.Suspect, f.Pool, next.name(), f.Current)}
}

// frozen says why a pool stays on a version whose nodes do not join; empty if it does not.
func (f Facts) frozen() (state State, why string) {
	switch {
	case f.Others == 0:
		return NoControl, "there is no node of another image that would tell whether the image is the cause"
	case f.unwell():
		return Unwell, fmt.Sprintf("only %d of %d nodes of other images are Ready, so that something else may be the cause", f.OthersReady, f.Others) + f.unlisted()
	case f.Prior == "", f.Prior == f.Current:
		return NoPrior, "there is no version to go back to"
	case !f.WentBack.IsZero() && f.Now.Sub(f.WentBack) < Pause:
		return TooSoon, fmt.Sprintf("it has gone back by itself at %s, and does so once a day at most", f.WentBack.UTC().Format(time.RFC3339))
	case f.Off:
		return SwitchedOff, "its policy does not ask to go back"
	}
	return "", ""
}

// judgedOf are the joins of a version that joined or failed, and did not begin to run before the given time, in their order. All that tells
// time here tells seconds: what began in the same one was built from the recipe as it was since, as no other names the version.
func judgedOf(joins []Join, version string, since time.Time) []Join {
	var judged []Join
	for _, join := range joins {
		if join.Version == version && !join.Running.Before(since) && (join.Outcome == Joined || join.Outcome == Failed) {
			judged = append(judged, join)
		}
	}
	return judged
}

// old tells whether nothing of what failed is new enough to go back for.
func (f Facts) old(judged []Join) bool {
	return !slices.ContainsFunc(judged, func(join Join) bool { return join.Outcome == Failed && f.Now.Sub(join.late()) <= memory })
}

// fires is the rule: the joins that speak against the version, if its first two judged nodes failed, or later three in a
// row, and not so many have joined in a row since. Else nil.
func (f Facts) fires(judged []Join) []Join {
	return f.firesIf(judged, func([]Join, bool) bool { return true })
}

// row is the rule where something tells that it is not the time's fault: a node of another pool that was ordered no earlier than the
// last of these joined in its time; or they are the first ones and nobody else gets nodes these days; or it lasts longer than most of what befalls a cluster.
func (f Facts) row(judged []Join) []Join {
	return f.firesIf(judged, func(row []Join, first bool) bool {
		given := row[0].late().Sub(row[0].Running)
		return row[len(row)-1].Running.Sub(row[0].Running) >= alone*given || first && f.only(row[0].Running) ||
			row[len(row)-1].outdone(f.grown(row[len(row)-1])) // of the ones before, an outage may have begun just behind the other's
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

// failingAge is how old the oldest of the failed nodes was when it failed. An instance that never became a Node has no such age: each
// node that joins has come further.
func failingAge(judged []Join) time.Duration {
	var age time.Duration
	for _, join := range judged {
		if join.Outcome == Failed && join.Node != "" {
			age = max(age, join.late().Sub(join.Running))
		}
	}
	return age
}

// passed reports whether enough nodes have joined in a row that the cause of the earlier failures is over. A node that is not older
// than the failed nodes were when they failed may still fail as they did: a pool that grows quickly always has several of these.
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

// Tally is how the nodes of a version have joined.
type Tally struct {
	Joined  int `json:"joined"`
	Failed  int `json:"failed"`
	Waiting int `json:"waiting"`
	// Median time from the begin of an instance until its node was Ready; zero if no node tells.
	Median time.Duration `json:"median,omitempty"`
}

// Count how the nodes of a version have joined.
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

// count says how it stands, in a sentence without times.
func (f Facts) count() string {
	t := Count(f.Joins, f.Current)
	return fmt.Sprintf("of version %s of pool %s %d nodes have joined, %d have not, %d are awaited", f.Current, f.Pool, t.Joined, t.Failed, t.Waiting)
}

func median(of []time.Duration) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[len(of)/2]
}
