// Package plan decides the next action of a capture from facts.
//
// The package is pure: no context, clock, client or log. Nothing is remembered: equal facts give equal decisions in
// every process and after every restart. The decision starts at the goal: the step nearest to the end that is already
// complete is not repeated.
//
// Package capture gathers the facts and acts.
package plan

// stage is a part of the course of a capture.
type stage struct {
	name string
	// fits reports whether the capture is in the stage, if it is in none of the stages before.
	fits func(Facts) bool
	// parts decide one after the other. Each part is of one room.
	parts []part
}

// part decides for one room, or leaves the decision to the next part with onward.
type part func(Facts) Decision

// onward is the decision of a part that has nothing to do.
var onward Decision

// course is the whole course, from the goal backwards.
var course = []stage{
	{"a capture that has failed, or is deleted, returns the donor and leaves nothing behind", Facts.ends, []part{endHold, endTrial, removeLeftovers}},
	{"a lost record ends the capture", func(f Facts) bool { return f.Unrecorded }, []part{loseRecord}},
	{"a donor whose disk is not needed returns", Facts.LeavesDisk, []part{awaitReturn, endHold}},
	{"a version is tried and promoted", Facts.hasVersion, []part{endHold, completeVersion, endAttempt, keepRecipe, tryVersion, promote, finish}},
	{"a copy becomes a version, after the donor", Facts.hasCopy, []part{checkCopy, awaitCopy, endHold, publish}},
	{"an ordered disk is generalized and copied", Facts.MustBoot, []part{checkDisk, believe, copyProven, generalize}},
	{
		"a donor is inspected, reserved, patched and drained",
		func(Facts) bool { return true },
		[]part{refuse, checkDonor, inspect, checkHold, patch, takeOut, drain},
	},
}

// Next returns exactly one action or one wait.
func Next(f Facts) Decision {
	stages := course
	if f.Copy.Wanted {
		stages = courseOfCopy
	}
	for _, s := range stages {
		if s.fits(f) {
			return first(f, s.parts)
		}
	}
	return onward // the last stage fits all facts, and its last part decides
}

func first(f Facts, parts []part) Decision {
	for _, p := range parts {
		if d := p(f); d != onward {
			return d
		}
	}
	return onward
}

func (f Facts) ends() bool       { return f.Deleting || f.Failed }
func (f Facts) hasVersion() bool { return f.Image.Version != Absent }
func (f Facts) hasCopy() bool    { return f.Image.Snapshot != Absent }

func loseRecord(Facts) Decision { return fail(RecordLost) }

// removeLeftovers ends a capture that failed or is deleted, without a donor and without a trial.
func removeLeftovers(f Facts) Decision {
	switch {
	case f.Disk.Pod != NoPod:
		return do(DeletePod)
	case f.Disk.Order:
		return do(DeleteOrder)
	case f.Image.Version == Pending, f.Image.Version == Broken:
		return do(DeleteImage)
	case f.Image.Snapshot == Pending, f.Image.Snapshot == Taken, f.Image.Snapshot == Complete, f.Image.Snapshot == Broken:
		return do(DeleteSnapshot)
	case f.Image.Version == Deleting, f.Image.Snapshot == Deleting:
		return wait(ForDeletion)
	}
	return do(Close)
}

// finish ends a capture whose version is in the recipe.
func finish(f Facts) Decision {
	switch {
	case f.Image.Snapshot == Deleting:
		return wait(ForDeletion)
	case f.Disk.Pod != NoPod:
		return do(DeletePod)
	case f.Disk.Order:
		return do(DeleteOrder)
	}
	return do(Succeed)
}
