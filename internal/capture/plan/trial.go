package plan

// The trial of a version and the gate in front of its promotion. A verdict stands on the image, written before the trial is
// ended; until one says that the version has passed, nothing leads to the promotion. A recipe that is open for the trial is
// closed before anything else of it.

// attempt goes on with one that is under way, whose recipe is open only as long as it has to be.
func attempt(f Facts) Decision {
	switch {
	case f.Trial == TrialEnding, f.Tried != NoVerdict, f.Recipe == RecipeHere:
		return do(EndTrial) // or a person has decided meanwhile
	case f.Judged == VerdictFailed:
		return do(Quarantine)
	case f.Judged == VerdictPassed:
		return do(PassTrial)
	case f.Judged == VerdictInconclusive, f.TrialOver:
		return do(EndTrial)
	case f.Trial == TrialDecided:
		return do(BeginTrial)
	default:
		return do(WatchTrial)
	}
}

// opening tells that the recipe has to name the version still: what the pool grows by is not made yet, and is wanted.
func (f Facts) opening() bool {
	wanted := !f.Failed && !f.Deleting && f.Tried == NoVerdict && f.Judged == NoVerdict && !f.TrialOver
	return wanted && (f.Trial == TrialDecided || f.Trial == TrialMaking)
}

// try begins an attempt, unless there is a verdict, or time is up for one.
func try(f Facts) Decision {
	switch {
	case f.TrialOver:
		return fail(TrialInconclusive)
	case f.Paused:
		return wait(ForTrial)
	default:
		return do(BeginTrial)
	}
}

// quarantined says why a version is never used.
func quarantined(f Facts) Decision {
	if f.Tried == VerdictFailed {
		return fail(TrialFailed)
	}
	return fail(Quarantined)
}
