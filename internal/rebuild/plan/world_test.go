package plan

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/plantest"
)

// model is a model of a reserved node: what is seen, and the truth that only the model knows.
type model struct {
	gone, held, unconfirmed, released, policyGone bool
	unattended, atOnce, force                     bool
	cordoned, ready, rebooted                     bool
	pods, stuck, overdue, returnOverdue           bool
	// asked: the Node records the request. answer is the cloud's answer in this pass, and first whether the request was the first.
	asked, first bool
	answer       Answer

	// cloud is the answer to the next request, and begun whether the cloud has changed the instance.
	cloud  Answer
	begun  bool
	closed bool
}

type (
	planner = plantest.Planner[Node, Action, Reason]
	rule    = plantest.Rule[model, Action, Reason]
)

func (w model) observed() Node {
	n := Node{
		Name: "n", To: "2026.03.01", Gone: w.gone, Held: w.held, Unconfirmed: w.unconfirmed, Released: w.released,
		Unattended: w.unattended, PolicyGone: w.policyGone, Cordoned: w.cordoned, Ready: w.ready, Rebooted: w.rebooted,
		AtOnce: w.atOnce, Force: w.force, Overdue: w.overdue, Asked: w.asked && !w.first, ReturnOverdue: w.returnOverdue, Answer: w.answer,
	}
	if w.pods {
		n.Pods = 2
	}
	if w.stuck {
		n.Stuck = []string{"a pod that nothing makes again"}
	}
	return n
}

// starts are the nodes at the begin of a rebuild, for each first answer of the cloud.
func starts() []model {
	var all []model
	for bits := range 1 << 6 {
		on := func(n int) bool { return bits>>n&1 == 1 }
		for _, answer := range []Answer{Working, Complete, NoInstance, Busy, Elsewhere, Denied} {
			all = append(all, model{
				held: true, ready: true, cloud: answer, cordoned: on(0), pods: on(1), stuck: on(2), atOnce: on(3), force: on(4), unattended: on(5),
			})
		}
	}
	return all
}

// next is the world before the next pass, which knows no answer.
func (w model) next() model {
	w.answer, w.first = Unasked, false
	return w
}

// effect is the effect of a step. Next is called again right after Ask only, so the answer is gone after all others. A wait
// takes time.
func (w model) effect(d Decision) model {
	w = w.next()
	switch d.Do {
	case Wait:
		if after := w.progress(); after != w {
			return after
		}
		return w.later()
	case Cordon:
		w.cordoned = true
	case Evict:
		w.pods = false
	case Ask:
		w.asked, w.first, w.answer = true, !w.asked, w.cloud
		w.begun = w.begun || w.cloud == Working
	case Release, ReturnToService, Keep, Drop:
		w.closed = true
	case Take:
	}
	return w
}

// cut are the worlds after a crash between the record and the request, and between the request and its answer.
func (w model) cut(d Decision) []model {
	if d.Do != Ask {
		return nil
	}
	w.asked = true
	return []model{w.next(), w.effect(d).next()}
}

// progress rebuilds and boots the instance. An answer of the cloud is valid in its pass only.
func (w model) progress() model {
	w = w.next()
	switch {
	case w.begun && w.cloud == Working:
		w.cloud, w.ready = Complete, false
	case w.begun && w.cloud == Complete && (!w.ready || !w.rebooted):
		w.ready, w.rebooted = true, true
	case w.cloud == Busy:
		w.cloud = Working
	}
	return w
}

func (w model) later() model {
	w = w.next()
	w.overdue, w.returnOverdue = true, w.asked
	return w
}

func (w model) adverse() []model {
	w = w.next()
	var all []model
	add := func(change func(*model)) {
		next := w
		change(&next)
		if next != w {
			all = append(all, next)
		}
	}
	add(func(n *model) { n.gone = true })
	add(func(n *model) { n.held = false })
	add(func(n *model) { n.held, n.unconfirmed = false, true })
	add(func(n *model) { n.held, n.released = false, true })
	add(func(n *model) { n.policyGone = n.unattended })
	add(func(n *model) { n.cordoned, n.pods = false, true })
	add(func(n *model) { n.stuck = true })
	add(func(n *model) { n.ready = false })
	add(func(n *model) { n.rebooted = true })
	add(func(n *model) { n.overdue = true })
	add(func(n *model) { n.returnOverdue = n.asked })
	for _, answer := range []Answer{NoInstance, Busy, Elsewhere, Denied} {
		add(func(n *model) { n.cloud = answer })
	}
	add(func(n *model) { // the cloud failed, and begins again
		if n.begun && n.cloud != NoInstance {
			n.cloud = Working
		}
	})
	return all
}

// loaded reports whether the drain is not over.
func (w model) loaded() bool { return (w.pods || w.stuck) && !w.atOnce }

var rules = []rule{
	plantest.That("only a reserved node is changed", "|Cordon|Evict|Ask|Release|GiveBack|Keep|Wait|",
		func(w model, _ Decision) bool { return w.held && !w.gone }),
	plantest.That("a node is cordoned once", "|Cordon|", func(w model, _ Decision) bool { return !w.cordoned }),
	plantest.That("only a cordoned node is drained, and before the request", "|Evict|", func(w model, _ Decision) bool {
		return w.cordoned && w.pods && !w.stuck && !w.asked && !w.atOnce
	}),
	plantest.That("a budget is respected until the deadline", "|Evict|", func(w model, _ Decision) bool { return !w.overdue || w.force }),
	plantest.That("a rebuild is requested for a cordoned, drained node", "|Ask|", func(w model, _ Decision) bool {
		return w.cordoned && (w.asked || !w.loaded()) && w.answer == Unasked
	}),
	plantest.That("a rebuilt node is Ready in its new boot, or was rebuilt before", "|Release|", func(w model, _ Decision) bool {
		return w.ready && w.cloud == Complete && (w.rebooted || w.returnOverdue)
	}),
	plantest.That("only an unchanged node returns to service", "|GiveBack|", func(w model, _ Decision) bool {
		return !w.begun && (!w.asked || w.first)
	}),
	plantest.That("a node stays reserved only after a request", "|Keep|", func(w model, _ Decision) bool { return w.asked && !w.first }),
	plantest.That("a node that is not rebuilt has a reason", "|GiveBack|Keep|Wait|", func(_ model, d Decision) bool { return d.Why != "" }),
	plantest.That("a node is dropped without reservation, Node or instance", "|Drop|", func(w model, _ Decision) bool {
		return w.gone || !w.held || w.cloud == NoInstance
	}),
	plantest.That("a deadline ends each wait", "|Wait|", func(w model, _ Decision) bool { return !w.returnOverdue }),
	plantest.That("the cloud is waited for only after its answer", "|Wait|", func(w model, _ Decision) bool { return w.answer != Unasked }),
	plantest.That("a deleted policy begins no rebuild", "|Cordon|Evict|Ask|", func(w model, _ Decision) bool { return !w.policyGone || w.asked }),
	plantest.That("a policy leaves a node alone that takes pods again", "|Cordon|Ask|", func(w model, _ Decision) bool {
		return !w.unattended || !w.asked || w.cordoned || !w.ready || w.rebooted
	}),
}

func explored(next planner) *plantest.Exploration[model, Node, Action, Reason] {
	return world().Explore(next, 3)
}

func world() *plantest.Model[model, Node, Action, Reason] {
	return &plantest.Model[model, Node, Action, Reason]{
		Starts: starts(), Facts: model.observed, Effect: model.effect, Cut: model.cut, Progress: model.progress, Later: model.later,
		Adverse: model.adverse, Closed: func(w model) bool { return w.closed }, Rules: plantest.Always(rules), MaxSteps: 20,
	}
}

func TestEveryReachableWorld(t *testing.T) {
	e := explored(decide)
	if e.Bad != nil {
		t.Fatal(e.Bad)
	}
	t.Logf("%d worlds", e.Worlds)
}

// TestWrongPlannersAreCaught: each breaks a rule in a reachable world.
func TestWrongPlannersAreCaught(t *testing.T) {
	without := func(change func(*Node)) planner { return plantest.With(decide, change) }
	instead := func(due Action, wrong Decision) planner { return plantest.Instead(decide, due, wrong) }
	plantest.Catch(t, plantest.Wrong[Node, Action, Reason]{
		"works on a foreign node":               without(func(n *Node) { n.Held = true }),
		"works on a Node that is gone":          without(func(n *Node) { n.Gone = false }),
		"drops its own node":                    without(func(n *Node) { n.Held = n.Held && !n.Ready }),
		"begins without a cordon":               without(func(n *Node) { n.Cordoned = true }),
		"cordons again":                         without(func(n *Node) { n.Cordoned = n.Cordoned && n.Asked }),
		"does not drain":                        without(func(n *Node) { n.Pods, n.Stuck = 0, nil }),
		"evicts a pod that nothing makes again": without(func(n *Node) { n.Stuck = nil }),
		"drains all at once":                    without(func(n *Node) { n.AtOnce = false }),
		"drains after the request":              without(func(n *Node) { n.Asked = n.Asked && n.Pods == 0 }),
		"ignores a budget":                      without(func(n *Node) { n.Force = true }),
		"drains for ever":                       without(func(n *Node) { n.Overdue = false }),
		"takes its old boot for the new one":    without(func(n *Node) { n.Rebooted = true }),
		"releases a node that is not Ready":     without(func(n *Node) { n.Ready = n.Ready || n.Answer == Complete }),
		"takes a failure for a rebuild": without(func(n *Node) {
			if n.Answer == Denied {
				n.Answer = Complete
			}
		}),
		"takes a rebuild in progress for a complete one": without(func(n *Node) {
			if n.Answer == Working {
				n.Answer, n.Rebooted = Complete, true
			}
		}),
		"returns a node whose rebuild may have begun": without(func(n *Node) { n.Asked = n.Asked && n.Answer == Unasked }),
		"forgets an earlier request": plantest.Where(decide, func(n Node, d Decision) bool { return n.Asked && d.Why == RebuildRefused },
			Decision{Do: ReturnToService, Why: RebuildRefused}),
		"keeps a node that was not changed":       instead(ReturnToService, Decision{Do: Keep, Why: PodsStuck}),
		"waits for Ready for ever":                without(func(n *Node) { n.ReturnOverdue = false }),
		"asks again in place of a wait":           instead(Wait, do(Ask)),
		"waits without a request":                 instead(Ask, wait(ForRebuild)),
		"rebuilds for a deleted policy":           without(func(n *Node) { n.PolicyGone = false }),
		"cordons a node that a person uncordoned": without(func(n *Node) { n.Unattended = false }),
		"keeps a node without a reason":           plantest.Where(decide, func(_ Node, d Decision) bool { return d.Do == Keep }, do(Keep)),
		"waits without a reason":                  instead(Wait, wait("")),
	}, explored)
}

// TestTheCourseOfARebuild lists the steps of whole rebuilds.
func TestTheCourseOfARebuild(t *testing.T) {
	for _, c := range []struct {
		from model
		want string
	}{
		{model{cloud: Working, pods: true}, "Cordon, Evict, Ask, Wait: Rebuild, Ask, Wait: Boot, Ask, Release"},
		{model{cloud: Busy, atOnce: true, pods: true}, "Cordon, Ask, Wait: Turn, Ask, Wait: Rebuild, Ask, Wait: Boot, Ask, Release"},
		{model{cloud: Complete}, "Cordon, Ask, Wait: Boot, Ask, Release"},
		{model{cloud: Working, pods: true, stuck: true}, "Cordon, GiveBack: " + PodsStuck},
		{model{cloud: Elsewhere}, "Cordon, Ask, GiveBack: RecipeChanged"},
		{model{cloud: NoInstance}, "Cordon, Ask, Drop"},
	} {
		c.from.held, c.from.ready = true, true
		if got, _ := world().Course(decide, c.from); got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.from, got, c.want)
		}
	}
}
