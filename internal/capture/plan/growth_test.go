package plan

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/plantest"
)

// growthModel is a model of a pool that grows by a pioneer.
type growthModel struct {
	f Facts
	// exists and joined are the truth about the added instance: it exists, and its Node is registered. removing is the cloud's
	// removal.
	exists, joined, removing bool
	// size is the size of the pool, relative to the start.
	size int8
	// noRoom: the cloud creates no instance. broken: the instance never registers.
	noRoom, broken bool
	named          bool // the record names the instance for its removal
	bound, closed  bool
}

func (w growthModel) observed() Facts {
	f := w.f
	f.Growth.Awaited = true
	f.Growth.Grown = f.Growth.Decided && w.size > 0
	f.Growth.Registered = f.Growth.Grown && w.joined
	switch {
	case w.named && !w.exists:
		f.Growth.Instance = InstanceRemoved
	case w.named:
		f.Growth.Instance = InstanceRemoving
	case f.Growth.Grown && w.exists && !w.joined && (f.Failed || f.Deleting):
		f.Growth.Instance = InstancePresent
	}
	return f
}

// effect is the effect of an action. Enlarge and Remove write the record first, and act in another pass.
func (w growthModel) effect(d Decision) growthModel {
	switch d.Do {
	case Enlarge:
		if w.f.Growth.Decided {
			w.size++
		}
		w.f.Growth.Decided = true
	case Bind:
		w.bound, w.closed = true, true
	case Remove:
		if w.named && w.exists && !w.removing {
			w.removing, w.size = true, w.size-1
		}
		w.named = true
	case Fail:
		w.f.Failed = true
	case Close, Refuse:
		w.closed = true
	}
	return w
}

func (w growthModel) progress() growthModel {
	switch {
	case w.removing:
		w.exists, w.joined, w.removing = false, false, false
	case w.size > 0 && !w.exists && !w.noRoom:
		w.exists = true
	case w.exists && !w.joined && !w.broken:
		w.joined = true
	case w.f.Queued:
		w.f.Queued = false
	}
	return w
}

// later is the world after a long time without progress.
func (w growthModel) later() growthModel {
	if w.noRoom && w.f.Growth.Overdue {
		w.noRoom = false // the cloud finds room, or a person sets the former size
	}
	w.f.Growth.Overdue = w.f.Growth.Decided
	return w
}

func (w growthModel) adverse() (all []growthModel) {
	add := func(change func(*growthModel)) {
		n := w
		change(&n)
		if n != w {
			all = append(all, n)
		}
	}
	add(func(n *growthModel) { n.f.Deleting = true })
	add(func(n *growthModel) { n.f.Failed = false }) // the status is lost
	add(func(n *growthModel) { n.f.Refused = !n.f.Growth.Decided })
	add(func(n *growthModel) { n.f.Queued = !n.f.Growth.Decided })
	add(func(n *growthModel) { n.f.Growth.Overdue = n.f.Growth.Decided })
	add(func(n *growthModel) { n.noRoom = !n.exists })
	add(func(n *growthModel) { n.broken = !n.joined })
	add(func(n *growthModel) { // an autoscaler removes the instance with its place
		if n.exists && !n.removing {
			n.exists, n.joined, n.size = false, false, n.size-1
		}
	})
	return all
}

var growthRules = []plantest.Rule[growthModel, Action, Reason]{
	plantest.That("a pool grows by one node", "|Enlarge|", func(w growthModel, _ Decision) bool { return w.size == 0 }),
	plantest.That("a refused or queued capture changes nothing", "|Enlarge|", func(w growthModel, _ Decision) bool {
		return w.f.Growth.Decided || !w.f.Refused && !w.f.Queued
	}),
	plantest.That("nothing grows once the end is decided", "|Enlarge|", func(w growthModel, _ Decision) bool { return !w.f.Deleting && !w.f.Failed }),
	plantest.That("only a registered node becomes the donor", "|Bind|", func(w growthModel, _ Decision) bool { return w.joined && w.size > 0 }),
	plantest.That("a node that may have pods is not removed here", "|Remove|", func(w growthModel, _ Decision) bool {
		return !w.joined || w.size == 0
	}),
	plantest.That("an instance is removed at the end only", "|Remove|", func(w growthModel, _ Decision) bool {
		return w.named || w.f.Failed || w.f.Deleting
	}),
	plantest.That("the end leaves the pool as it was", "|Close|Refuse|", func(w growthModel, _ Decision) bool { return w.size <= 0 && !w.exists }),
	plantest.That("a capture that ends without a donor says why", "|Close|", func(w growthModel, _ Decision) bool {
		return w.f.Failed || w.f.Deleting
	}),
	plantest.That("a deadline ends the wait for a node", "|Wait|", func(w growthModel, _ Decision) bool {
		return !w.f.Growth.Decided || !w.f.Growth.Overdue || w.f.Failed || w.f.Deleting
	}),
	plantest.That("a failure comes once, with a reason", "|Fail|", func(w growthModel, d Decision) bool { return !w.f.Failed && d.Why != "" }),
}

// growth is the model of a pool that grows.
func growth() *plantest.Model[growthModel, Facts, Action, Reason] {
	return &plantest.Model[growthModel, Facts, Action, Reason]{
		Starts: []growthModel{{}, {f: Facts{Refused: true}}, {f: Facts{Queued: true}}},
		Facts:  growthModel.observed, Effect: growthModel.effect, Progress: growthModel.progress, Later: growthModel.later, Adverse: growthModel.adverse,
		Closed: func(w growthModel) bool { return w.closed }, Rules: plantest.Always(growthRules), MaxSteps: 30,
	}
}

func TestEveryReachableGrowth(t *testing.T) {
	m, done, open := growth(), map[string]bool{}, 0
	m.Visit = func(w growthModel) {
		done[Next(w.observed()).String()] = true
		open++
	}
	if e := m.Explore(Next, 3); e.Bad != nil {
		t.Fatal(e.Bad)
	}
	for _, d := range []string{"Enlarge", "Bind", "Remove", "Close", "Refuse", "Fail: AddedNodeNotJoined", "Wait: Turn", "Wait: AddedNode"} {
		if !done[d] {
			t.Errorf("no world needs %s", d)
		}
	}
	t.Logf("%d open worlds", open)
}

// TestWrongGrowthsAreCaught: each wrong planner breaks a rule in a reachable world.
func TestWrongGrowthsAreCaught(t *testing.T) {
	plantest.Catch(t, wrong{
		"grows although refused":             with(func(f *Facts) { f.Refused = false }),
		"grows out of turn":                  with(func(f *Facts) { f.Queued = false }),
		"grows although deleted":             with(func(f *Facts) { f.Deleting = false }),
		"forgets its failure":                with(func(f *Facts) { f.Failed = false }),
		"grows again while the node boots":   replace(wait(ForAddedNode), do(Enlarge)),
		"takes a node before it registers":   replace(wait(ForAddedNode), do(Bind)),
		"leaves the instance of a failure":   instead(Remove, do(Close)),
		"leaves an instance that comes late": replace(wait(ForAddedNode), do(Close)),
		"removes a node that may have pods":  instead(Bind, do(Remove)),
		"ends while a node has joined":       instead(Bind, do(Close)),
		"waits for a node for ever":          with(func(f *Facts) { f.Growth.Overdue = false }),
		"waits for a removed instance":       with(mistaken(func(f *Facts) *AddedInstance { return &f.Growth.Instance }, InstanceRemoved, InstanceRemoving)),
		"ends without a reason":              with(func(f *Facts) { f.Failed = f.Failed || f.Growth.Instance == InstanceRemoved }),
		"fails without a reason":             plantest.Mute(Next),
	}, func(next planner) *plantest.Exploration[growthModel, Facts, Action, Reason] {
		return growth().Explore(next, 3)
	})
}
