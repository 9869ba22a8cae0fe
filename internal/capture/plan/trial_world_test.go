package plan

// trialModel is what the model knows of a trial beside the facts.
type trialModel struct {
	// published: the world begins with a complete image, and its donor is out of hands.
	published bool
	// made: something of the attempt is there, in the cloud or in the cluster; going: the cloud removes it.
	made, going bool
	// passed is the truth behind VersionVerdict: some attempt did pass. wronged: a version was quarantined that had not failed.
	passed, wronged bool
	// byHand: a person has pointed the recipe at the version.
	byHand bool
	// attempts that had something made.
	attempts int8
}

// publishedVersions are the worlds with a complete version that has a trial or a manual promotion. Earlier worlds are
// equal for all versions: TestWhereATrialMakesNoDifference.
func publishedVersions() []model {
	w := model{f: Facts{Donor: DonorFacts{Node: NodeReady, Power: On}, Promotion: PromotionFacts{MustRetire: true}}}.derived()
	for w.f.Image.Version != Complete {
		if after := w.effect(Next(w.f)); after != w {
			w = after
		} else {
			w = w.progress()
		}
	}
	w.tried.published = true
	var worlds []model
	for _, tries := range []bool{false, true} {
		for _, manual := range []bool{false, true} {
			if !tries && !manual {
				continue
			}
			w.f.Trial.Needed, w.f.Promotion.Manual = tries, manual
			worlds = append(worlds, w.derived())
		}
	}
	return worlds
}

// deriveTrial sets the facts of a trial that follow from other facts.
func (w *model) deriveTrial() {
	f := &w.f
	if f.Trial.Progress == NoTrial || f.Trial.Progress == TrialEnding {
		f.Trial.AttemptVerdict = NoVerdict
	}
	if f.Image.Version == Absent {
		f.Trial.Verdict = NoVerdict
	}
	f.Trial.KeepsFailed = f.Trial.KeepsFailed && f.Trial.Verdict == VerdictFailed
	f.Trial.Paused = f.Trial.Paused && f.Trial.Progress == NoTrial
	f.Promotion.Stale = f.Promotion.Stale && f.Promotion.Recipe == RecipeElsewhere
	w.tried.going = w.tried.going && w.tried.made
}

func (w *model) effectOfTrial(action Action) {
	f, t := &w.f, &w.tried
	switch action {
	case BeginTrial:
		if f.Trial.Progress == NoTrial {
			f.Trial.Progress = TrialDecided
			return
		}
		f.Trial.Progress, t.made, t.attempts = TrialMaking, true, t.attempts+1
	case PassTrial:
		f.Trial.Verdict = VerdictPassed
		t.passed = t.passed || f.Trial.AttemptVerdict == VerdictPassed
	case Quarantine:
		f.Trial.Verdict, f.Image.Quarantined, f.Trial.KeepsFailed = VerdictFailed, true, true
		t.wronged = t.wronged || f.Trial.AttemptVerdict != VerdictFailed
	case EndTrial:
		switch {
		case f.Trial.Progress != TrialEnding:
			f.Trial.Progress = TrialEnding
		case t.made:
			t.going = true
		default:
			f.Trial.Progress, f.Trial.Paused = NoTrial, f.Trial.Verdict == NoVerdict
		}
	default:
	}
}

// progressOfTrial reports whether the world has changed.
func (w *model) progressOfTrial() bool {
	f, t := &w.f, &w.tried
	switch {
	case t.going:
		t.made = false
	case f.Trial.Progress == TrialMaking:
		f.Trial.Progress = TrialBuilt
	case f.Trial.Progress == TrialBuilt && f.Trial.AttemptVerdict == NoVerdict && f.Trial.Verdict == NoVerdict:
		f.Trial.AttemptVerdict = VerdictPassed
	case f.Trial.Paused:
		f.Trial.Paused = false
	case f.Trial.KeepsFailed:
		f.Trial.KeepsFailed = false
	case f.Promotion.Manual && f.Promotion.Recipe == RecipeElsewhere && f.Trial.Progress == NoTrial && f.Image.Version == Complete && !f.Image.Quarantined && (!f.Trial.Needed || f.Trial.Verdict == VerdictPassed):
		f.Promotion.Recipe, t.byHand = RecipeHere, true
	default:
		return false
	}
	return true
}

// adverseToTrial are all adversities of a published version, its trial and its pool.
func (w model) adverseToTrial() []model {
	var out []model
	add := w.adding(&out)
	add(func(n *model) { n.f.Deleting = true })
	add(func(n *model) { n.f.Failed = false }) // the status is lost
	add(func(n *model) { n.proofGone = true })
	add(func(n *model) { n.f.Image.Quarantined = true })
	add(func(n *model) { // no cloud deletes an image that a recipe names
		if n.f.Promotion.Recipe != RecipeHere {
			n.f.Image.Version = Deleting
		}
	})
	for _, other := range []Recipe{RecipeNewer, RecipeChanged} {
		add(func(n *model) {
			if n.f.Promotion.Recipe == RecipeElsewhere {
				n.f.Promotion.Recipe = other
			}
		})
	}
	add(func(n *model) { // a person does not wait for the verdict
		if n.f.Promotion.Recipe == RecipeElsewhere && n.f.Image.Version == Complete {
			n.f.Promotion.Recipe, n.tried.byHand = RecipeHere, true
		}
	})
	add(func(n *model) { n.f.Promotion.Stale = n.f.Promotion.Manual && n.f.Trial.Progress == NoTrial })
	if w.f.Trial.Progress != NoTrial && w.f.Trial.Progress != TrialEnding {
		add(func(n *model) { n.f.Trial.AttemptVerdict = VerdictInconclusive })
		add(func(n *model) { n.f.Trial.AttemptVerdict = NoVerdict }) // what could not be seen can be
		add(func(n *model) {
			if n.f.Trial.Progress != TrialDecided && n.f.Trial.AttemptVerdict == NoVerdict {
				n.f.Trial.AttemptVerdict = VerdictFailed
			}
		})
		add(func(n *model) { // another client removes the instance
			if n.f.Trial.Progress == TrialBuilt {
				n.f.Trial.AttemptVerdict, n.tried.made = VerdictInconclusive, false
			}
		})
	}
	add(func(n *model) { n.f.Trial.Over = n.f.Trial.Progress != NoTrial || n.f.Trial.Paused })
	add(func(n *model) { // a hand removes the verdict
		if n.f.Trial.Verdict == VerdictPassed && n.f.Promotion.Recipe == RecipeElsewhere {
			n.f.Trial.Verdict = NoVerdict
		}
	})
	return out
}
