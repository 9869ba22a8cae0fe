package recipe

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/plantest"
)

// warmModel is a model of a renewal: the facts, and the rounds so far. The second round ends the last old instance.
type warmModel struct {
	f      warmFacts
	rounds int
	closed bool
}

// warmWorlds returns all possible facts. Without a record, no limits are Kamino's.
func warmWorlds() []warmModel {
	var all []warmModel
	for bits := range 1 << 5 {
		on := func(n int) bool { return bits>>n&1 == 1 }
		f := warmFacts{exists: on(0), changing: on(1), old: on(0) && on(2), recorded: on(3), noted: on(3) && on(4), limits: ofOwner}
		all = append(all, warmModel{f: f})
		if f.recorded && f.exists {
			for _, l := range []limits{smaller, changed} {
				f.limits = l
				all = append(all, warmModel{f: f})
			}
		}
	}
	return all
}

func (w warmModel) effect(d Decision) warmModel {
	f := &w.f
	switch d.Do {
	case Wait:
		f.changing = false
	case Record:
		f.recorded, f.noted = true, false
	case Shrink:
		f.limits, f.changing = smaller, true
	case Note:
		f.noted = true
		w.rounds++
		f.old = f.old && w.rounds < 2
	case Restore:
		f.limits, f.changing = ofOwner, true
	case Forget:
		f.recorded, f.noted, f.limits = false, false, ofOwner
	case Done, Fail:
		w.closed = true
	}
	return w
}

// adverse are the worlds after a write of another client, or after instances came and went.
func (w warmModel) adverse() []warmModel {
	var all []warmModel
	for _, change := range []func(*warmFacts){
		func(f *warmFacts) { f.exists, f.old = false, false },
		func(f *warmFacts) {
			if f.recorded {
				f.limits = changed
			}
		},
		func(f *warmFacts) { f.changing = true }, func(f *warmFacts) { f.old = f.exists }, func(f *warmFacts) { f.old = false },
	} {
		next := w
		change(&next.f)
		all = append(all, next)
	}
	return all
}

var warmRules = []plantest.Rule[warmModel, Action, Reason]{
	plantest.That("the record goes only when the limits are not Kamino's", "|Forget|", func(w warmModel, _ Decision) bool {
		return w.f.recorded && (!w.f.exists || w.f.limits != smaller)
	}),
	plantest.That("only recorded limits are written, and no limits of another client", "|Shrink|Restore|", func(w warmModel, _ Decision) bool {
		return w.f.exists && w.f.recorded && w.f.limits != changed
	}),
	plantest.That("a settled warm pool shrinks, for old instances, once in a round", "|Shrink|", func(w warmModel, _ Decision) bool {
		return w.f.limits == ofOwner && w.f.old && !w.f.noted
	}),
	plantest.That("a round begins with old instances, after the last round", "|Record|", func(w warmModel, _ Decision) bool {
		return w.f.exists && w.f.limits == ofOwner && w.f.old && (!w.f.recorded || w.f.noted)
	}),
	plantest.That("a round's result precedes its end", "|Restore|", func(w warmModel, _ Decision) bool { return w.f.limits == smaller && w.f.noted }),
	plantest.That("the result is that of a smaller warm pool, once", "|Note|", func(w warmModel, _ Decision) bool { return w.f.limits == smaller && !w.f.noted }),
	plantest.That("nothing is done while instances come and go", "|Record|Shrink|Note|Restore|", func(w warmModel, _ Decision) bool { return !w.f.changing }),
	plantest.That("only for these it waits", "|Wait|", func(w warmModel, _ Decision) bool { return w.f.exists && w.f.changing }),
	plantest.That("it ends without a record, and without old instances", "|Done|", func(w warmModel, _ Decision) bool {
		return !w.f.recorded && (!w.f.exists || !w.f.old)
	}),
	plantest.That("it does not fail", "|Fail|Tag|Save|Point|Delete|Allow|Forbid|", func(warmModel, Decision) bool { return false }),
}

// exploredWarm is what a planner reaches from all facts, within two changes by others. Two rounds suffice to the end.
func exploredWarm(next plantest.Planner[warmFacts, Action, Reason]) *plantest.Exploration[warmModel, warmFacts, Action, Reason] {
	m := plantest.Model[warmModel, warmFacts, Action, Reason]{
		Starts: warmWorlds(), Facts: func(w warmModel) warmFacts { return w.f }, Effect: warmModel.effect, Progress: func(w warmModel) warmModel { return w },
		Adverse: warmModel.adverse, Closed: func(w warmModel) bool { return w.closed }, Rules: plantest.Always(warmRules), MaxSteps: 40,
	}
	return m.Explore(next, 2)
}

func TestEveryReachableWarmPool(t *testing.T) {
	e := exploredWarm(nextWarm)
	if e.Bad != nil {
		t.Fatal(e.Bad)
	}
	t.Logf("%d worlds", e.Worlds)
}

// TestWrongRenewalsAreCaught: each breaks a rule in a reachable world, or does not end.
func TestWrongRenewalsAreCaught(t *testing.T) {
	without := func(change func(*warmFacts)) plantest.Planner[warmFacts, Action, Reason] {
		return plantest.With(nextWarm, change)
	}
	instead := func(due Action, wrong Decision) plantest.Planner[warmFacts, Action, Reason] {
		return plantest.Instead(nextWarm, due, wrong)
	}
	plantest.Catch(t, plantest.Wrong[warmFacts, Action, Reason]{
		"shrinks without a record":     instead(Record, do(Shrink)),
		"does not wait":                without(func(f *warmFacts) { f.changing = false }),
		"waits for ever":               without(func(f *warmFacts) { f.changing = true }),
		"forgets instead of restoring": instead(Restore, do(Forget)),
		"restores before the result":   instead(Note, do(Restore)),
		"never begins another round":   instead(Record, do(Forget)),
		"records for ever":             without(func(f *warmFacts) { f.noted = true }),
		"notes for ever":               without(func(f *warmFacts) { f.noted = false }),
		"overwrites another client's limits": without(func(f *warmFacts) {
			if f.limits == changed {
				f.limits = smaller
			}
		}),
		"takes its own limits for another's": without(func(f *warmFacts) {
			if f.limits == smaller {
				f.limits = changed
			}
		}),
		"takes its own limits for the owner's": without(func(f *warmFacts) { f.limits = ofOwner }),
		"keeps the record":                     instead(Forget, do(Done)),
		"renews what is new":                   without(func(f *warmFacts) { f.old = f.exists }),
		"renews nothing":                       without(func(f *warmFacts) { f.old = false }),
		"does not see a lost warm pool":        without(func(f *warmFacts) { f.exists = true }),
		"restores at the end only":             instead(Forget, do(Restore)),
	}, exploredWarm)
}
