package plan

import "testing"

// worlds returns all possible facts.
func worlds() []Facts {
	var all []Facts
	for bits := range 1 << 8 {
		on := func(n int) bool { return bits>>n&1 == 1 }
		for _, recipe := range []Recipe{Before, Wanted, Other} {
			all = append(all, Facts{
				Tags: on(0), Tagged: on(1), Gone: on(2), Points: on(3), Recipe: recipe, Loses: on(4), Saved: on(5), Deletes: on(6), Deleted: on(7),
			})
		}
	}
	return all
}

// do returns the facts after a step. A lost step changes nothing.
func (f Facts) do(a Action) Facts {
	switch a {
	case Tag:
		f.Tagged = true
	case Save:
		f.Saved = true
	case Point:
		f.Recipe = Wanted
	case Delete:
		f.Deleted = true
	case Done, Stop:
	}
	return f
}

// TestSafety: the recipe changes only after the mark of the bad version and the copy of lost values. A recipe that
// another client changed is never overwritten.
func TestSafety(t *testing.T) {
	for _, f := range worlds() {
		switch a := Next(f); a {
		case Point:
			if f.Tags && !f.Tagged && !f.Gone || f.Loses && !f.Saved || f.Recipe != Before || !f.Points {
				t.Errorf("%+v: %s", f, a)
			}
		case Tag:
			if !f.Tags || f.Gone || f.Tagged || f.Points && f.Recipe == Other {
				t.Errorf("%+v: %s", f, a)
			}
		case Save:
			if !f.Points || !f.Loses || f.Saved || f.Recipe != Before {
				t.Errorf("%+v: %s", f, a)
			}
		case Delete:
			if !f.Deletes || f.Deleted {
				t.Errorf("%+v: %s", f, a)
			}
		case Stop:
			if !f.Points || f.Recipe != Other {
				t.Errorf("%+v: %s", f, a)
			}
		case Done:
			if f.Tags && !f.Tagged && !f.Gone || f.Points && f.Recipe != Wanted || f.Deletes && !f.Deleted {
				t.Errorf("%+v: %s", f, a)
			}
		}
	}
}

// TestItEnds: from all facts the steps end, without a repeated step, and lost steps are repeated.
func TestItEnds(t *testing.T) {
	for _, start := range worlds() {
		for lost := range 5 {
			f, done := start, map[Action]int{}
			steps := 0
			for ; ; steps++ {
				a := Next(f)
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
			if again := Next(f); start.Points && start.Recipe == Other && again != Stop {
				t.Errorf("%+v ended in %s", start, again)
			}
		}
	}
}

func TestNext(t *testing.T) {
	for _, test := range []struct {
		name string
		f    Facts
		want Action
	}{
		{"a rollback begins with the quarantine", Facts{Tags: true, Points: true, Recipe: Before}, Tag},
		{"then the recipe", Facts{Tags: true, Tagged: true, Points: true, Recipe: Before}, Point},
		{"then it is done", Facts{Tags: true, Tagged: true, Points: true, Recipe: Wanted}, Done},
		{"a version that is gone carries no tags", Facts{Tags: true, Gone: true, Points: true, Recipe: Before}, Point},
		{"the recipe is there, the tags are not", Facts{Tags: true, Points: true, Recipe: Wanted}, Tag},
		{"somebody else was faster", Facts{Tags: true, Points: true, Recipe: Other}, Stop},
		{"a promotion keeps first what is lost", Facts{Points: true, Recipe: Before, Loses: true}, Save},
		{"a quarantine", Facts{Tags: true}, Tag},
		{"a retirement", Facts{Deletes: true}, Delete},
		{"nothing", Facts{}, Done},
	} {
		if got := Next(test.f); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
