package joinhealth

import (
	"slices"
	"time"
)

const (
	// sameTime is the longest time between the starts of two nodes that may fail for the same reason.
	sameTime = time.Hour
	// controlWait is how long failures must span to count without a control node, in multiples of a node's join time.
	// Default: three hours, which is longer than most outages.
	controlWait = 13
	// noNeighbors is how long no other pool may have got a node, so that there is no control group at all.
	noNeighbors = 24 * time.Hour
)

// Neighbor is another pool. IsOfDay: its version was built less than a day apart from Current.
type Neighbor struct {
	Version string
	Joins   []Join
	IsOfDay bool
}

// Meet sets the joins of other pools. If a version of the same day fails, one bad package can be in all of them, and Current is compared with
// pools that kept their version.
func (f *Facts) Meet(all []Neighbor) {
	isSuspectDay := slices.ContainsFunc(all, func(n Neighbor) bool { return n.IsOfDay && MostFail(f.Now, n.Joins, n.Version) })
	for _, n := range all {
		for _, join := range n.Joins {
			if isSuspectDay && n.IsOfDay && join.Version == n.Version {
				f.SameDay = append(f.SameDay, join)
			} else {
				f.Elsewhere = append(f.Elsewhere, join)
			}
		}
	}
}

// control returns the joins that a version is compared with: nodes of other pools, and of other versions of this pool.
func (f Facts) control() []Join {
	control := slices.Clone(f.Elsewhere)
	for _, join := range f.Joins {
		if join.Version != f.Current {
			control = append(control, join)
		}
	}
	return control
}

// allOthers returns the control nodes, and the nodes of versions of the same day. Without a control node, these look like an outage.
func (f Facts) allOthers() []Join { return append(f.control(), f.SameDay...) }

// against returns the number of failures that speak against the version: control nodes before and after joined, and more joined
// than failed. Without control nodes, failures count over a long time, or at once if no other pool got a node.
func (f Facts) against(e evidence) int {
	control, all := f.control(), f.allOthers()
	isLong := e.failed[len(e.failed)-1].Running.Sub(e.first.Running) >= controlWait*e.first.late().Sub(e.first.Running)
	n := 0
	for _, join := range e.failed {
		switch {
		case join.isOutdone(control, f.Now) && join.mostJoined(control, f.Now) && !join.followsFailure(control),
			isLong && !join.isShared(all),
			!e.everJoined && !join.hasNeighbors(slices.Concat(f.Elsewhere, f.SameDay)):
			n++
		}
	}
	return n
}

// othersFail reports whether control nodes failed, or are pending, at the time of a failure.
func (f Facts) othersFail(e evidence) bool {
	control := f.control()
	return slices.ContainsFunc(e.failed, func(join Join) bool { return join.isShared(control) })
}

// isOutdone reports whether a control node started no earlier than the failed node and joined well in time, so both needed the
// same things. The last third of the time remains, because an outage may end shortly before the deadline.
func (j Join) isOutdone(control []Join, now time.Time) bool {
	deadline := j.late().Add(-j.late().Sub(j.Running) / 3)
	return slices.ContainsFunc(control, func(c Join) bool {
		return j.isComparable(c, now) && c.Outcome == Joined && !c.Running.Before(j.Running) && !c.healthyAt().After(deadline)
	})
}

// isComparable reports whether a control node is a result for the failed node: the control node failed, or is now older than
// the failed node was at its failure. For an instance without a Node, each joined node has come further.
func (j Join) isComparable(c Join, now time.Time) bool {
	return c.Outcome == Failed || c.Outcome == Joined && (j.Node == "" || now.Sub(c.Running) > j.late().Sub(j.Running))
}

// mostJoined reports whether more control nodes of the same time joined than failed.
func (j Join) mostJoined(control []Join, now time.Time) bool {
	balance := 0
	for _, c := range control {
		switch {
		case c.Running.Sub(j.Running).Abs() > sameTime || !j.isComparable(c, now):
		case c.Outcome == Failed:
			balance--
		default:
			balance++
		}
	}
	return balance > 0
}

// followsFailure reports whether the control node that started next before the failed node failed, too. Failures in a row
// have a common cause, even if the cause ended shortly after the failed node's start.
func (j Join) followsFailure(control []Join) bool {
	last := Join{}
	for _, c := range control {
		shortlyBefore := !c.Running.After(j.Running) && j.Running.Sub(c.Running) <= sameTime
		if shortlyBefore && (c.Outcome == Failed || c.Outcome == Joined) && c.Running.After(last.Running) {
			last = c
		}
	}
	return last.Outcome == Failed
}

// isShared reports whether a control node of the same time failed or is pending.
func (j Join) isShared(control []Join) bool {
	return slices.ContainsFunc(control, func(c Join) bool {
		return (c.Outcome == Failed || c.Outcome == Waiting) && c.Running.Sub(j.Running) >= -sameTime && !c.Running.After(j.late())
	})
}

// hasNeighbors reports whether a node of another pool started within a day of the failed node.
func (j Join) hasNeighbors(elsewhere []Join) bool {
	return slices.ContainsFunc(elsewhere, func(c Join) bool {
		return c.Outcome != Uncounted && c.Running.Sub(j.Running).Abs() < noNeighbors
	})
}

// late returns when a failed join became overdue.
func (j Join) late() time.Time {
	if j.OverdueSince.After(j.Running) {
		return j.OverdueSince
	}
	return j.Running.Add(Limits{}.Defaulted().Join) // no look happened at the deadline
}
