// Package plan decides the next action of a capture from facts.
//
// The package is pure: no context, clock, client or log. Nothing is remembered: equal facts give equal decisions in
// every process and after every restart. The decision starts at the goal: the step nearest to the end that is already
// complete is not repeated.
//
// Package capture gathers the facts and acts.
package plan

// Next returns exactly one action or one wait.
func Next(f Facts) Decision {
	switch {
	case f.Growth.Awaited:
		return grow(f)
	case f.Deleting, f.Failed:
		return abandon(f)
	case f.Unrecorded:
		return fail(RecordLost)
	case f.LeavesDisk():
		return leave(f)
	case f.Image.Version != Absent:
		return finish(f)
	case f.Image.Snapshot != Absent:
		return publish(f)
	default:
		return inPlace(f)
	}
}
