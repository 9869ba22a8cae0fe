package plan

// The trial of a version, which precedes its promotion. The verdict is written onto the image before the trial ends.
// Without a passed trial no promotion follows. A recipe that is open for a trial is closed before any other step of the
// trial.

// attempt continues an open attempt. The recipe names the version only while the instance is created.
func attempt(f Facts) Decision {
	switch {
	case f.Trial == TrialEnding, f.Tried != NoVerdict, f.Recipe == RecipeHere:
		return do(EndTrial) // or a person has decided meanwhile
	case f.AttemptVerdict == VerdictFailed:
		return do(Quarantine)
	case f.AttemptVerdict == VerdictPassed:
		return do(PassTrial)
	case f.AttemptVerdict == VerdictInconclusive, f.TrialOver:
		return do(EndTrial)
	case f.Trial == TrialDecided:
		return do(BeginTrial)
	default:
		return do(WatchTrial)
	}
}

// needsOpenRecipe reports whether the recipe must still name the version: the instance of the attempt does not exist
// yet, and is needed.
func (f Facts) needsOpenRecipe() bool {
	wanted := !f.Failed && !f.Deleting && f.Tried == NoVerdict && f.AttemptVerdict == NoVerdict && !f.TrialOver
	return wanted && (f.Trial == TrialDecided || f.Trial == TrialMaking)
}

// beginAttempt begins an attempt, unless the trial has exceeded its timeout.
func beginAttempt(f Facts) Decision {
	switch {
	case f.TrialOver:
		return fail(TrialInconclusive)
	case f.Paused:
		return wait(ForTrial)
	default:
		return do(BeginTrial)
	}
}

func quarantined(f Facts) Decision {
	if f.Tried == VerdictFailed {
		return fail(TrialFailed)
	}
	return fail(Quarantined)
}
