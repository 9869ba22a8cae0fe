package recipe

import (
	"cmp"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/plantest"
)

// model is a model of a change: the facts, and what only the model knows.
type model struct {
	f facts
	// lost: the recipe lost parts that were not saved. left: the recipe left a version without its tags. overwritten: the change
	// overwrote another client's recipe.
	lost, left, overwritten bool
	// stuck: the recipe named a version that was not launched.
	stuck  bool
	closed bool
}

type planner = plantest.Planner[facts, Action, Reason]

// worlds returns all possible facts.
func worlds() []model {
	var all []model
	for bits := range 1 << 8 {
		on := func(n int) bool { return bits>>n&1 == 1 }
		for _, recipe := range []state{before, wanted, other} {
			f := facts{
				tags: on(0), tagged: on(1), gone: on(2), points: on(3), recipe: recipe, loses: on(4), saved: on(5), deletes: on(6), deleted: on(7),
			}
			all = append(all, model{f: f})
			if !f.tags || f.deletes {
				continue // only tags change what the cloud answers to launches
			}
			for _, launches := range []cloud.Launches{"", cloud.LaunchesAllowed, cloud.LaunchesForbidden} {
				for _, wanted := range []cloud.Launches{cloud.LaunchesAllowed, cloud.LaunchesForbidden} {
					f.launches, f.wanted = launches, wanted
					all = append(all, model{f: f})
				}
			}
		}
	}
	return all
}

func (w model) effect(d Decision) model {
	f := &w.f
	switch d.Do {
	case Tag:
		f.tagged = true
	case Save:
		f.saved = true
	case Point:
		w.lost = w.lost || f.recipe == before && f.loses && !f.saved
		w.left = w.left || f.tags && !f.tagged && !f.gone
		w.overwritten = w.overwritten || f.recipe == other
		f.recipe = wanted
	case Allow:
		f.launches = cloud.LaunchesAllowed
	case Forbid:
		w.stuck = w.stuck || f.points && f.recipe == before
		f.launches = cloud.LaunchesForbidden
	case Delete:
		f.deleted = true
	case Done, Fail:
		w.closed = true
	}
	return w
}

// adverse are the worlds after a write of another client.
func (w model) adverse() []model {
	var all []model
	for _, change := range []func(*facts){
		func(f *facts) { f.recipe = other }, func(f *facts) { f.recipe = before }, func(f *facts) { f.recipe = wanted },
		func(f *facts) { f.tagged = false }, func(f *facts) {
			if f.wanted == cloud.LaunchesForbidden && f.launches != "" {
				f.launches = cloud.LaunchesAllowed
			}
		}, func(f *facts) { f.saved = false }, func(f *facts) { f.gone, f.deleted = true, true },
	} {
		next := w
		change(&next.f)
		all = append(all, next)
	}
	return all
}

var rules = []plantest.Rule[model, Action, Reason]{
	plantest.That("the recipe leaves a version only after its tags", "", func(w model, _ Decision) bool { return !w.left }),
	plantest.That("what the recipe loses is saved first", "", func(w model, _ Decision) bool { return !w.lost }),
	plantest.That("a recipe of another client is not overwritten", "", func(w model, _ Decision) bool { return !w.overwritten }),
	plantest.That("only a recipe that is to change is written", "|Point|Save|", func(w model, _ Decision) bool { return w.f.points && w.f.recipe == before }),
	plantest.That("only lost parts are saved, and once", "|Save|", func(w model, _ Decision) bool { return w.f.loses && !w.f.saved }),
	plantest.That("only a version that exists is tagged, and once", "|Tag|", func(w model, _ Decision) bool { return w.f.tags && !w.f.gone && !w.f.tagged }),
	plantest.That("no recipe names a version that is not launched", "", func(w model, _ Decision) bool { return !w.stuck }),
	plantest.That("what is not launched is quarantined", "|Forbid|", func(w model, _ Decision) bool { return w.f.tagged }),
	plantest.That("the quarantine ends after the launches are allowed", "|Tag|", func(w model, _ Decision) bool {
		return w.f.wanted != cloud.LaunchesAllowed || w.f.launches != cloud.LaunchesForbidden
	}),
	plantest.That("only launches that are to change are written, and once", "|Allow|Forbid|", func(w model, d Decision) bool {
		to := map[Action]cloud.Launches{Allow: cloud.LaunchesAllowed, Forbid: cloud.LaunchesForbidden}[d.Do]
		return !w.f.gone && w.f.wanted == to && w.f.launches != to && w.f.launches != ""
	}),
	plantest.That("only a version that is to go is deleted, and once", "|Delete|", func(w model, _ Decision) bool { return w.f.deletes && !w.f.deleted }),
	plantest.That("nothing is done once the recipe is another client's", "|Tag|Save|Point|Delete|Done|", func(w model, _ Decision) bool {
		return !w.f.points || w.f.recipe != other
	}),
	plantest.That("only another client's recipe is a failure", "|Fail|", func(w model, d Decision) bool {
		return d.Why == RecipeChanged && w.f.points && w.f.recipe == other
	}),
	plantest.That("the end has all that was decided", "|Done|", func(w model, _ Decision) bool {
		f := w.f
		return (!f.tags || f.tagged || f.gone) && (!f.points || f.recipe == wanted) && (!f.deletes || f.deleted) &&
			(f.gone || f.wanted == "" || f.launches == "" || f.launches == f.wanted)
	}),
}

// explored is what a planner reaches from all facts, within two writes of other clients. Six steps suffice to the end.
func explored(next planner) *plantest.Exploration[model, facts, Action, Reason] {
	m := plantest.Model[model, facts, Action, Reason]{
		Starts: worlds(), Facts: func(w model) facts { return w.f }, Effect: model.effect, Progress: func(w model) model { return w },
		Adverse: model.adverse, Closed: func(w model) bool { return w.closed }, Rules: plantest.Always(rules), MaxSteps: 6,
	}
	return m.Explore(next, 2)
}

func TestEveryReachableWorld(t *testing.T) {
	e := explored(next)
	if e.Bad != nil {
		t.Fatal(e.Bad)
	}
	t.Logf("%d worlds", e.Worlds)
}

// TestWrongPlannersAreCaught: each breaks a rule in a reachable world.
func TestWrongPlannersAreCaught(t *testing.T) {
	without := func(change func(*facts)) planner { return plantest.With(next, change) }
	instead := func(due Action, wrong Decision) planner { return plantest.Instead(next, due, wrong) }
	plantest.Catch(t, plantest.Wrong[facts, Action, Reason]{
		"points before it tags":                without(func(f *facts) { f.tagged = f.tagged || f.points && f.recipe == before }),
		"does not tag":                         without(func(f *facts) { f.tags = false }),
		"tags a version that is gone":          without(func(f *facts) { f.gone = false }),
		"tags again":                           without(func(f *facts) { f.tagged = false }),
		"points before it saves":               without(func(f *facts) { f.saved = true }),
		"saves what is not lost":               without(func(f *facts) { f.loses = true }),
		"saves again":                          without(func(f *facts) { f.saved = false }),
		"does not point":                       instead(Point, do(Done)),
		"points for ever":                      without(func(f *facts) { f.recipe = before }),
		"points the recipe of a mark":          without(func(f *facts) { f.points = true }),
		"does not see another client's recipe": without(func(f *facts) { f.points = f.points && f.recipe != other }),
		"takes another client's recipe for its own": without(func(f *facts) {
			if f.recipe == other {
				f.recipe = before
			}
		}),
		"takes its own recipe for another client's": without(func(f *facts) {
			if f.recipe == before {
				f.recipe = other
			}
		}),
		"does not forbid launches": instead(Forbid, do(Done)),
		"does not allow launches":  instead(Allow, do(Tag)),
		"forbids what is launched by the recipe": func(f facts) Decision {
			if f.wanted == cloud.LaunchesForbidden && f.launches == cloud.LaunchesAllowed && f.tagged && !f.gone && f.recipe != other {
				return do(Forbid)
			}
			return next(f)
		},
		"forbids before it tags": func(f facts) Decision {
			if f.wanted == cloud.LaunchesForbidden && f.launches == cloud.LaunchesAllowed && !f.points && !f.gone {
				return do(Forbid)
			}
			return next(f)
		},
		"forbids again":             without(func(f *facts) { f.launches = map[bool]cloud.Launches{true: cloud.LaunchesAllowed}[f.launches != ""] }),
		"forbids where nothing can": without(func(f *facts) { f.launches = cmp.Or(f.launches, cloud.LaunchesAllowed) }),
		"does not delete":           instead(Delete, do(Done)),
		"deletes again":             without(func(f *facts) { f.deleted = false }),
		"deletes what stays":        without(func(f *facts) { f.deletes = true }),
		"fails without a reason":    plantest.Mute(next),
		"ends although it may not":  instead(Fail, do(Done)),
		"deletes instead of a mark": instead(Tag, do(Delete)),
	}, explored)
}

func TestNext(t *testing.T) {
	for _, test := range []struct {
		name string
		f    facts
		want Decision
	}{
		{"a rollback begins with the quarantine", facts{tags: true, points: true, recipe: before}, do(Tag)},
		{"then the recipe", facts{tags: true, tagged: true, points: true, recipe: before}, do(Point)},
		{"then the launches", facts{tags: true, tagged: true, points: true, recipe: wanted, launches: cloud.LaunchesAllowed, wanted: cloud.LaunchesForbidden}, do(Forbid)},
		{"a release begins with the launches", facts{tags: true, launches: cloud.LaunchesForbidden, wanted: cloud.LaunchesAllowed}, do(Allow)},
		{"then it is done", facts{tags: true, tagged: true, points: true, recipe: wanted}, do(Done)},
		{"a version that is gone carries no tags", facts{tags: true, gone: true, points: true, recipe: before}, do(Point)},
		{"the recipe is there, the tags are not", facts{tags: true, points: true, recipe: wanted}, do(Tag)},
		{"another client was faster", facts{tags: true, points: true, recipe: other}, fail(RecipeChanged)},
		{"a promotion keeps first what is lost", facts{points: true, recipe: before, loses: true}, do(Save)},
		{"a quarantine", facts{tags: true}, do(Tag)},
		{"a retirement", facts{deletes: true}, do(Delete)},
		{"nothing", facts{}, do(Done)},
	} {
		if got := next(test.f); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
