package joinhealth

import (
	"slices"
	"time"
)

// sameTime is the longest time between the starts of two joins whose failures may have the same cause.
const sameTime = time.Hour

// own returns the judged joins without failures that other pools shared at the same time, unless joins elsewhere
// succeeded meanwhile. A shared failure stays excused after the outage, so that it causes no rollback later.
func (f Facts) own(judged []Join, excuses ...Outcome) []Join {
	return slices.DeleteFunc(slices.Clone(judged), func(join Join) bool {
		return join.Outcome == Failed && !join.couldHave(f.grown(join), join.late().Sub(join.Running)/3) && slices.ContainsFunc(f.Elsewhere, func(other Join) bool {
			return slices.Contains(excuses, other.Outcome) && join.sharesFate(other)
		})
	})
}

// grown returns the joins elsewhere that are older than this join was at its failure. A younger node may still fail in
// the same way. An instance without a Node is compared with all joins, because each of these came further.
func (f Facts) grown(j Join) []Join {
	if j.Node == "" {
		return f.Elsewhere
	}
	return slices.DeleteFunc(slices.Clone(f.Elsewhere), func(other Join) bool {
		return other.Outcome == Joined && f.Now.Sub(other.Running) <= j.late().Sub(j.Running)
	})
}

// couldHave reports whether a node elsewhere became Ready at a moment when this node could have: after half of the
// other node's duration, and with ahead left until its own deadline.
//
// A node that was Ready earlier says nothing about the outage. A node that became Ready later may only show that the
// outage ended.
func (j Join) couldHave(elsewhere []Join, ahead time.Duration) bool {
	last := j.late().Add(-ahead)
	return slices.ContainsFunc(elsewhere, func(other Join) bool {
		ready := other.Running.Add(other.Took)
		return other.Outcome == Joined && !ready.Before(j.Running.Add(other.Took/2)) && !ready.After(last)
	})
}

// outdone reports whether a node elsewhere started no earlier than this node and became Ready before this node was
// overdue. Everything that both nodes need was then available.
func (j Join) outdone(elsewhere []Join) bool {
	return slices.ContainsFunc(elsewhere, func(other Join) bool {
		return other.Outcome == Joined && !other.Running.Before(j.Running) && !other.Running.Add(other.Took).After(j.late())
	})
}

// only reports whether no node of another pool joined or failed within a day of the time.
func (f Facts) only(at time.Time) bool {
	return !slices.ContainsFunc(f.Elsewhere, func(other Join) bool {
		return (other.Outcome == Joined || other.Outcome == Failed) && at.Sub(other.Running).Abs() < Pause
	})
}

// sharesFate reports whether the other join failed or was pending at the same time. A pending join matters only if it
// started before this join was overdue for long: later there is always a pending join.
func (j Join) sharesFate(other Join) bool {
	if other.Outcome == Waiting {
		late := j.late()
		return other.Running.Sub(j.Running) >= -sameTime && !other.Running.After(late.Add(late.Sub(j.Running)/3))
	}
	return other.Running.Sub(j.Running).Abs() <= sameTime
}

// late returns when a failed join became overdue.
func (j Join) late() time.Time {
	if j.OverdueSince.After(j.Running) {
		return j.OverdueSince
	}
	return j.Running.Add(Limits{}.Defaulted().Join) // no look happened at the deadline
}
