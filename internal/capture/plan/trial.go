package plan

// The trial of a version, which precedes its promotion. The verdict is written onto the image before the trial ends.
// Without a passed trial no promotion follows.

// endAttempt continues an open attempt to its end.
func endAttempt(f Facts) Decision {
	switch {
	case f.Trial.Progress == NoTrial:
		return onward
	case f.Trial.Progress == TrialEnding, f.Trial.Verdict != NoVerdict, f.Promotion.Recipe == RecipeHere:
		return do(EndTrial) // or a person has decided meanwhile
	case f.Trial.AttemptVerdict == VerdictFailed:
		return do(Quarantine)
	case f.Trial.AttemptVerdict == VerdictPassed && f.Trial.MoreTypes:
		return do(PassType)
	case f.Trial.AttemptVerdict == VerdictPassed:
		return do(PassTrial)
	case f.Trial.AttemptVerdict == VerdictInconclusive, f.Trial.Over:
		return do(EndTrial)
	case f.Trial.Progress == TrialDecided:
		return do(BeginTrial)
	case f.Trial.RebootDue:
		return do(RebootTrial)
	}
	return do(WatchTrial)
}

// tryVersion begins an attempt, unless the version has passed or the trial has exceeded its timeout.
func tryVersion(f Facts) Decision {
	switch {
	case !f.Trial.Needed, f.Trial.Verdict == VerdictPassed, f.Promotion.Recipe == RecipeHere:
		return onward
	case f.Trial.Over:
		return fail(TrialInconclusive)
	case f.Trial.Paused:
		return wait(ForTrial)
	}
	return do(BeginTrial)
}

// endTrial removes the trial of a capture that failed or is deleted. The settings may keep the instance of a failed trial.
func endTrial(f Facts) Decision {
	switch {
	case f.Trial.Progress == NoTrial:
		return onward
	case f.Trial.Progress != TrialEnding && f.Trial.KeepsFailed && !f.Deleting:
		return wait(ForTrial)
	}
	return do(EndTrial)
}
