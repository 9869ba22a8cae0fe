package plan

// trialMutants are wrong about trials, and about who promotes.
var trialMutants = []mutant{
	{"promotes without a trial", with(func(f *Facts) { f.Trial.Needed = false })},
	{"takes what is not judged for good", func(f Facts) Decision {
		if d := Next(f); d.Do == WatchTrial && f.Trial.Progress == TrialBuilt {
			return do(PassTrial)
		}
		return Next(f)
	}},
	{"takes the judgement for the verdict", with(func(f *Facts) {
		if f.Trial.AttemptVerdict == VerdictPassed {
			f.Trial.Verdict = VerdictPassed
		}
	})},
	{"takes a doubt for a pass", with(func(f *Facts) {
		if f.Trial.AttemptVerdict == VerdictInconclusive {
			f.Trial.AttemptVerdict = VerdictPassed
		}
	})},
	{"takes a doubt for a failure", with(func(f *Facts) {
		if f.Trial.AttemptVerdict == VerdictInconclusive {
			f.Trial.AttemptVerdict = VerdictFailed
		}
	})},
	{"promotes while the trial node is there", with(func(f *Facts) {
		if f.Trial.Verdict == VerdictPassed {
			f.Trial.Progress = NoTrial
		}
	})},
	{"leaves the trial node when it is deleted", with(func(f *Facts) {
		if f.Deleting {
			f.Trial.Progress = NoTrial
		}
	})},
	{"leaves the trial node when it fails", with(func(f *Facts) {
		if f.Failed {
			f.Trial.Progress = NoTrial
		}
	})},
	{"ends a trial before it writes the verdict", replace(do(Quarantine), do(EndTrial))},
	{"ends a trial that passed before it writes that", replace(do(PassTrial), do(EndTrial))},
	{"ends a trial that may come to something", replace(do(WatchTrial), do(EndTrial))},
	{"goes on trying behind the end", with(func(f *Facts) {
		if f.Trial.Progress == TrialBuilt {
			f.Deleting = false
		}
	})},
	{"keeps no failed instance", with(func(f *Facts) { f.Trial.KeepsFailed = false })},
	{"keeps the instance of a deleted capture", with(func(f *Facts) {
		if f.Trial.KeepsFailed && f.Failed {
			f.Deleting = false
		}
	})},
	{"does not pause", with(func(f *Facts) { f.Trial.Paused = false })},
	{"tries for ever", with(func(f *Facts) { f.Trial.Over = false })},
	{"waits for a node without a verdict", with(func(f *Facts) {
		if f.Trial.AttemptVerdict == VerdictInconclusive {
			f.Trial.AttemptVerdict = NoVerdict
		}
	})},
	{"begins again while the last attempt goes", with(func(f *Facts) {
		if f.Trial.Progress == TrialEnding && f.Trial.Verdict == NoVerdict {
			f.Trial.Progress = NoTrial
		}
	})},
	{"quarantines for want of a verdict", replace(fail(TrialInconclusive), do(Quarantine))},
	{"calls a failed trial a quarantine by another client", replace(fail(TrialFailed), fail(Quarantined))},
	{"calls a quarantine a failed trial", replace(fail(Quarantined), fail(TrialFailed))},
	{"promotes where a person does", with(func(f *Facts) { f.Promotion.Manual = false })},
	{"waits for a person for ever", with(func(f *Facts) { f.Promotion.Stale = false })},
	{"asks a person before the trial", func(f Facts) Decision {
		if d := Next(f); d.Do == BeginTrial && f.Promotion.Manual && f.Trial.Progress == NoTrial {
			return wait(ForPromotion)
		}
		return Next(f)
	}},
	{"gives a person no time", with(func(f *Facts) { f.Promotion.Stale = f.Promotion.Stale || f.Promotion.Manual })},
	{"takes a promotion by hand for a verdict", func(f Facts) Decision {
		if f.Trial.Needed && f.Promotion.Recipe == RecipeHere && f.Trial.Progress == TrialBuilt && f.Trial.Verdict == NoVerdict && !f.Failed && !f.Deleting {
			return do(PassTrial)
		}
		return Next(f)
	}},
	{"condemns what a person has promoted", with(func(f *Facts) {
		if f.Trial.Progress == TrialBuilt && f.Promotion.Recipe == RecipeHere {
			f.Promotion.Recipe = RecipeElsewhere
		}
	})},
}
