package plan

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/plantest"
)

// checkModel is a model of a check: the facts, and what happens without Kamino.
type checkModel struct {
	f CheckFacts
	// key: the NodeOrder has its key. said: the pod has reported.
	key, said bool
	closed    bool
}

type checker = plantest.Planner[CheckFacts, Action, Reason]

// checkWorld is the model of a check on one node.
func checkWorld() *plantest.Model[checkModel, CheckFacts, Action, Reason] {
	m := &plantest.Model[checkModel, CheckFacts, Action, Reason]{
		Facts: checkModel.observed, Effect: checkModel.effect, Cut: checkModel.cut, Progress: checkModel.progress, Later: checkModel.later,
		Adverse: checkModel.adverse, Closed: func(w checkModel) bool { return w.closed }, Rules: plantest.Always(checkRules),
	}
	for _, n := range []Node{NodeReady, NodeNotReady} {
		for _, pod := range []Pod{NoPod, PodFailed} {
			m.Starts = append(m.Starts, checkModel{f: CheckFacts{Node: n, Pod: pod}})
		}
	}
	return m
}

func (w checkModel) observed() CheckFacts {
	f := w.f
	f.Overdue = f.Overdue && f.Order
	f.Reported = w.said && f.Order && f.Pod != NoPod
	return f
}

func (w checkModel) effect(d Decision) checkModel {
	switch d.Do {
	case OrderCheck:
		w.f.Order, w.f.Overdue, w.f.Rebooted, w.said, w.key, w.f.Pod = true, false, false, false, true, PodActive
	case DeletePod:
		w.f.Pod = NoPod
	case DeleteOrder:
		w.f.Order, w.key = false, false
	case Believe, Fail:
		w.closed = true
	}
	return w
}

// cut are the worlds after a crash between the writes of an action.
func (w checkModel) cut(d Decision) []checkModel {
	after := w.effect(d)
	switch d.Do {
	case OrderCheck:
		after.f.Pod = w.f.Pod
		order := after
		order.key = false
		return []checkModel{order, after}
	case DeleteOrder:
		after.f.Order = true
		return []checkModel{after}
	}
	return nil
}

// progress lets the pod report, and the node become Ready.
func (w checkModel) progress() checkModel {
	switch {
	case w.f.Pod == PodActive && w.f.Node == NodeReady && w.key && !w.f.Rebooted:
		w.said = true
	case w.f.Node == NodeNotReady:
		w.f.Node = NodeReady
	}
	return w
}

func (w checkModel) later() checkModel {
	w.f.Overdue = w.f.Order
	return w
}

// adverse are the worlds after an event on the node.
func (w checkModel) adverse() []checkModel {
	var all []checkModel
	add := func(change func(*checkModel)) {
		next := w
		change(&next)
		all = append(all, next)
	}
	add(func(n *checkModel) { n.f.Overdue = n.f.Order })
	if w.f.Pod == PodActive {
		add(func(n *checkModel) { n.f.Pod = PodFailed })
		add(func(n *checkModel) { n.f.Rebooted, n.f.Pod = n.f.Order, PodFailed })
	}
	if w.f.Node == NodeReady {
		add(func(n *checkModel) { n.f.Node = NodeNotReady })
		add(func(n *checkModel) { n.f.Node, n.f.Pod = NodeGone, NoPod })
	}
	return all
}

var checkRules = []plantest.Rule[checkModel, Action, Reason]{
	plantest.That("only a report is believed", "|Believe|", func(w checkModel, _ Decision) bool { return w.said }),
	plantest.That("one order at a time, and for a Ready node", "|OrderCheck|", func(w checkModel, _ Decision) bool {
		return !w.f.Order && w.f.Pod == NoPod && w.f.Node == NodeReady
	}),
	plantest.That("no report is dropped", "|Fail|", func(w checkModel, _ Decision) bool { return !w.observed().Reported }),
	plantest.That("a failure has a reason", "|Fail|", func(_ checkModel, d Decision) bool { return d.Why != "" }),
	plantest.That("a deadline ends each wait", "|Wait|", func(w checkModel, _ Decision) bool { return !w.observed().Overdue }),
	plantest.That("only a running pod is waited for", "|Wait|", func(w checkModel, _ Decision) bool { return !w.f.Order || w.f.Pod == PodActive }),
	plantest.That("only a pod that is left over is deleted", "|DeletePod|", func(w checkModel, _ Decision) bool { return w.f.Pod != NoPod && !w.f.Order }),
	plantest.That("no pod is left without its order", "|DeleteOrder|", func(w checkModel, _ Decision) bool { return w.f.Pod == NoPod }),
	plantest.That("a check has its time", "|Fail|", func(w checkModel, d Decision) bool { return d.Why != CheckTimeout || w.observed().Overdue }),
}

// manyAdversities are more than the model of a check has worlds for.
const manyAdversities = 20

func TestEveryCheckEnds(t *testing.T) {
	m, ends := checkWorld(), map[Decision]bool{}
	m.Visit = func(w checkModel) { ends[NextCheck(w.observed())] = true }
	e := m.Explore(NextCheck, manyAdversities)
	if e.Bad != nil {
		t.Fatal(e.Bad)
	}
	for _, want := range []Decision{do(Believe), fail(NodeGoneAway), fail(Interrupted), fail(CheckFailed), fail(CheckTimeout)} {
		if !ends[want] {
			t.Errorf("no check ends with %s", want)
		}
	}
	t.Logf("%d worlds", e.Worlds)
}

// TestWrongChecksAreCaught: each wrong planner breaks a rule in a reachable world.
func TestWrongChecksAreCaught(t *testing.T) {
	without := func(change func(*CheckFacts)) checker { return plantest.With(NextCheck, change) }
	plantest.Catch(t, plantest.Wrong[CheckFacts, Action, Reason]{
		"believes every pod":        without(func(f *CheckFacts) { f.Reported = f.Reported || f.Pod == PodActive }),
		"sees no report":            without(func(f *CheckFacts) { f.Reported = false }),
		"has no deadline":           without(func(f *CheckFacts) { f.Overdue = false }),
		"waits for a lost pod":      without(func(f *CheckFacts) { f.Pod = PodActive }),
		"asks a node that is away":  without(func(f *CheckFacts) { f.Node = NodeReady }),
		"forgets the order":         without(func(f *CheckFacts) { f.Order = false }),
		"keeps the pod of an order": without(func(f *CheckFacts) { f.Pod = NoPod }),
		"gives up at once":          without(func(f *CheckFacts) { f.Overdue = true }),
		"fails without a reason":    plantest.Mute(NextCheck),
		"restarts with every failure": plantest.Where(NextCheck, func(_ CheckFacts, d Decision) bool { return d.Why == CheckFailed },
			do(DeleteOrder)),
	}, func(next checker) *plantest.Exploration[checkModel, CheckFacts, Action, Reason] {
		return checkWorld().Explore(next, manyAdversities)
	})
}
