package probation

import (
	"slices"
	"time"
)

// sameTime is how far apart two joins may have begun for the failure of the one to excuse that of the other.
const sameTime = time.Hour

// own are the judged joins without the failures that befell other pools at the time, which those of the named outcomes show
// unless joins worked meanwhile. They stay what they are once that is mended, so that no version is gone back from for them then.
func (f Facts) own(judged []Join, excuses ...Outcome) []Join {
	return slices.DeleteFunc(slices.Clone(judged), func(join Join) bool {
		return join.Outcome == Failed && !join.couldHave(f.grown(join), join.late().Sub(join.Running)/3) && slices.ContainsFunc(f.Elsewhere, func(other Join) bool {
			return slices.Contains(excuses, other.Outcome) && join.sharesFate(other)
		})
	})
}

// grown are the joins elsewhere that are older than this one was when it failed. A younger node may still fail in the same way. An
// instance that never became a Node has no such age: each node that joins has come further.
func (f Facts) grown(j Join) []Join {
	if j.Node == "" {
		return f.Elsewhere
	}
	return slices.DeleteFunc(slices.Clone(f.Elsewhere), func(other Join) bool {
		return other.Outcome == Joined && f.Now.Sub(other.Running) <= j.late().Sub(j.Running)
	})
}

// couldHave tells whether a node elsewhere became Ready when this one might have: it had itself run for at least half as long as
// that one took, and so much of its own time still lay ahead. One that was Ready earlier tells nothing of what kept this one; one
// that became so later may only tell that what kept both is over, and that nobody waited for this one any more.
func (j Join) couldHave(elsewhere []Join, ahead time.Duration) bool {
	last := j.late().Add(-ahead)
	return slices.ContainsFunc(elsewhere, func(other Join) bool {
		ready := other.Running.Add(other.Took)
		return other.Outcome == Joined && !ready.Before(j.Running.Add(other.Took/2)) && !ready.After(last)
	})
}

// outdone tells whether a node elsewhere that began no earlier than this one became Ready before this one was late. It went through
// all that this one did, and so nothing that both need can have been away.
func (j Join) outdone(elsewhere []Join) bool {
	return slices.ContainsFunc(elsewhere, func(other Join) bool {
		return other.Outcome == Joined && !other.Running.Before(j.Running) && !other.Running.Add(other.Took).After(j.late())
	})
}

// only tells whether no other pool's node has joined, or not, in the day before.
func (f Facts) only(at time.Time) bool {
	return !slices.ContainsFunc(f.Elsewhere, func(other Join) bool {
		return (other.Outcome == Joined || other.Outcome == Failed) && at.Sub(other.Running).Abs() < Pause
	})
}

// sharesFate tells whether the one that did not join, or is awaited, was kept from it at the same time. What is awaited counts
// only if it began before this one had been late for long: later there is always something awaited.
func (j Join) sharesFate(other Join) bool {
	if other.Outcome == Waiting {
		late := j.late()
		return other.Running.Sub(j.Running) >= -sameTime && !other.Running.After(late.Add(late.Sub(j.Running)/3))
	}
	return other.Running.Sub(j.Running).Abs() <= sameTime
}

// late is since when a join that failed was late: until then it was seen to be there, and not Ready.
func (j Join) late() time.Time {
	if j.Late.After(j.Running) {
		return j.Late
	}
	return j.Running.Add(Limits{}.Defaulted().Join) // nobody looked at that time
}
