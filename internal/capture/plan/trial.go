package plan

// The trial of a version, which precedes its promotion. The verdict is written onto the image before the trial ends.
// Without a passed trial no promotion follows.

// attempt continues an open attempt.
func attempt(f Facts) Decision {
	switch {
	case f.Trial.Progress == TrialEnding, f.Trial.Verdict != NoVerdict, f.Promotion.Recipe == RecipeHere:
		return do(EndTrial) // or a person has decided meanwhile
	case f.Trial.AttemptVerdict == VerdictFailed:
		return do(Quarantine)
	case f.Trial.AttemptVerdict == VerdictPassed:
		return do(PassTrial)
	case f.Trial.AttemptVerdict == VerdictInconclusive, f.Trial.Over:
		return do(EndTrial)
	case f.Trial.Progress == TrialDecided:
		return do(BeginTrial)
	default:
		return do(WatchTrial)
	}
}

// beginAttempt begins an attempt, unless the trial has exceeded its timeout.
func beginAttempt(f Facts) Decision {
	switch {
	case f.Trial.Over:
		return fail(TrialInconclusive)
	case f.Trial.Paused:
		return wait(ForTrial)
	default:
		return do(BeginTrial)
	}
}

func quarantined(f Facts) Decision {
	if f.Trial.Verdict == VerdictFailed {
		return fail(TrialFailed)
	}
	return fail(Quarantined)
}
