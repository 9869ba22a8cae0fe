// Package plantest tests planners. A model says what actions and the rest of the world do; an exploration visits every world
// that a planner can reach, with each action lost before or after its effect, and adversities in between. In each world the
// rules hold, and without further adversities the work ends.
//
// Wrong planners test the rules: each must break one.
package plantest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/step"
)

// Planner returns the decision for facts.
type Planner[F any, A, R ~string] func(F) step.Decision[A, R]

// Rule holds for decisions in a world.
type Rule[W any, A, R ~string] struct {
	Name string
	// Actions of the rule, as "|Cordon|Evict|"; all actions if empty.
	Actions string
	Holds   func(W, step.Decision[A, R]) bool
}

// That is a rule. Its types follow from holds.
func That[W any, A, R ~string](name, actions string, holds func(W, step.Decision[A, R]) bool) Rule[W, A, R] {
	return Rule[W, A, R]{Name: name, Actions: actions, Holds: holds}
}

// Broken returns the name of the first broken rule; empty if all rules hold.
func Broken[W any, A, R ~string](rules []Rule[W, A, R], w W, d step.Decision[A, R]) string {
	action := "|" + string(d.Do) + "|"
	for _, r := range rules {
		if (r.Actions == "" || strings.Contains(r.Actions, action)) && !r.Holds(w, d) {
			return r.Name
		}
	}
	return ""
}

// Model is a small model of the planned work. A world W has the facts, and the truth that no planner sees.
type Model[W comparable, F any, A, R ~string] struct {
	// Starts are the worlds at the begin.
	Starts []W
	// Facts are what a planner sees of a world.
	Facts func(W) F
	// Effect is the world after an action. Cut, if set, has the worlds after a crash within the action.
	Effect func(W, step.Decision[A, R]) W
	Cut    func(W, step.Decision[A, R]) []W
	// Progress is the next change of the world that needs neither planner nor adversity; the same world without one. Later, if
	// set, is the world after a long time in which nothing moves.
	Progress, Later func(W) W
	// Adverse are the worlds after an adversity.
	Adverse func(W) []W
	// Closed reports whether the work has ended.
	Closed func(W) bool
	// Rules hold for each decision in a world.
	Rules func(W) []Rule[W, A, R]
	// Beside, if set, is a second planner: any pass may ask it in place of the first.
	Beside *Beside[W, F, A, R]
	// Visit, if set, is called with each open world of an exploration.
	Visit func(W)
	// MaxSteps is the largest number of steps to the end without adversities; 60 if zero.
	MaxSteps int
}

// Beside is a second planner with its facts and rules.
type Beside[W comparable, F any, A, R ~string] struct {
	Next  Planner[F, A, R]
	Facts func(W) F
	Rules []Rule[W, A, R]
}

// Always returns the same rules for each world.
func Always[W any, A, R ~string](rules []Rule[W, A, R]) func(W) []Rule[W, A, R] {
	return func(W) []Rule[W, A, R] { return rules }
}

func (m *Model[W, F, A, R]) maxSteps() int { return cmp.Or(m.MaxSteps, 60) }

// then is the world after an action and, if the action changes nothing, after the next change of the world.
func (m *Model[W, F, A, R]) then(w W, d step.Decision[A, R]) W {
	after := m.Effect(w, d)
	if after == w {
		after = m.Progress(w)
	}
	if after == w && m.Later != nil {
		after = m.Later(w)
	}
	return after
}

// Course returns what the planner does if nothing goes wrong, without repetitions, as "Cordon, Evict, Wait: Report", and the
// world at the end.
func (m *Model[W, F, A, R]) Course(next Planner[F, A, R], from W) (said string, end W) {
	var all []string
	for range m.maxSteps() {
		if m.Closed(from) {
			break
		}
		d := next(m.Facts(from))
		if text := d.String(); len(all) == 0 || all[len(all)-1] != text {
			all = append(all, text)
		}
		from = m.then(from, d)
	}
	return strings.Join(all, ", "), from
}

// Wrong are planners with a mistake, by its name.
type Wrong[F any, A, R ~string] map[string]Planner[F, A, R]

// Catch fails for each wrong planner whose exploration finds no broken rule, and logs which rule catches each of the others.
func Catch[W comparable, F any, A, R ~string](t *testing.T, wrong Wrong[F, A, R], explore func(Planner[F, A, R]) *Exploration[W, F, A, R]) {
	t.Helper()
	caughtBy, said := map[string]bool{}, make([]string, 0, len(wrong))
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		e := explore(wrong[name])
		if e.Bad == nil {
			t.Errorf("no rule noticed a planner that %s, in %d worlds", name, e.Worlds)
			continue
		}
		caughtBy[e.Bad.Rule] = true
		said = append(said, fmt.Sprintf("%s: after %d adversities, by: %s", name, e.Adverse, e.Bad.Rule))
	}
	t.Logf("%d wrong planners, caught by %d rules\n%s", len(wrong), len(caughtBy), strings.Join(said, "\n"))
}

// With plans from changed facts: a planner without a fact.
func With[F any, A, R ~string](next Planner[F, A, R], change func(*F)) Planner[F, A, R] {
	return func(f F) step.Decision[A, R] {
		change(&f)
		return next(f)
	}
}

// Instead does something else where an action is due.
func Instead[F any, A, R ~string](next Planner[F, A, R], due A, wrong step.Decision[A, R]) Planner[F, A, R] {
	return Where(next, func(_ F, d step.Decision[A, R]) bool { return d.Do == due }, wrong)
}

// Where does something else where the condition on facts and decision holds.
func Where[F any, A, R ~string](next Planner[F, A, R], is func(F, step.Decision[A, R]) bool, wrong step.Decision[A, R]) Planner[F, A, R] {
	return func(f F) step.Decision[A, R] {
		if d := next(f); !is(f, d) {
			return d
		}
		return wrong
	}
}

// Mute drops the reason of failures.
func Mute[F any, A, R ~string](next Planner[F, A, R]) Planner[F, A, R] {
	return func(f F) step.Decision[A, R] {
		d := next(f)
		if d.Do == step.Fail {
			d.Why = ""
		}
		return d
	}
}

// Violation is a broken rule, with the world and the decision.
type Violation[W any, A, R ~string] struct {
	Rule     string
	World    W
	Decision step.Decision[A, R]
}

func (v *Violation[W, A, R]) String() string {
	return fmt.Sprintf("%s\n  decision: %s\n  world: %+v", v.Rule, v.Decision, v.World)
}
