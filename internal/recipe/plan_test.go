package recipe

import "testing"

// worlds returns all possible facts.
func worlds() []facts {
	var all []facts
	for bits := range 1 << 8 {
		on := func(n int) bool { return bits>>n&1 == 1 }
		for _, recipe := range []state{before, wanted, other} {
			all = append(all, facts{
				tags: on(0), tagged: on(1), gone: on(2), points: on(3), recipe: recipe, loses: on(4), saved: on(5), deletes: on(6), deleted: on(7),
			})
		}
	}
	return all
}

// do returns the facts after a step. A lost step changes nothing.
func (f facts) do(a Action) facts {
	switch a {
	case Tag:
		f.tagged = true
	case Save:
		f.saved = true
	case Point:
		f.recipe = wanted
	case Delete:
		f.deleted = true
	case Done, Stop:
	}
	return f
}

// TestSafety: the recipe changes only after the mark of the bad version and the copy of lost values. A recipe that
// another client changed is never overwritten.
func TestSafety(t *testing.T) {
	for _, f := range worlds() {
		switch a := next(f); a {
		case Point:
			if f.tags && !f.tagged && !f.gone || f.loses && !f.saved || f.recipe != before || !f.points {
				t.Errorf("%+v: %s", f, a)
			}
		case Tag:
			if !f.tags || f.gone || f.tagged || f.points && f.recipe == other {
				t.Errorf("%+v: %s", f, a)
			}
		case Save:
			if !f.points || !f.loses || f.saved || f.recipe != before {
				t.Errorf("%+v: %s", f, a)
			}
		case Delete:
			if !f.deletes || f.deleted {
				t.Errorf("%+v: %s", f, a)
			}
		case Stop:
			if !f.points || f.recipe != other {
				t.Errorf("%+v: %s", f, a)
			}
		case Done:
			if f.tags && !f.tagged && !f.gone || f.points && f.recipe != wanted || f.deletes && !f.deleted {
				t.Errorf("%+v: %s", f, a)
			}
		}
	}
}

// TestStepsEnd: from all facts the steps end, without a repeated step, and lost steps are repeated.
func TestStepsEnd(t *testing.T) {
	for _, start := range worlds() {
		for lost := range 5 {
			f, done := start, map[Action]int{}
			steps := 0
			for ; ; steps++ {
				a := next(f)
				if a == Done || a == Stop {
					break
				}
				if steps == lost {
					continue // the effect is lost once
				}
				if done[a]++; done[a] > 1 || steps > 6 {
					t.Fatalf("%+v: %s again", start, a)
				}
				f = f.do(a)
			}
			if again := next(f); start.points && start.recipe == other && again != Stop {
				t.Errorf("%+v ended in %s", start, again)
			}
		}
	}
}

func TestNext(t *testing.T) {
	for _, test := range []struct {
		name string
		f    facts
		want Action
	}{
		{"a rollback begins with the quarantine", facts{tags: true, points: true, recipe: before}, Tag},
		{"then the recipe", facts{tags: true, tagged: true, points: true, recipe: before}, Point},
		{"then it is done", facts{tags: true, tagged: true, points: true, recipe: wanted}, Done},
		{"a version that is gone carries no tags", facts{tags: true, gone: true, points: true, recipe: before}, Point},
		{"the recipe is there, the tags are not", facts{tags: true, points: true, recipe: wanted}, Tag},
		{"another client was faster", facts{tags: true, points: true, recipe: other}, Stop},
		{"a promotion keeps first what is lost", facts{points: true, recipe: before, loses: true}, Save},
		{"a quarantine", facts{tags: true}, Tag},
		{"a retirement", facts{deletes: true}, Delete},
		{"nothing", facts{}, Done},
	} {
		if got := next(test.f); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
