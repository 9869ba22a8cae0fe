package plan

import (
	"sync"
	"testing"
)

// trialModel is what the model knows of a trial beside the facts.
type trialModel struct {
	// published: the world begins with a complete image, and its donor is out of hands.
	published bool
	// made: something of the attempt is there, in the cloud or in the cluster; going: the cloud removes it.
	made, going bool
	// passed is the truth behind VersionVerdict: some attempt did pass. wronged: a version was quarantined that had not failed.
	passed, wronged bool
	// onward: the last attempt has passed on its machine type, and another type follows.
	onward bool
	// reboots: the instance restarts once before its verdict; restarted: the cloud was asked; decided: the record says so.
	reboots, decided, restarted bool
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
			if tries && !manual {
				more := w
				more.f.Trial.MoreTypes = true
				worlds = append(worlds, more.derived())
			}
			if tries {
				again := w
				again.tried.reboots = true
				worlds = append(worlds, again.derived())
				if !manual {
					again.f.Trial.MoreTypes = true
					worlds = append(worlds, again.derived())
				}
			}
		}
	}
	return worlds
}

// deriveTrial sets the facts of a trial that follow from other facts.
func (w *model) deriveTrial() {
	f := &w.f
	if f.Trial.Progress == NoTrial || f.Trial.Progress == TrialEnding {
		f.Trial.AttemptVerdict = NoVerdict
		w.tried.decided, w.tried.restarted = false, false
	}
	f.Trial.RebootDue = f.Trial.RebootDue && f.Trial.Progress == TrialBuilt && f.Trial.AttemptVerdict == NoVerdict && w.tried.reboots && !w.tried.restarted
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
		f.Trial.Progress, t.made, t.attempts, t.onward = TrialMaking, true, t.attempts+1, false
	case RebootTrial:
		t.restarted, t.decided = t.decided, true
	case PassType:
		f.Trial.Progress, f.Trial.MoreTypes, f.Trial.Over, t.onward = TrialEnding, false, false, true
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
			f.Trial.Progress, f.Trial.Paused = NoTrial, f.Trial.Verdict == NoVerdict && !t.onward
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
	case f.Trial.Progress == TrialBuilt && f.Trial.AttemptVerdict == NoVerdict && f.Trial.Verdict == NoVerdict && t.reboots && !t.restarted:
		if f.Trial.RebootDue {
			return false // until the planner restarts it
		}
		f.Trial.RebootDue = true
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
		add(func(n *model) { n.tried.reboots = false }) // the cloud denies the restart
		add(func(n *model) {                            // another client removes the instance
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

// ofTrials are the actions that belong to trials.
const ofTrials = "|BeginTrial|WatchTrial|RebootTrial|PassType|PassTrial|Quarantine|EndTrial|"

// goesOn are the actions that leave a trial behind, or end the capture.
const goesOn = "|SaveRecipe|Promote|Retire|Succeed|Close|"

// trialProperties are those of trials and of the gate in front of a promotion.
var trialRules = []rule{
	that("no trial without a request", ofTrials, func(w model, _ Decision) bool { return w.f.Trial.Needed }),
	that("nothing of a trial is left when the capture goes on or ends", goesOn, func(w model, _ Decision) bool {
		return w.f.Trial.Progress == NoTrial && !w.tried.made
	}),
	that("only what has passed its trial is promoted", "|SaveRecipe|Promote|", func(w model, _ Decision) bool {
		return !w.f.Trial.Needed || w.tried.passed && w.f.Trial.Verdict == VerdictPassed
	}),
	that("a pool is never left on an untried version", "|Succeed|Close|", func(w model, _ Decision) bool {
		return !w.f.Trial.Needed || w.f.Promotion.Recipe != RecipeHere || w.tried.passed || w.tried.byHand
	}),
	that("an untried version is no success, unless a person has promoted it", "|Retire|Succeed|", func(w model, _ Decision) bool {
		return !w.f.Trial.Needed || w.tried.byHand || w.tried.passed && w.f.Trial.Verdict == VerdictPassed
	}),
	that("a version that a person promoted is not tried and not quarantined", "|BeginTrial|WatchTrial|RebootTrial|PassType|PassTrial|Quarantine|",
		func(w model, _ Decision) bool { return w.f.Promotion.Recipe != RecipeHere }),
	that("one attempt at a time", "|BeginTrial|", func(w model, _ Decision) bool {
		return !w.tried.made && (w.f.Trial.Progress == NoTrial || w.f.Trial.Progress == TrialDecided) && w.f.Trial.Verdict == NoVerdict
	}),
	that("an instance restarts only when all other checks have passed, and once", "|RebootTrial|", func(w model, _ Decision) bool {
		return w.tried.reboots && w.f.Trial.RebootDue && !w.tried.restarted && w.f.Trial.AttemptVerdict == NoVerdict && !w.f.Trial.Over
	}),
	that("no wait for an instance that must restart", "|WatchTrial|", func(w model, _ Decision) bool { return !w.f.Trial.RebootDue }),
	that("no attempt behind the end", "|BeginTrial|WatchTrial|RebootTrial|PassType|PassTrial|Quarantine|", func(w model, _ Decision) bool {
		return !w.f.Deleting && !w.f.Failed
	}),
	that("no attempt before the pause is over, or behind the last", "|BeginTrial|", func(w model, _ Decision) bool {
		return !w.f.Trial.Paused && !w.f.Trial.Over
	}),
	that("a version has passed after its last machine type", "|PassType|PassTrial|", func(w model, d Decision) bool {
		return w.f.Trial.MoreTypes == (d.Do == PassType)
	}),
	that("only a judged version gets a verdict", "|PassType|PassTrial|Quarantine|", func(w model, d Decision) bool {
		return w.f.Trial.AttemptVerdict == VerdictPassed && d.Do != Quarantine || w.f.Trial.AttemptVerdict == VerdictFailed && d.Do == Quarantine
	}),
	that("a verdict is written before the trial is ended", "|EndTrial|", func(w model, _ Decision) bool {
		judged := w.f.Trial.AttemptVerdict == VerdictPassed || w.f.Trial.AttemptVerdict == VerdictFailed
		return !judged || w.f.Promotion.Recipe == RecipeHere || w.f.Trial.Verdict != NoVerdict || w.f.Image.Quarantined || w.f.Deleting || w.f.Failed
	}),
	that("a trial is not ended while it may come to something", "|EndTrial|", func(w model, _ Decision) bool {
		return w.f.Trial.Progress == TrialEnding || w.f.Promotion.Recipe == RecipeHere || w.f.Trial.Verdict != NoVerdict ||
			w.f.Trial.AttemptVerdict != NoVerdict ||
			w.f.Trial.Over ||
			w.f.Deleting ||
			w.f.Failed
	}),
	that("a failed instance stays as long as it is kept", "|EndTrial|", func(w model, _ Decision) bool {
		return !w.f.Trial.KeepsFailed || !w.f.Failed || w.f.Deleting || w.f.Trial.Progress == TrialEnding
	}),
	that("only a failed instance is kept, and not behind a deletion", "|Wait|", func(w model, d Decision) bool {
		return d.Why != ForTrial || w.f.Trial.Paused || w.f.Trial.KeepsFailed && w.f.Trial.Verdict == VerdictFailed && w.f.Failed && !w.f.Deleting
	}),
	that("no wait for a node with a verdict", "|WatchTrial|", func(w model, _ Decision) bool {
		return w.f.Trial.AttemptVerdict == NoVerdict && !w.f.Trial.Over
	}),
	that("a version that failed says so", "|Fail|", func(w model, d Decision) bool {
		return (d.Why != TrialFailed || w.f.Image.Quarantined && w.f.Trial.Verdict == VerdictFailed) &&
			(d.Why != Quarantined || w.f.Trial.Verdict != VerdictFailed)
	}),
	that("a missing judge is not a failure", "|Fail|", func(w model, d Decision) bool {
		return d.Why != TrialInconclusive ||
			w.f.Trial.Over && !w.f.Image.Quarantined && w.f.Trial.Verdict == NoVerdict && w.f.Trial.Progress == NoTrial
	}),
	that("nothing is quarantined that has not failed", "", func(w model, _ Decision) bool { return !w.tried.wronged }),
	that("where a person promotes, Kamino does not", "|SaveRecipe|Promote|", func(w model, _ Decision) bool { return !w.f.Promotion.Manual }),
	that("a person is waited for only behind the trial", "|Wait|", func(w model, d Decision) bool {
		return d.Why != ForPromotion ||
			w.f.Promotion.Manual && !w.f.Promotion.Stale && w.f.Trial.Progress == NoTrial && (!w.f.Trial.Needed || w.f.Trial.Verdict == VerdictPassed)
	}),
	that("a version is stale only where a person was waited for", "|Fail|", func(w model, d Decision) bool {
		return d.Why != PromotionStale || w.f.Promotion.Stale
	}),
}

// trialMutants are wrong about trials, and about who promotes.
var trialMutants = wrong{
	"promotes without a trial": with(func(f *Facts) { f.Trial.Needed = false }),
	"takes what is not judged for good": where(func(f Facts, d Decision) bool {
		return d.Do == WatchTrial && f.Trial.Progress == TrialBuilt
	}, do(PassTrial)),
	"takes the judgement for the verdict": with(func(f *Facts) {
		if f.Trial.AttemptVerdict == VerdictPassed {
			f.Trial.Verdict = VerdictPassed
		}
	}),
	"passes after the first machine type":   with(func(f *Facts) { f.Trial.MoreTypes = false }),
	"goes on to a type that there is not":   replace(do(PassTrial), do(PassType)),
	"passes a version that has booted once": replace(do(RebootTrial), do(PassTrial)),
	"waits for a boot that no one orders":   with(func(f *Facts) { f.Trial.RebootDue = false }),
	"restarts the instance for ever":        replace(do(WatchTrial), do(RebootTrial)),
	"restarts the instance behind the end":  where(func(f Facts, _ Decision) bool { return f.Trial.RebootDue && f.Deleting }, do(RebootTrial)),
	"takes a doubt for a pass":              with(mistaken(attemptVerdictOf, VerdictInconclusive, VerdictPassed)),
	"takes a doubt for a failure":           with(mistaken(attemptVerdictOf, VerdictInconclusive, VerdictFailed)),
	"promotes while the trial node is there": with(func(f *Facts) {
		if f.Trial.Verdict == VerdictPassed {
			f.Trial.Progress = NoTrial
		}
	}),
	"leaves the trial node when it is deleted": with(func(f *Facts) {
		if f.Deleting {
			f.Trial.Progress = NoTrial
		}
	}),
	"leaves the trial node when it fails": with(func(f *Facts) {
		if f.Failed {
			f.Trial.Progress = NoTrial
		}
	}),
	"ends a trial before it writes the verdict":      replace(do(Quarantine), do(EndTrial)),
	"ends a trial that passed before it writes that": replace(do(PassTrial), do(EndTrial)),
	"ends a trial that may come to something":        replace(do(WatchTrial), do(EndTrial)),
	"goes on trying behind the end": with(func(f *Facts) {
		if f.Trial.Progress == TrialBuilt {
			f.Deleting = false
		}
	}),
	"keeps no failed instance": with(func(f *Facts) { f.Trial.KeepsFailed = false }),
	"keeps the instance of a deleted capture": with(func(f *Facts) {
		if f.Trial.KeepsFailed && f.Failed {
			f.Deleting = false
		}
	}),
	"does not pause":                     with(func(f *Facts) { f.Trial.Paused = false }),
	"tries for ever":                     with(func(f *Facts) { f.Trial.Over = false }),
	"waits for a node without a verdict": with(mistaken(attemptVerdictOf, VerdictInconclusive, NoVerdict)),
	"begins again while the last attempt goes": with(func(f *Facts) {
		if f.Trial.Progress == TrialEnding && f.Trial.Verdict == NoVerdict {
			f.Trial.Progress = NoTrial
		}
	}),
	"quarantines for want of a verdict":                   replace(fail(TrialInconclusive), do(Quarantine)),
	"calls a failed trial a quarantine by another client": replace(fail(TrialFailed), fail(Quarantined)),
	"calls a quarantine a failed trial":                   replace(fail(Quarantined), fail(TrialFailed)),
	"promotes where a person does":                        with(func(f *Facts) { f.Promotion.Manual = false }),
	"waits for a person for ever":                         with(func(f *Facts) { f.Promotion.Stale = false }),
	"asks a person before the trial": where(func(f Facts, d Decision) bool {
		return d.Do == BeginTrial && f.Promotion.Manual && f.Trial.Progress == NoTrial
	}, wait(ForPromotion)),
	"gives a person no time": with(func(f *Facts) { f.Promotion.Stale = f.Promotion.Stale || f.Promotion.Manual }),
	"takes a promotion by hand for a verdict": where(func(f Facts, _ Decision) bool {
		return f.Trial.Needed && f.Promotion.Recipe == RecipeHere && f.Trial.Progress == TrialBuilt && f.Trial.Verdict == NoVerdict && !f.Failed &&
			!f.Deleting
	}, do(PassTrial)),
	"condemns what a person has promoted": with(func(f *Facts) {
		if f.Trial.Progress == TrialBuilt && f.Promotion.Recipe == RecipeHere {
			f.Promotion.Recipe = RecipeElsewhere
		}
	}),
}

// everyTrial is what is reached from a complete image. It is explored once for all tests.
var everyTrial = sync.OnceValue(func() reached { return explore(adversities(false), publishedVersions()) })

// TestEveryReachableTrial holds the properties, and liveness, in every world that can be reached from a complete image.
func TestEveryReachableTrial(t *testing.T) {
	e := everyTrial()
	if e.Bad != nil {
		t.Fatal(e.Bad)
	}
	if e.attempts < 3 {
		t.Errorf("at most %d attempts were made", e.attempts)
	}
	t.Logf("%d worlds, %d distinct facts", e.Worlds, len(e.facts))
}

// TestWhereATrialMakesNoDifference: before the image is complete, while its snapshot exists, and after a passed trial,
// trial and promotion mode change no decision. Faults of calls there need only one mode.
func TestWhereATrialMakesNoDifference(t *testing.T) {
	tried := 0
	for f := range everywhere().facts {
		copied := f.Image.Snapshot != Absent && f.Image.Snapshot != Deleting && f.Image.Snapshot != Foreign
		if f.Image.Version == Complete && !copied && !f.isHeld() && !f.Failed && !f.Deleting && !f.Image.Quarantined {
			continue
		}
		want := Next(f)
		tried++
		for _, manual := range []bool{false, true} {
			other := f
			other.Trial.Needed, other.Promotion.Manual = true, manual
			if got := Next(other); got != want {
				t.Fatalf("%s, and %s for %+v", want, got, other)
			}
		}
	}
	if tried == 0 {
		t.Error("no world was tried")
	}
	behind := 0
	for f := range everyTrial().facts {
		if f.Trial.Verdict != VerdictPassed || f.Trial.Progress != NoTrial {
			continue
		}
		behind++
		other := f
		other.Trial.Needed, other.Trial.Verdict = false, NoVerdict
		if got, want := Next(other), Next(f); got != want {
			t.Fatalf("behind a trial that has passed %s, and %s without one: %+v", want, got, f)
		}
	}
	if behind == 0 {
		t.Error("no world has passed its trial")
	}
}

// TestATrialDoesNotAskTheDonor: after the release of the donor, no fact of the donor changes a decision.
func TestATrialDoesNotAskTheDonor(t *testing.T) {
	for f := range everyTrial().facts {
		want := Next(f)
		for _, node := range []Node{NodeGone, NodeNotReady, NodeReady} {
			for _, power := range []Power{InstanceGone, On, Changing, Off} {
				other := f
				other.Donor.Node, other.Donor.Power, other.Donor.Cordoned, other.Hold.Protected, other.Queued, other.Refused = node, power, !f.Donor.Cordoned, !f.Hold.Protected, !f.Queued, !f.Refused
				if got := Next(other); got != want {
					t.Fatalf("%s, and %s for %+v", want, got, other)
				}
			}
		}
	}
}

// TestATrialAloud lists the actions after a complete image for each mode of trial and promotion.
func TestATrialAloud(t *testing.T) {
	const before, after = "DeleteSnapshot, ", "Retire, Succeed"
	for _, w := range publishedVersions() {
		want, watched := before, "BeginTrial, WatchTrial, "
		if w.tried.reboots {
			watched += "RebootTrial, WatchTrial, "
		}
		if w.f.Trial.MoreTypes {
			want += watched + "PassType, EndTrial, "
		}
		if w.f.Trial.Needed {
			want += watched + "PassTrial, EndTrial, "
		}
		if w.f.Promotion.Manual {
			want += "Wait: Promotion, " + after
		} else {
			want += "SaveRecipe, Promote, " + after
		}
		if said, end := world().Course(Next, w); said != want || !end.succeeded {
			t.Errorf("tried %t, by a person %t:\n got %s\nwant %s", w.f.Trial.Needed, w.f.Promotion.Manual, said, want)
		}
	}
}
