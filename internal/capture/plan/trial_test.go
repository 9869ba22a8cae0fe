package plan

import (
	"strings"
	"testing"
)

// ofTrials are the actions that belong to trials.
const ofTrials = "|BeginTrial|WatchTrial|PassTrial|Quarantine|EndTrial|"

// goesOn are the actions that leave a trial behind, or end the capture.
const goesOn = "|SaveRecipe|Promote|Retire|ScaleOut|Succeed|Close|"

// trialProperties are those of trials and of the gate in front of a promotion.
var trialProperties = []property{
	{"no trial without a request", ofTrials, func(w model, _ Decision) bool { return w.f.Trial.Needed }},
	{"nothing of a trial is left when the capture goes on or ends", goesOn, func(w model, _ Decision) bool {
		return w.f.Trial.Progress == NoTrial && !w.tried.made
	}},
	{"only what has passed its trial is promoted", "|SaveRecipe|Promote|", func(w model, _ Decision) bool {
		return !w.f.Trial.Needed || w.tried.passed && w.f.Trial.Verdict == VerdictPassed
	}},
	{"a pool is never left on an untried version", "|Succeed|Close|", func(w model, _ Decision) bool {
		return !w.f.Trial.Needed || w.f.Promotion.Recipe != RecipeHere || w.tried.passed || w.tried.byHand
	}},
	{"an untried version is no success, unless a person has promoted it", "|Retire|ScaleOut|Succeed|", func(w model, _ Decision) bool {
		return !w.f.Trial.Needed || w.tried.byHand || w.tried.passed && w.f.Trial.Verdict == VerdictPassed
	}},
	{"a version that a person promoted is not tried and not quarantined", "|BeginTrial|WatchTrial|PassTrial|Quarantine|", func(w model, _ Decision) bool {
		return w.f.Promotion.Recipe != RecipeHere
	}},
	{"one attempt at a time", "|BeginTrial|", func(w model, _ Decision) bool {
		return !w.tried.made && (w.f.Trial.Progress == NoTrial || w.f.Trial.Progress == TrialDecided) && w.f.Trial.Verdict == NoVerdict
	}},
	{"no attempt behind the end", "|BeginTrial|WatchTrial|PassTrial|Quarantine|", func(w model, _ Decision) bool { return !w.f.Deleting && !w.f.Failed }},
	{"no attempt before the pause is over, or behind the last", "|BeginTrial|", func(w model, _ Decision) bool { return !w.f.Trial.Paused && !w.f.Trial.Over }},
	{"only a judged version gets a verdict", "|PassTrial|Quarantine|", func(w model, d Decision) bool {
		return w.f.Trial.AttemptVerdict == VerdictPassed && d.Do == PassTrial || w.f.Trial.AttemptVerdict == VerdictFailed && d.Do == Quarantine
	}},
	{"a verdict is written before the trial is ended", "|EndTrial|", func(w model, _ Decision) bool {
		judged := w.f.Trial.AttemptVerdict == VerdictPassed || w.f.Trial.AttemptVerdict == VerdictFailed
		return !judged || w.f.Promotion.Recipe == RecipeHere || w.f.Trial.Verdict != NoVerdict || w.f.Image.Quarantined || w.f.Deleting || w.f.Failed
	}},
	{"a trial is not ended while it may come to something", "|EndTrial|", func(w model, _ Decision) bool {
		return w.f.Trial.Progress == TrialEnding || w.f.Promotion.Recipe == RecipeHere || w.f.Trial.Verdict != NoVerdict ||
			w.f.Trial.AttemptVerdict != NoVerdict ||
			w.f.Trial.Over ||
			w.f.Deleting ||
			w.f.Failed
	}},
	{"a failed instance stays as long as it is kept", "|EndTrial|", func(w model, _ Decision) bool {
		return !w.f.Trial.KeepsFailed || !w.f.Failed || w.f.Deleting || w.f.Trial.Progress == TrialEnding
	}},
	{"only a failed instance is kept, and not behind a deletion", "|Wait|", func(w model, d Decision) bool {
		return d.Why != ForTrial || w.f.Trial.Paused || w.f.Trial.KeepsFailed && w.f.Trial.Verdict == VerdictFailed && w.f.Failed && !w.f.Deleting
	}},
	{"no wait for a node with a verdict", "|WatchTrial|", func(w model, _ Decision) bool { return w.f.Trial.AttemptVerdict == NoVerdict && !w.f.Trial.Over }},
	{"a version that failed says so", "|Fail|", func(w model, d Decision) bool {
		return (d.Why != TrialFailed || w.f.Image.Quarantined && w.f.Trial.Verdict == VerdictFailed) &&
			(d.Why != Quarantined || w.f.Trial.Verdict != VerdictFailed)
	}},
	{"a missing judge is not a failure", "|Fail|", func(w model, d Decision) bool {
		return d.Why != TrialInconclusive || w.f.Trial.Over && !w.f.Image.Quarantined && w.f.Trial.Verdict == NoVerdict && w.f.Trial.Progress == NoTrial
	}},
	{"nothing is quarantined that has not failed", "", func(w model, _ Decision) bool { return !w.tried.wronged }},
	{"where a person promotes, Kamino does not", "|SaveRecipe|Promote|", func(w model, _ Decision) bool { return !w.f.Promotion.Manual }},
	{"a person is waited for only behind the trial", "|Wait|", func(w model, d Decision) bool {
		return d.Why != ForPromotion ||
			w.f.Promotion.Manual && !w.f.Promotion.Stale && w.f.Trial.Progress == NoTrial && (!w.f.Trial.Needed || w.f.Trial.Verdict == VerdictPassed)
	}},
	{
		"a version is stale only where a person was waited for",
		"|Fail|",
		func(w model, d Decision) bool { return d.Why != PromotionStale || w.f.Promotion.Stale },
	},
}

// everyTrial is what is reached from a complete image.
func everyTrial() *exploration {
	return explore(Next, WithoutCloud, publishedVersions(), adversities(false))
}

// TestEveryReachableTrial holds the properties, and liveness, in every world that can be reached from a complete image.
func TestEveryReachableTrial(t *testing.T) {
	e := everyTrial()
	if e.bad != nil {
		t.Fatal(e.bad)
	}
	if e.attempts < 3 {
		t.Errorf("at most %d attempts were made", e.attempts)
	}
	t.Logf("%d worlds, %d distinct facts", e.worlds, len(e.facts))
}

// TestWhereATrialMakesNoDifference: before the image is complete, while its snapshot exists, and after a passed trial,
// trial and promotion mode change no decision. Faults of calls there need only one mode.
func TestWhereATrialMakesNoDifference(t *testing.T) {
	tried := 0
	for _, f := range everywhere(adversities(testing.Short())).facts {
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
	for _, f := range everyTrial().facts {
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
	for _, f := range everyTrial().facts {
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
	watched := "BeginTrial, WatchTrial, PassTrial, EndTrial, "
	for _, w := range publishedVersions() {
		want := before
		if w.f.Trial.Needed {
			want += watched
		}
		if w.f.Promotion.Manual {
			want += "Wait: Promotion, " + after
		} else {
			want += "SaveRecipe, Promote, " + after
		}
		var got []string
		for range maxSteps {
			if w.closed {
				break
			}
			d := Next(w.f)
			if len(got) == 0 || got[len(got)-1] != d.String() {
				got = append(got, d.String())
			}
			if next := w.effect(d); next != w {
				w = next
				continue
			}
			w = w.progress()
		}
		if said := strings.Join(got, ", "); said != want || !w.succeeded {
			t.Errorf("tried %t, by a person %t:\n got %s\nwant %s", w.f.Trial.Needed, w.f.Promotion.Manual, said, want)
		}
	}
}
