package plan

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/plantest"
)

type (
	planner = plantest.Planner[Facts, Action, Reason]
	rule    = plantest.Rule[model, Action, Reason]
)

// world is the model of the patch of one node.
func world() *plantest.Model[model, Facts, Action, Reason] {
	return &plantest.Model[model, Facts, Action, Reason]{
		Starts: starts(), Facts: model.observed, Effect: model.effect, Progress: model.progress, Later: model.later, Adverse: model.adverse,
		Closed: func(w model) bool { return w.closed }, Rules: plantest.Always(rules),
	}
}

// later is the world after a long time: each deadline is over.
func (w model) later() model {
	w.f.Overdue = true
	return w
}

// adversities is the number of troubles on one path. Two are enough for all wrong planners.
func adversities(short bool) int {
	if short {
		return 2
	}
	return 3
}

const (
	changesNode = "|Cordon|Evict|OrderPatch|RunPod|OrderReboot|Uncordon|"
	begins      = "|Cordon|Evict|OrderPatch|OrderReboot|Uncordon|"
)

var rules = []rule{
	plantest.That("only a reserved node is changed", changesNode+"MarkPatched|Finish|",
		func(w model, _ Decision) bool { return w.f.Lock == Ours && w.f.Node != NodeGone }),
	plantest.That("nothing begins once the end is decided", begins, func(w model, d Decision) bool {
		return w.f.Failure == "" && (!w.f.Ending || d.Do == OrderPatch && w.f.Order == PatchOrder)
	}),
	plantest.That("only a drained node is patched", "|OrderPatch|", func(w model, _ Decision) bool {
		return w.f.Cordoned && w.f.Drained && w.f.Node == NodeReady && w.f.Order == NoOrder ||
			w.f.Order == PatchOrder && w.f.Result == NoResult && !w.f.OrderLeft && w.f.Pod == NoPod && !w.f.Rebooted
	}),
	plantest.That("only a healthy node is drained and patched", "|Cordon|Evict|OrderPatch|", func(w model, _ Decision) bool {
		return w.f.Order != NoOrder || w.f.Node != NodeReady || !w.ill
	}),
	plantest.That("only a drained node is rebooted", "|OrderReboot|",
		func(w model, _ Decision) bool { return w.f.Cordoned && w.f.Drained && w.f.Node == NodeReady }),
	plantest.That("a pod has a recorded order", "|RunPod|", func(w model, _ Decision) bool { return w.f.Order != NoOrder && w.f.Pod == NoPod }),
	plantest.That("a patch runs under the boot of its order", "|RunPod|", func(w model, _ Decision) bool { return w.f.Order == RebootOrder || !w.f.Rebooted }),
	plantest.That("a report is believed of a known pod only", "|Believe|", func(w model, _ Decision) bool { return w.said && w.f.PodKnown }),
	plantest.That("only a complete patch is booted", "|OrderReboot|", func(w model, _ Decision) bool { return w.f.Result == Patched && w.disk == newDisk }),
	plantest.That("no quarantined level is booted", "|OrderReboot|", func(w model, _ Decision) bool { return !w.f.LevelQuarantined }),
	plantest.That("a reboot is announced before it is ordered", "|OrderReboot|", func(w model, _ Decision) bool { return w.f.PendingMarked }),
	plantest.That("the pod of the patch is gone before the reboot", "|OrderReboot|",
		func(w model, _ Decision) bool { return w.f.Pod == NoPod && !w.f.OrderLeft }),
	plantest.That("no node is rebooted twice", "|OrderReboot|", func(w model, _ Decision) bool { return !w.f.Rebooted && w.f.Order != RebootOrder }),
	plantest.That("patched means installed and booted", "|MarkPatched|", func(w model, _ Decision) bool {
		return w.f.Result == Patched && w.f.Rebooted && w.disk == newDisk && w.running && w.f.Node == NodeReady
	}),
	plantest.That("a quarantined level is not patched", "|MarkPatched|Uncordon|", func(w model, _ Decision) bool { return !w.f.LevelQuarantined }),
	plantest.That("pods come back to a node that is marked and Ready", "|Uncordon|", func(w model, _ Decision) bool {
		return w.f.PatchedMarked && w.f.Rebooted && w.f.Node == NodeReady && w.f.Pod == NoPod && !w.f.OrderLeft
	}),
	plantest.That("success means a soaked level, or nothing to patch", "|Finish|", func(w model, _ Decision) bool {
		return w.f.Soaked && w.f.PatchedMarked && w.flaw == sound || w.f.Result == Current && w.disk == oldDisk
	}),
	plantest.That("the end leaves nothing behind", "|Finish|Close|", func(w model, _ Decision) bool { return w.f.Pod == NoPod && !w.f.OrderLeft }),
	plantest.That("a half-patched node never looks patched", "|Finish|Close|", func(w model, _ Decision) bool {
		return w.f.Node == NodeGone || w.disk != halfDisk || w.f.FailedMarked && !w.f.PatchedMarked
	}),
	plantest.That("a node that needs a reboot says so", "|Finish|Close|", func(w model, _ Decision) bool {
		return w.f.Node == NodeGone || w.disk == oldDisk || w.booted || w.f.PendingMarked || w.f.FailedMarked
	}),
	plantest.That("a level that failed is recorded", "|Close|", func(w model, _ Decision) bool {
		return w.f.LevelRecorded || !w.f.Failure.Blames()
	}),
	plantest.That("a level is blamed for its own failure only", "|Quarantine|", func(w model, _ Decision) bool {
		return w.f.Result == Incomplete || w.f.Result == Patched && (w.f.Order == RebootOrder || w.running) && !w.ill
	}),
	plantest.That("a patch in progress is not given up", "|Fail|Close|", func(w model, d Decision) bool {
		return w.unit != runningUnit || w.f.Overdue || w.f.Lock != Ours || w.f.Failure != "" || w.f.Rebooted
	}),
	plantest.That("could not check is not nothing to patch", "|Finish|", func(w model, _ Decision) bool { return w.fate != Refused }),
	plantest.That("a level with a flaw is no success", "|Finish|", func(w model, _ Decision) bool { return w.fate == Current || w.flaw == sound }),
	plantest.That("a deadline ends each wait", "|Wait|Evict|", func(w model, _ Decision) bool { return !w.f.Overdue }),
	plantest.That("a pod that ended is not waited for", "|Wait|", func(w model, _ Decision) bool { return w.f.Pod != PodFailed || w.f.Rebooted }),
	plantest.That("a pod that does not start is not waited for", "|Wait|", func(w model, d Decision) bool {
		return w.f.Pod != PodStuck || d.Why != ForReport && (d.Why != ForNode || w.f.Order != PatchOrder || w.f.Result != NoResult)
	}),
	plantest.That("at the end, nothing is awaited of a machine that is off", "|Wait|", func(w model, _ Decision) bool { return !w.f.Off || !w.f.Ending }),
	plantest.That("a wait has a reason and a failure too", "|Wait|Fail|", func(_ model, d Decision) bool { return d.Why != "" }),
	plantest.That("a failure comes once", "|Fail|", func(w model, _ Decision) bool { return w.f.Failure == "" }),
}

// TestEveryReachableWorld checks safety and liveness in all worlds within three adversities, with each action lost before
// or after its effect.
func TestEveryReachableWorld(t *testing.T) {
	m, facts := world(), map[Facts]bool{}
	done := map[Action]bool{}
	why := map[Reason]bool{}
	m.Visit = func(w model) {
		f := w.observed()
		d := Next(f)
		facts[f], done[d.Do], why[d.Why] = true, true, true
	}
	e := m.Explore(Next, adversities(testing.Short()))
	if e.Bad != nil {
		t.Fatal(e.Bad)
	}
	for _, a := range Actions {
		if !done[a] {
			t.Errorf("no world needs %s", a)
		}
	}
	for _, r := range []Reason{
		Stopped, NodeGoneAway, ReservationLost, DrainTimeout, NodeUnhealthy, Interrupted, PatchTimeout, PatchFailed, PatchRefused,
		LevelQuarantined, NotRebooted, RebootTimeout, SoakFailed, ForNode, ForHealth, ForReport, ForReboot, ForReady, ForSoak,
	} {
		if !why[r] {
			t.Errorf("no world has %s", r)
		}
	}
	t.Logf("%d worlds, %d distinct facts", e.Worlds, len(facts))
}

// TestTheCourseOfAPatch lists the actions of whole patches.
func TestTheCourseOfAPatch(t *testing.T) {
	const (
		run      = "Cordon, Evict, OrderPatch, RunPod, Adopt, Wait: Report, Believe, "
		rebooted = "MarkPending, DeletePod, DeleteOrder, OrderReboot, RunPod, Wait: Reboot, "
	)
	for _, c := range []struct {
		fate Result
		flaw flaw
		bad  bool
		want string
	}{
		{Patched, sound, false, run + rebooted + "DeletePod, DeleteOrder, MarkPatched, Uncordon, Wait: Soak, Finish"},
		{Current, sound, false, run + "DeletePod, DeleteOrder, Finish"},
		{Refused, sound, false, run + "Fail: PatchRefused, DeletePod, DeleteOrder, Close"},
		{Incomplete, sound, false, run + "Fail: PatchFailed, Quarantine, MarkFailed, MarkPending, DeletePod, DeleteOrder, Close"},
		{Patched, sound, true, run + "Fail: LevelQuarantined, MarkFailed, MarkPending, DeletePod, DeleteOrder, Close"},
		{Patched, noBoot, false, run + rebooted + "Fail: RebootTimeout, Quarantine, MarkFailed, DeletePod, DeleteOrder, Close"},
		{Patched, noHealth, false, run + rebooted + "DeletePod, DeleteOrder, MarkPatched, Uncordon, Wait: Soak, Fail: SoakFailed, " +
			"Quarantine, MarkFailed, Close"},
	} {
		from := model{fate: c.fate, flaw: c.flaw, f: Facts{Lock: Ours, Node: NodeReady, LevelQuarantined: c.bad}}
		if got, _ := world().Course(Next, from); got != c.want {
			t.Errorf("%s, flaw %d:\n got %s\nwant %s", c.fate, c.flaw, got, c.want)
		}
	}
}
