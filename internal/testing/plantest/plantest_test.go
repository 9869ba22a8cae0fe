package plantest

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/step"
)

// door is a world: a door that one opens behind its lock, and that the wind may close.
type door struct {
	unlocked, open, jammed bool
	wind                   int8
	done                   bool
}

type (
	action   string
	reason   string
	decision = step.Decision[action, reason]
	planner  = Planner[door, action, reason]
)

const (
	unlock action = "Unlock"
	open   action = "Open"
	finish action = "Finish"
)

var do, wait, fail = step.Verbs[action, reason]()

// next opens the door.
func next(f door) decision {
	switch {
	case f.jammed:
		return wait("Smith")
	case !f.unlocked:
		return do(unlock)
	case !f.open:
		return do(open)
	}
	return do(finish)
}

func (w door) effect(d decision) door {
	switch d.Do {
	case unlock:
		w.unlocked = true
	case open:
		w.open = true
	case finish, step.Fail:
		w.done = true
	}
	return w
}

func (w door) progress() door {
	w.jammed = false
	return w
}

func (w door) adverse() []door {
	if w.wind == 2 {
		return nil
	}
	w.open, w.wind = false, w.wind+1
	jammed := w
	jammed.jammed = true
	return []door{w, jammed}
}

func doors() *Model[door, door, action, reason] {
	return &Model[door, door, action, reason]{
		Starts: []door{{}}, Facts: func(w door) door { return w }, Effect: door.effect, Progress: door.progress, Adverse: door.adverse,
		Closed: func(w door) bool { return w.done }, MaxSteps: 8,
		Rules: Always([]Rule[door, action, reason]{
			That("only an unlocked door is opened", "|Open|", func(w door, _ decision) bool { return w.unlocked }),
			That("a door is open at the end", "|Finish|", func(w door, _ decision) bool { return w.open }),
			That("a failure has a reason", "|Fail|", func(_ door, d decision) bool { return d.Why != "" }),
		}),
	}
}

// TestARightPlannerIsNotCaught, and every world is visited once, except the ends: one for each number of winds.
func TestARightPlannerIsNotCaught(t *testing.T) {
	m, visited := doors(), map[door]bool{}
	m.Visit = func(w door) {
		if visited[w] {
			t.Errorf("visited twice: %+v", w)
		}
		visited[w] = true
	}
	e := m.Explore(next, 5)
	if e.Bad != nil || len(visited) != e.Worlds-3 || e.Adverse != 3 {
		t.Errorf("%v; %d worlds, %d of them open, within %d adversities", e.Bad, e.Worlds, len(visited), e.Adverse)
	}
}

// TestWrongPlannersAreCaught, each by its rule, after as few adversities as the mistake needs.
func TestWrongPlannersAreCaught(t *testing.T) {
	for name, test := range map[string]struct {
		next    planner
		rule    string
		adverse int
	}{
		"opens a locked door":        {With(next, func(f *door) { f.unlocked = true }), "only an unlocked door is opened", 0},
		"trusts that a door is open": {With(next, func(f *door) { f.open = f.open || f.wind > 0 }), "a door is open at the end", 1},
		"unlocks for ever":           {Instead(next, open, do(unlock)), "liveness: stuck at Unlock", 0},
		"waits for nothing":          {Where(next, func(f door, _ decision) bool { return f.wind == 2 }, wait("Calm")), "liveness: stuck at Wait: Calm", 2},
		"fails without a reason":     {Mute(Instead(next, finish, fail("Draught"))), "a failure has a reason", 0},
	} {
		e := doors().Explore(test.next, 2)
		if e.Bad == nil || e.Bad.Rule != test.rule || e.Adverse != test.adverse {
			t.Errorf("%s: %v after %d adversities", name, e.Bad, e.Adverse)
			continue
		}
		if text := e.Bad.String(); !strings.Contains(text, test.rule) || !strings.Contains(text, e.Bad.Decision.String()) ||
			!strings.Contains(text, "unlocked:") {
			t.Errorf("%s: the text has no world: %s", name, text)
		}
	}
}

// TestAWorldThatNeverEndsIsCaught, though each step moves.
func TestAWorldThatNeverEndsIsCaught(t *testing.T) {
	m := doors()
	m.Progress = func(w door) door {
		w.wind = (w.wind + 1) % 3
		return w
	}
	if e := m.Explore(func(door) decision { return wait("Calm") }, 0); e.Bad == nil || e.Bad.Rule != "liveness: never ends" {
		t.Error(e.Bad)
	}
}

// TestACrashAndASecondPlannerAreExplored: both lead to worlds that the first planner alone does not reach.
func TestACrashAndASecondPlannerAreExplored(t *testing.T) {
	ajar := func(w door, d decision) []door {
		if d.Do != unlock {
			return nil
		}
		w.open = true // and not unlocked
		return []door{w}
	}
	m := doors()
	m.Cut = ajar
	m.Rules = Always([]Rule[door, action, reason]{That("an open door is unlocked", "", func(w door, _ decision) bool { return w.unlocked || !w.open })})
	if e := m.Explore(next, 0); e.Bad == nil {
		t.Error("no exploration reached the world after a crash")
	}
	m = doors()
	m.Beside = &Beside[door, door, action, reason]{Next: Instead(next, unlock, do(open)), Facts: m.Facts}
	m.Rules = Always([]Rule[door, action, reason]{That("an open door is unlocked", "", func(w door, _ decision) bool { return w.unlocked || !w.open })})
	if e := m.Explore(next, 0); e.Bad == nil {
		t.Error("no exploration reached the world after the second planner")
	}
	m = doors()
	m.Beside = &Beside[door, door, action, reason]{Next: Instead(next, unlock, do(open)), Facts: m.Facts, Rules: m.Rules(door{})}
	if e := m.Explore(next, 0); e.Bad == nil || e.Bad.Rule != "beside: only an unlocked door is opened" {
		t.Error("no rule noticed the second planner", e.Bad)
	}
}

// TestTheCourse lists each action once, also if it is repeated, and a time without progress passes.
func TestTheCourse(t *testing.T) {
	m := doors()
	m.Progress = func(w door) door { return w }
	m.Later = door.progress
	said, end := m.Course(next, door{jammed: true})
	if want := "Wait: Smith, Unlock, Open, Finish"; said != want || !end.done {
		t.Errorf("%s, and the end is %+v", said, end)
	}
}
