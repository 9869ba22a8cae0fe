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
	w := model{f: Facts{Node: NodeReady, Power: On, MustRetire: true}}.derived()
	for w.f.Image != Complete {
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
			w.f.NeedsTrial, w.f.Manual = tries, manual
			worlds = append(worlds, w.derived())
		}
	}
	return worlds
}

// deriveTrial sets the facts of a trial that follow from other facts.
func (w *model) deriveTrial() {
	f := &w.f
	if f.Trial == NoTrial || f.Trial == TrialEnding {
		f.AttemptVerdict = NoVerdict
	}
	if f.Image == Absent {
		f.VersionVerdict = NoVerdict
	}
	f.KeepsFailed = f.KeepsFailed && f.VersionVerdict == VerdictFailed
	f.Paused = f.Paused && f.Trial == NoTrial
	f.Stale = f.Stale && f.Recipe == RecipeElsewhere
	w.tried.going = w.tried.going && w.tried.made
}

func (w *model) effectOfTrial(action Action) {
	f, t := &w.f, &w.tried
	switch action {
	case BeginTrial:
		if f.Trial == NoTrial {
			f.Trial = TrialDecided
			return
		}
		f.Trial, t.made, t.attempts = TrialMaking, true, t.attempts+1
	case PassTrial:
		f.VersionVerdict = VerdictPassed
		t.passed = t.passed || f.AttemptVerdict == VerdictPassed
	case Quarantine:
		f.VersionVerdict, f.Quarantined, f.KeepsFailed = VerdictFailed, true, true
		t.wronged = t.wronged || f.AttemptVerdict != VerdictFailed
	case EndTrial:
		switch {
		case f.Trial != TrialEnding:
			f.Trial = TrialEnding
		case t.made:
			t.going = true
		default:
			f.Trial, f.Paused = NoTrial, f.VersionVerdict == NoVerdict
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
	case f.Trial == TrialMaking:
		f.Trial = TrialBuilt
	case f.Trial == TrialBuilt && f.AttemptVerdict == NoVerdict && f.VersionVerdict == NoVerdict:
		f.AttemptVerdict = VerdictPassed
	case f.Paused:
		f.Paused = false
	case f.KeepsFailed:
		f.KeepsFailed = false
	case f.Manual && f.Recipe == RecipeElsewhere && f.Trial == NoTrial && f.Image == Complete && !f.Quarantined && (!f.NeedsTrial || f.VersionVerdict == VerdictPassed):
		f.Recipe, t.byHand = RecipeHere, true
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
	add(func(n *model) { n.f.Quarantined = true })
	add(func(n *model) { // no cloud deletes an image that a recipe names
		if n.f.Recipe != RecipeHere {
			n.f.Image = Deleting
		}
	})
	for _, other := range []Recipe{RecipeNewer, RecipeChanged} {
		add(func(n *model) {
			if n.f.Recipe == RecipeElsewhere {
				n.f.Recipe = other
			}
		})
	}
	add(func(n *model) { // a person does not wait for the verdict
		if n.f.Recipe == RecipeElsewhere && n.f.Image == Complete {
			n.f.Recipe, n.tried.byHand = RecipeHere, true
		}
	})
	add(func(n *model) { n.f.Stale = n.f.Manual && n.f.Trial == NoTrial })
	if w.f.Trial != NoTrial && w.f.Trial != TrialEnding {
		add(func(n *model) { n.f.AttemptVerdict = VerdictInconclusive })
		add(func(n *model) { n.f.AttemptVerdict = NoVerdict }) // what could not be seen can be
		add(func(n *model) {
			if n.f.Trial != TrialDecided && n.f.AttemptVerdict == NoVerdict {
				n.f.AttemptVerdict = VerdictFailed
			}
		})
		add(func(n *model) { // another client removes the instance
			if n.f.Trial == TrialBuilt {
				n.f.AttemptVerdict, n.tried.made = VerdictInconclusive, false
			}
		})
	}
	add(func(n *model) { n.f.TrialOver = n.f.Trial != NoTrial || n.f.Paused })
	add(func(n *model) { // a hand removes the verdict
		if n.f.VersionVerdict == VerdictPassed && n.f.Recipe == RecipeElsewhere {
			n.f.VersionVerdict = NoVerdict
		}
	})
	return out
}
