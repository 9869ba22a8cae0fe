package plan

import "testing"

// checkWorld is a model of a check: the facts, and what happens without Kamino.
type checkWorld struct {
	f CheckFacts
	// key: the NodeOrder has its key. said: the pod has reported. age is the number of steps since the NodeOrder.
	key, said bool
	age       int
	ended     string
}

const checkLimit = 6

func (w checkWorld) observed() CheckFacts {
	f := w.f
	f.Overdue = f.Order && w.age > checkLimit
	f.Reported = w.said && f.Order && f.Pod != NoPod
	return f
}

// after returns the worlds after the action. A crash may end OrderCheck after each of its three writes.
func (w checkWorld) after(d Decision) []checkWorld {
	switch d.Do {
	case OrderCheck:
		order := w
		order.f.Order, order.f.Rebooted, order.key, order.said, order.age = true, false, false, false, 0
		key := order
		key.key = true
		pod := key
		pod.f.Pod = PodActive
		return []checkWorld{w, order, key, pod}
	case DeletePod:
		w.f.Pod = NoPod
	case DeleteOrder:
		key := w
		key.key = false
		w.f.Order, w.key = false, false
		return []checkWorld{w, key}
	case Believe, Fail:
		w.ended = d.String()
	}
	return []checkWorld{w}
}

// changes are the worlds after an event on the node.
func (w checkWorld) changes() []checkWorld {
	all := []checkWorld{w}
	add := func(change func(*checkWorld)) {
		next := w
		change(&next)
		all = append(all, next)
	}
	if w.f.Pod == PodActive && w.f.Node == NodeReady && w.key && !w.f.Rebooted {
		add(func(n *checkWorld) { n.said = true })
	}
	if w.f.Pod == PodActive {
		add(func(n *checkWorld) { n.f.Pod = PodFailed })
		add(func(n *checkWorld) { n.f.Rebooted, n.f.Pod = n.f.Order, PodFailed })
	}
	if w.f.Node == NodeReady {
		add(func(n *checkWorld) { n.f.Node = NodeNotReady })
		add(func(n *checkWorld) { n.f.Node, n.f.Pod = NodeGone, NoPod })
	}
	if w.f.Node == NodeNotReady {
		add(func(n *checkWorld) { n.f.Node = NodeReady })
	}
	for i := range all {
		if all[i].f.Order {
			all[i].age = min(all[i].age+1, checkLimit+1)
		}
	}
	return all
}

// breachOf returns the broken rule of a step; empty if the step keeps all rules.
func breachOf(w checkWorld, d Decision) string {
	f := w.observed()
	switch {
	case d.Do == Believe && !w.said:
		return "believes without a report"
	case d.Do == OrderCheck && (f.Order || f.Pod != NoPod || f.Node != NodeReady):
		return "nodeorders twice, or without a Ready node"
	case d.Do == Fail && f.Reported:
		return "drops a report"
	case d.Do == Fail && d.Why == "":
		return "fails without a reason"
	case d.Do == Wait && f.Order && !w.key && f.Overdue:
		return "waits for a pod without a key for ever"
	case d.Do == Wait && f.Overdue:
		return "waits for ever"
	case d.Do == DeletePod && f.Pod == NoPod:
		return "deletes no pod"
	case d.Do == DeletePod && f.Order:
		return "ends a running check"
	case d.Do == DeleteOrder && f.Pod != NoPod:
		return "leaves a pod without an order"
	case d.Do == Wait && f.Order && f.Pod != PodActive:
		return "waits without a pod"
	case d.Do == Fail && d.Why == CheckTimeout && !f.Overdue:
		return "gives up early"
	}
	return ""
}

// exploreChecks walks all reachable worlds of a planner. It returns the broken rule, the number of worlds, and the ends.
func exploreChecks(next func(CheckFacts) Decision) (breach string, worlds int, ends map[string]bool) {
	ends = map[string]bool{}
	var queue []checkWorld
	for _, n := range []Node{NodeReady, NodeNotReady} {
		for _, pod := range []Pod{NoPod, PodFailed} {
			queue = append(queue, checkWorld{f: CheckFacts{Node: n, Pod: pod}})
		}
	}
	seen := map[checkWorld]bool{}
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		if seen[w] {
			continue
		}
		seen[w] = true
		if w.ended != "" {
			ends[w.ended] = true
			continue
		}
		d := next(w.observed())
		if breach := breachOf(w, d); breach != "" {
			return breach, len(seen), ends
		}
		for _, a := range w.after(d) {
			queue = append(queue, a.changes()...)
		}
	}
	return "", len(seen), ends
}

func TestEveryCheckEnds(t *testing.T) {
	breach, worlds, ends := exploreChecks(NextCheck)
	if breach != "" {
		t.Fatal(breach)
	}
	for _, want := range []Decision{do(Believe), fail(NodeGoneAway), fail(Interrupted), fail(CheckFailed), fail(CheckTimeout)} {
		if !ends[want.String()] {
			t.Errorf("no check ends with %s: %v", want, ends)
		}
	}
	t.Logf("%d worlds, %d ends", worlds, len(ends))
}

// TestWrongChecksAreCaught: each wrong planner breaks a rule in a reachable world.
func TestWrongChecksAreCaught(t *testing.T) {
	without := func(change func(*CheckFacts)) func(CheckFacts) Decision {
		return func(f CheckFacts) Decision { change(&f); return NextCheck(f) }
	}
	for name, next := range map[string]func(CheckFacts) Decision{
		"believes every pod":          without(func(f *CheckFacts) { f.Reported = f.Reported || f.Pod == PodActive }),
		"sees no report":              without(func(f *CheckFacts) { f.Reported = false }),
		"has no deadline":             without(func(f *CheckFacts) { f.Overdue = false }),
		"waits for a lost pod":        without(func(f *CheckFacts) { f.Pod = PodActive }),
		"asks a node that is away":    without(func(f *CheckFacts) { f.Node = NodeReady }),
		"forgets the order":           without(func(f *CheckFacts) { f.Order = false }),
		"keeps the pod of an order":   without(func(f *CheckFacts) { f.Pod = NoPod }),
		"gives up at once":            without(func(f *CheckFacts) { f.Overdue = true }),
		"restarts with every failure": func(f CheckFacts) Decision { return orElse(NextCheck(f), CheckFailed, do(DeleteOrder)) },
	} {
		if breach, _, _ := exploreChecks(next); breach == "" {
			t.Errorf("%s: no rule noticed", name)
		}
	}
}

func orElse(d Decision, why Reason, other Decision) Decision {
	if d.Why == why {
		return other
	}
	return d
}
