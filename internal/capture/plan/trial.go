package plan

// The trial of a version, which precedes its promotion. The verdict is written onto the image before the trial ends.
// Without a passed trial no promotion follows.

// attempt continues an open attempt.
func attempt(f Facts) Decision {
	switch {
	case f.Trial == TrialEnding, f.VersionVerdict != NoVerdict, f.Recipe == RecipeHere:
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
	if f.VersionVerdict == VerdictFailed {
		return fail(TrialFailed)
	}
	return fail(Quarantined)
}
