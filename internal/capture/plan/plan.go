// Package plan decides the next action of a capture from the facts of the world.
//
// It is pure: no context, clock, client or log. It stores no step and remembers nothing: the same facts
// give the same decision, whoever asks and however often the process was restarted in between. It reads
// the facts from the goal backwards: whatever is nearest to the end and already true is not done again.
//
// It does not look at the world and does not act; package capture does both.
package plan

// Next decides what to do now. Exactly one action, or a wait.
func Next(f Facts) Decision {
	switch {
	case f.Deleting, f.Failed:
		return abandon(f)
	case f.Unrecorded && f.begun():
		return fail(RecordLost)
	case f.Image != Absent:
		return finish(f)
	case f.Snapshot != Absent:
		return publish(f)
	default:
		return inPlace(f)
	}
}
