package joinhealth

import (
	"fmt"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/wording"
)

// The rule: at least fewest, and more than half, of the window newest judged nodes of the version have failed, or of the newest that started
// within recent, at most crowd. In a fast pool, six nodes are too few to see that a part of all nodes fails: from share percent of the recent
// nodes on, the version fails without a break; in a slow pool, from slowShare percent of the newest crowd on, if more than fewest failed.
const (
	window = 6
	crowd  = 20
	fewest = 2
	recent = time.Hour
	share  = 10

	slowShare = 15
)

// Healthy is the percentage of Ready nodes of other versions below which another cause than the image is likely.
const Healthy = 80

// Pause is the shortest time between two automatic rollbacks of a pool.
const Pause = 24 * time.Hour

// memory is the largest age of the newest failure of a version that still fails.
const memory = 24 * time.Hour

// overdueAfter is how long a node must be pending before Kamino reports the node without a verdict.
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
	// Elsewhere are the joins of other pools' nodes, and SameDay those of versions that may have the same fault: see Meet.
	Elsewhere, SameDay []Join
	// Cohorts compares all nodes of Current with others.
	Cohorts Cohorts
	// Suspect is the version after an automatic rollback, until its guilt is decided; empty if there is none.
	Suspect string
	// LastRollback is when the pool last rolled back automatically; zero for never.
	LastRollback time.Time
	// Off is true if automatic rollback is off. The verdict is then only reported.
	Off bool
}

// Action is the consequence of a verdict.
type Action string

const (
	// Nothing: no action.
	Nothing Action = ""
	// RollBack: promote the prior version, and mark the current version as suspect.
	RollBack Action = "RollBack"
	// ConfirmBad: the next node of the earlier version has joined, so the suspect was bad. The suspect is quarantined.
	ConfirmBad Action = "ConfirmBad"
	// ClearSuspect: the next node of the earlier version failed too, so the image was not the cause. The suspicion ends, and
	// a person must look at the pool.
	ClearSuspect Action = "ClearSuspect"
)

// State is the state of a pool's join tracking. The state is the reason of a condition.
type State string

const (
	// Watching: nodes join, or too few have been judged.
	Watching State = "Watching"
	// Failing: nodes of the version do not join. The message says why the pool stays on the version. Kamino informs a
	// person while nodes fail, no matter what the verdict is.
	Failing State = "NodesDoNotJoin"
	// RollingBack: the rollback of the pool is in progress.
	RollingBack State = "RollingBack"
	// Suspected: the pool rolled back, and the next node decides about the suspect.
	Suspected State = "Suspected"
	// Confirmed: the suspect was bad.
	Confirmed State = "VersionWasBad"
	// Cleared: the suspect was not the cause, because nodes of the earlier version fail too.
	Cleared State = "VersionWasNotBad"
)

// Verdict is the decision about a pool's version.
type Verdict struct {
	Do      Action `json:"action,omitempty"`
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
		return Verdict{State: Watching, Message: fmt.Sprintf("the recipe of pool %s names no version of the pool", f.Pool)}
	case f.Suspect != "" && f.Suspect != f.Current:
		return countertest(f)
	}
	e := f.evidence()
	failed := e.failed
	if len(failed) < fewest || f.Now.Sub(failed[len(failed)-1].late()) > memory {
		return f.watch()
	}
	last := failed[len(failed)-1]
	against := fmt.Sprintf("%d of the last %d nodes of version %s in pool %s failed, last %s: %s",
		len(failed), len(failed)+e.joined, f.Current, f.Pool, last.name(), last.Why)
	if why := f.stays(e); why != "" {
		return Verdict{State: Failing, Failed: failed, Message: against + "; the pool stays on the version: " + why + f.wayOut()}
	}
	return Verdict{Do: RollBack, State: Failing, To: f.Prior, Failed: failed, Message: against + "; version " + f.Prior + " is the version before"}
}

// evidence is about the newest judged nodes of a version.
type evidence struct {
	// failed are the failures, ordered by start, and joined is the number of joined nodes.
	failed []Join
	joined int
	// everJoined reports whether any node of the version outlived the age at which the others failed.
	everJoined bool
	// first is the first of the failures, or of a longer row of failures.
	first Join
}

// evidence returns the newest judged nodes of the version. A node that is younger than the failed nodes were at their
// failure is not judged yet: a pool that grows quickly always has young nodes.
func (f Facts) evidence() evidence {
	all := judgedOf(f.Joins, f.Current, f.Since)
	age := failingAge(all)
	all = slices.DeleteFunc(all, func(join Join) bool { return join.Outcome == Joined && f.Now.Sub(join.Running) <= age })
	e := sampleOf(all[max(0, len(all)-window):])
	at := slices.IndexFunc(all, func(join Join) bool { return all[len(all)-1].Running.Sub(join.Running) < recent })
	if at = max(at, len(all)-crowd); at >= 0 && len(all)-at > window {
		hour := sampleOf(all[at:])
		isPart := len(e.failed) < fewest && len(hour.failed) >= fewest && len(hour.failed)*100 >= share*(len(all)-at)
		if isPart || len(e.failed) <= e.joined && len(hour.failed) > hour.joined {
			e = hour
		}
	}
	// A slow pool has few nodes in an hour, and the state would come and go.
	if newest := sampleOf(all[max(0, len(all)-crowd):]); len(e.failed) < fewest && len(newest.failed) > fewest &&
		len(newest.failed)*100 >= slowShare*min(len(all), crowd) {
		e = newest
	}
	e.everJoined = slices.ContainsFunc(all, func(join Join) bool { return join.Outcome == Joined })
	if len(e.failed) > 0 {
		e.first = e.failed[0]
	}
	for _, join := range slices.Backward(all) {
		if join.Outcome != Failed {
			break
		}
		if join.Running.Before(e.first.Running) {
			e.first = join
		}
	}
	return e
}

func sampleOf(judged []Join) (e evidence) {
	for _, join := range judged {
		if join.Outcome == Failed {
			e.failed = append(e.failed, join)
		} else {
			e.joined++
		}
	}
	return e
}

// stays returns why the pool stays on a version with failed nodes; empty if the pool rolls back.
func (f Facts) stays(e evidence) string {
	switch {
	case len(e.failed) <= e.joined:
		return "at least half of these nodes joined"
	case f.Prior == "", f.Prior == f.Current:
		return "there is no version to roll back to"
	case f.against(e) < fewest && f.othersFail(e):
		return "nodes of other versions or pools did not join in the same time either, so the image may not be the cause"
	case f.against(e) < fewest && len(f.SameDay) > 0:
		return "other pools took a version on the same day, and its nodes fail, too; without enough nodes of older versions elsewhere, " +
			"Kamino cannot tell an outage from a fault in all versions"
	case f.against(e) < fewest:
		return "too few nodes of other versions or pools started later and joined, so there is too little evidence against the image"
	case f.Others == 0:
		return "there is no node of another image to compare with"
	case f.unwell():
		return fmt.Sprintf("only %d of %d nodes of other images are Ready, so the image may not be the cause", f.OthersReady, f.Others) + f.unlisted()
	case !f.LastRollback.IsZero() && f.Now.Sub(f.LastRollback) < Pause:
		return fmt.Sprintf("the last automatic rollback was at %s, and Kamino rolls a pool back at most once a day", f.LastRollback.UTC().Format(time.RFC3339))
	case f.Off:
		return "the policy does not enable automatic rollback"
	}
	return ""
}

// wayOut names the command for a person who knows that the image is the cause.
func (f Facts) wayOut() string {
	command := "kamino rollback " + f.Pool
	if f.Prior == "" || f.Prior == f.Current {
		command = "kamino restore " + f.Pool
	}
	return fmt.Sprintf(". If the image is the cause, run `%s`", command)
}

// watch returns the verdict with too few failures. If too many other nodes are unready for any judgement, the message
// says so as soon as a node is pending for long.
func (f Facts) watch() Verdict {
	overdue := 0
	for _, join := range f.Joins {
		if join.Version == f.Current && join.Outcome == Waiting && !join.Running.Before(f.Since) && f.Now.Sub(join.Running) > overdueAfter {
			overdue++
		}
	}
	if worse := f.Cohorts.worse(f.Current); worse != "" && !f.unwell() {
		return Verdict{State: Failing, Message: worse + "; cohorts do not roll back" + f.wayOut()}
	}
	if overdue == 0 || !f.unwell() {
		return Verdict{State: Watching, Message: f.count()}
	}
	return Verdict{State: Failing,
		Message: fmt.Sprintf("%s, %d of them for more than %s; failures are ignored while only %d of %d nodes of other images are Ready",
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
	judged := judgedOf(f.Joins, f.Current, f.LastRollback)
	if len(judged) == 0 {
		return Verdict{State: Suspected,
			Message: fmt.Sprintf("pool %s rolled back from version %s to %s: the next node shows whether the image was the cause",
				f.Pool, f.Suspect, f.Current)}
	}
	next := judged[0]
	if next.Outcome == Failed {
		return Verdict{Do: ClearSuspect, State: Cleared, To: f.Suspect, Failed: judged[:1], Message: fmt.Sprintf(
			"version %s of pool %s was not the cause: node %s of version %s did not join either: %s", f.Suspect, f.Pool, next.name(), f.Current, next.Why)}
	}
	if f.Now.Sub(next.Running) <= failingAge(judgedOf(f.Joins, f.Suspect, time.Time{})) {
		return Verdict{State: Suspected,
			Message: fmt.Sprintf("pool %s rolled back from version %s to %s: node %s has joined, but is younger than the nodes of version %s at the failure",
				f.Pool, f.Suspect, f.Current, next.name(), f.Suspect)}
	}
	return Verdict{Do: ConfirmBad, State: Confirmed, To: f.Suspect, Message: fmt.Sprintf(
		"version %s of pool %s was bad: node %s of version %s has joined", f.Suspect, f.Pool, next.name(), f.Current)}
}

// judgedOf returns the joined and failed joins of a version since the time, in order. Times have whole seconds. A join in the
// same second was built after the change, because no other recipe names the version.
func judgedOf(joins []Join, version string, since time.Time) []Join {
	var judged []Join
	for _, join := range joins {
		if join.Version == version && !join.Running.Before(since) && (join.Outcome == Joined || join.Outcome == Failed) {
			judged = append(judged, join)
		}
	}
	return judged
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
	return fmt.Sprintf("version %s of pool %s: %s joined, %d failed, %d pending", f.Current, f.Pool, wording.Count(t.Joined, "node"), t.Failed, t.Waiting)
}

func median(of []time.Duration) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[len(of)/2]
}
