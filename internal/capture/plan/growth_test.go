package plan

import (
	"slices"
	"strings"
	"testing"
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

var growthProperties = []struct {
	name    string
	actions string
	holds   func(growthModel, Decision) bool
}{
	{"a pool grows by one node", "|Enlarge|", func(w growthModel, _ Decision) bool { return w.size == 0 }},
	{"a refused or queued capture changes nothing", "|Enlarge|", func(w growthModel, _ Decision) bool {
		return w.f.Growth.Decided || !w.f.Refused && !w.f.Queued
	}},
	{"nothing grows once the end is decided", "|Enlarge|", func(w growthModel, _ Decision) bool { return !w.f.Deleting && !w.f.Failed }},
	{"only a registered node becomes the donor", "|Bind|", func(w growthModel, _ Decision) bool { return w.joined && w.size > 0 }},
	{"a node that may have pods is not removed here", "|Remove|", func(w growthModel, _ Decision) bool { return !w.joined || w.size == 0 }},
	{"an instance is removed at the end only", "|Remove|", func(w growthModel, _ Decision) bool { return w.named || w.f.Failed || w.f.Deleting }},
	{"the end leaves the pool as it was", "|Close|Refuse|", func(w growthModel, _ Decision) bool { return w.size <= 0 && !w.exists }},
	{"a capture that ends without a donor says why", "|Close|", func(w growthModel, _ Decision) bool { return w.f.Failed || w.f.Deleting }},
	{"a deadline ends the wait for a node", "|Wait|", func(w growthModel, _ Decision) bool {
		return !w.f.Growth.Decided || !w.f.Growth.Overdue || w.f.Failed || w.f.Deleting
	}},
	{"a failure comes once, with a reason", "|Fail|", func(w growthModel, d Decision) bool { return !w.f.Failed && d.Why != "" }},
}

type growthViolation struct {
	property string
	world    growthModel
	decision Decision
}

// exploreGrowth visits all worlds with so many adversities, each action lost before or after its effect.
func exploreGrowth(next func(Facts) Decision, adversities int) (seen map[growthModel]bool, bad *growthViolation) {
	seen = map[growthModel]bool{}
	layer := []growthModel{{}, {f: Facts{Refused: true}}, {f: Facts{Queued: true}}}
	for range adversities + 1 {
		var reached []growthModel
		for queue := layer; len(queue) > 0; {
			w := queue[len(queue)-1]
			queue = queue[:len(queue)-1]
			if seen[w] || w.closed {
				continue
			}
			seen[w] = true
			d := next(w.observed())
			for _, p := range growthProperties {
				if strings.Contains(p.actions, "|"+string(d.Do)+"|") && !p.holds(w, d) {
					return seen, &growthViolation{p.name, w, d}
				}
			}
			if !endsGrowth(next, w) {
				return seen, &growthViolation{"liveness: never ends", w, d}
			}
			queue = append(queue, w.effect(d), w.progress())
			reached = append(reached, w.adverse()...)
		}
		layer = reached
	}
	return seen, nil
}

// endsGrowth reports whether the planner reaches an end without adversities.
func endsGrowth(next func(Facts) Decision, w growthModel) bool {
	for range 30 {
		if w.closed {
			return true
		}
		after := w.effect(next(w.observed()))
		if after == w {
			after = w.progress()
		}
		if after == w {
			after = w.later()
		}
		w = after
	}
	return false
}

func TestEveryReachableGrowth(t *testing.T) {
	seen, bad := exploreGrowth(Next, 3)
	if bad != nil {
		t.Fatalf("%s\n  decision: %s\n  world: %+v", bad.property, bad.decision, bad.world)
	}
	done := map[string]bool{}
	for w := range seen {
		done[Next(w.observed()).String()] = true
	}
	for _, d := range []string{"Enlarge", "Bind", "Remove", "Close", "Refuse", "Fail: AddedNodeNotJoined", "Wait: Turn", "Wait: AddedNode"} {
		if !done[d] {
			t.Errorf("no world needs %s", d)
		}
	}
	t.Logf("%d worlds", len(seen))
}

// TestWrongGrowthsAreCaught tests the properties with wrong planners.
func TestWrongGrowthsAreCaught(t *testing.T) {
	without := func(change func(*Facts)) func(Facts) Decision {
		return func(f Facts) Decision { change(&f); return Next(f) }
	}
	instead := func(due Decision, wrong Decision) func(Facts) Decision {
		return func(f Facts) Decision {
			if d := Next(f); d != due {
				return d
			}
			return wrong
		}
	}
	caught := []string{}
	for name, next := range map[string]func(Facts) Decision{
		"grows although refused":             without(func(f *Facts) { f.Refused = false }),
		"grows out of turn":                  without(func(f *Facts) { f.Queued = false }),
		"grows although deleted":             without(func(f *Facts) { f.Deleting = false }),
		"forgets its failure":                without(func(f *Facts) { f.Failed = false }),
		"grows again while the node boots":   instead(wait(ForAddedNode), do(Enlarge)),
		"takes a node before it registers":   instead(wait(ForAddedNode), do(Bind)),
		"leaves the instance of a failure":   instead(do(Remove), do(Close)),
		"leaves an instance that comes late": instead(wait(ForAddedNode), do(Close)),
		"removes a node that may have pods":  instead(do(Bind), do(Remove)),
		"ends while a node has joined":       instead(do(Bind), do(Close)),
		"waits for a node for ever":          without(func(f *Facts) { f.Growth.Overdue = false }),
		"waits for a removed instance": without(func(f *Facts) {
			if f.Growth.Instance == InstanceRemoved {
				f.Growth.Instance = InstanceRemoving
			}
		}),
		"ends without a reason": without(func(f *Facts) { f.Failed = f.Failed || f.Growth.Instance == InstanceRemoved }),
		"fails without a reason": func(f Facts) Decision {
			d := Next(f)
			if d.Do == Fail {
				d.Why = ""
			}
			return d
		},
	} {
		_, bad := exploreGrowth(next, 3)
		if bad == nil {
			t.Errorf("no property noticed a planner that %s", name)
			continue
		}
		caught = append(caught, name+": "+bad.property)
	}
	slices.Sort(caught)
	t.Logf("%d wrong planners\n%s", len(caught), strings.Join(caught, "\n"))
}
