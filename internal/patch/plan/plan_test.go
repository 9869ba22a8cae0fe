package plan

import (
	"fmt"
	"strings"
	"testing"
)

type planner func(Facts) Decision

// maxSteps is how many steps a cooperative world may take from anywhere to the end.
const maxSteps = 60

// adversities is the number of troubles on one path. Two are enough for all mutants (TestWrongPlannersAreCaught).
func adversities(short bool) int {
	if short {
		return 2
	}
	return 3
}

// violation says what a planner did wrong, and in which world.
type violation struct {
	property string
	world    model
	decision Decision
}

func (v violation) String() string {
	return fmt.Sprintf("%s\n  decision: %s\n  world: %+v", v.property, v.decision, v.world)
}

// exploration is what is reached under a planner.
type exploration struct {
	next  planner
	seen  map[model]bool
	ends  map[model]bool // worlds from which the planner is known to end
	facts map[Facts]bool
	bad   *violation
}

// explore visits all worlds that the planner can reach. Each action is also lost before or after its effect.
func explore(next planner, adversities int) *exploration {
	e := &exploration{next: next, seen: map[model]bool{}, ends: map[model]bool{}, facts: map[Facts]bool{}}
	layer := e.visit(starts())
	for range adversities {
		var reached []model
		for _, w := range layer {
			reached = append(reached, e.visit(w.adverse())...)
			if e.bad != nil {
				return e
			}
		}
		layer = reached
	}
	return e
}

// visit judges the worlds and their successors without adversities. It returns the new, open worlds.
func (e *exploration) visit(worlds []model) []model {
	var visited []model
	queue := e.unvisited(nil, worlds...)
	for len(queue) > 0 && e.bad == nil {
		w := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if w.closed {
			continue
		}
		visited = append(visited, w)
		f := w.observed()
		e.facts[f] = true
		d := e.next(f)
		if problem := safe(w, d); problem != "" {
			e.bad = &violation{problem, w, d}
			break
		}
		queue = e.unvisited(queue, w.effect(d), w.progress())
	}
	for _, w := range visited {
		if e.bad == nil {
			e.bad = e.live(w)
		}
	}
	return visited
}

func (e *exploration) unvisited(queue []model, worlds ...model) []model {
	for _, w := range worlds {
		if !e.seen[w] {
			e.seen[w] = true
			queue = append(queue, w)
		}
	}
	return queue
}

// live follows the planner from a world without adversities, and returns the error of the end.
func (e *exploration) live(from model) *violation {
	var way []model
	for w := from; !w.closed && !e.ends[w]; {
		if len(way) == maxSteps {
			return &violation{"liveness: never ends", from, e.next(from.observed())}
		}
		way = append(way, w)
		d := e.next(w.observed())
		after := w.effect(d)
		if after == w {
			after = w.progress()
		}
		if after == w { // nothing moves but time
			after.f.Overdue = true
		}
		if after == w {
			return &violation{"liveness: stuck at " + d.String(), w, d}
		}
		w = after
	}
	for _, w := range way {
		e.ends[w] = true
	}
	return nil
}

// property is what is held of decisions.
type property struct {
	name    string
	actions string // the actions of the property; all if empty
	holds   func(model, Decision) bool
}

const (
	changesNode = "|Cordon|Evict|OrderPatch|RunPod|OrderReboot|Uncordon|"
	begins      = "|Cordon|Evict|OrderPatch|OrderReboot|Uncordon|"
)

var properties = []property{
	{"only a reserved node is changed", changesNode + "MarkPatched|Finish|", func(w model, _ Decision) bool { return w.f.Lock == Ours && w.f.Node != NodeGone }},
	{"nothing begins once the end is decided", begins, func(w model, _ Decision) bool { return w.f.Failure == "" && !w.f.Ending }},
	{"only a drained node is patched", "|OrderPatch|", func(w model, _ Decision) bool {
		return w.f.Cordoned && w.f.Drained && w.f.Node == NodeReady && w.f.Order == NoOrder
	}},
	{"only a healthy node is drained and patched", "|Cordon|Evict|OrderPatch|", func(w model, _ Decision) bool {
		return w.f.Order != NoOrder || w.f.Node != NodeReady || !w.ill
	}},
	{"only a drained node is rebooted", "|OrderReboot|", func(w model, _ Decision) bool { return w.f.Cordoned && w.f.Drained && w.f.Node == NodeReady }},
	{"a pod has a recorded order", "|RunPod|", func(w model, _ Decision) bool { return w.f.Order != NoOrder && w.f.Pod == NoPod }},
	{"a patch runs under the boot of its order", "|RunPod|", func(w model, _ Decision) bool { return w.f.Order == RebootOrder || !w.f.Rebooted }},
	{"a report is believed of a known pod only", "|Believe|", func(w model, _ Decision) bool { return w.said && w.f.PodKnown }},
	{"only a complete patch is booted", "|OrderReboot|", func(w model, _ Decision) bool { return w.f.Result == Patched && w.disk == newDisk }},
	{"no quarantined level is booted", "|OrderReboot|", func(w model, _ Decision) bool { return !w.f.LevelQuarantined }},
	{"a reboot is announced before it is ordered", "|OrderReboot|", func(w model, _ Decision) bool { return w.f.PendingMarked }},
	{"the pod of the patch is gone before the reboot", "|OrderReboot|", func(w model, _ Decision) bool { return w.f.Pod == NoPod && !w.f.OrderLeft }},
	{"no node is rebooted twice", "|OrderReboot|", func(w model, _ Decision) bool { return !w.f.Rebooted && w.f.Order != RebootOrder }},
	{"patched means installed and booted", "|MarkPatched|", func(w model, _ Decision) bool {
		return w.f.Result == Patched && w.f.Rebooted && w.disk == newDisk && w.running && w.f.Node == NodeReady
	}},
	{"a quarantined level is not patched", "|MarkPatched|Uncordon|", func(w model, _ Decision) bool { return !w.f.LevelQuarantined }},
	{"pods come back to a node that is marked and Ready", "|Uncordon|", func(w model, _ Decision) bool {
		return w.f.PatchedMarked && w.f.Rebooted && w.f.Node == NodeReady && w.f.Pod == NoPod && !w.f.OrderLeft
	}},
	{"success means a soaked level, or nothing to patch", "|Finish|", func(w model, _ Decision) bool {
		return w.f.Soaked && w.f.PatchedMarked && w.flaw == sound || w.f.Result == Current && w.disk == oldDisk
	}},
	{"the end leaves nothing behind", "|Finish|Close|", func(w model, _ Decision) bool { return w.f.Pod == NoPod && !w.f.OrderLeft }},
	{"a half-patched node never looks patched", "|Finish|Close|", func(w model, _ Decision) bool {
		return w.f.Node == NodeGone || w.disk != halfDisk || w.f.FailedMarked && !w.f.PatchedMarked
	}},
	{"a node that needs a reboot says so", "|Finish|Close|", func(w model, _ Decision) bool {
		return w.f.Node == NodeGone || w.disk == oldDisk || w.booted || w.f.PendingMarked || w.f.FailedMarked
	}},
	{"a level that failed is recorded", "|Close|", func(w model, _ Decision) bool {
		return w.f.LevelRecorded || !w.f.Failure.Blames()
	}},
	{"a level is blamed for its own failure only", "|Quarantine|", func(w model, _ Decision) bool {
		return w.f.Result == Incomplete || w.f.Result == Patched && (w.f.Order == RebootOrder || w.running) && !w.ill
	}},
	{"a patch in progress is not given up", "|Fail|Close|", func(w model, d Decision) bool {
		return w.unit != runningUnit || w.f.Overdue || w.f.Lock != Ours || w.f.Failure != "" || w.f.Rebooted
	}},
	{"could not check is not nothing to patch", "|Finish|", func(w model, _ Decision) bool { return w.fate != Refused }},
	{"a level with a flaw is no success", "|Finish|", func(w model, _ Decision) bool { return w.fate == Current || w.flaw == sound }},
	{"a deadline ends each wait", "|Wait|Evict|", func(w model, _ Decision) bool { return !w.f.Overdue }},
	{"a pod that ended is not waited for", "|Wait|", func(w model, _ Decision) bool { return w.f.Pod != PodFailed || w.f.Rebooted }},
	{"a wait has a reason and a failure too", "|Wait|Fail|", func(_ model, d Decision) bool { return d.Why != "" }},
	{"a failure comes once", "|Fail|", func(w model, _ Decision) bool { return w.f.Failure == "" }},
}

// safe returns the safety property that the decision breaks, or an empty text.
func safe(w model, d Decision) string {
	for _, p := range properties {
		if p.actions != "" && !strings.Contains(p.actions, "|"+string(d.Do)+"|") {
			continue
		}
		if !p.holds(w, d) {
			return p.name
		}
	}
	return ""
}

// TestEveryReachableWorld checks safety and liveness in all worlds within three adversities, with each action lost before
// or after its effect.
func TestEveryReachableWorld(t *testing.T) {
	e := explore(Next, adversities(testing.Short()))
	if e.bad != nil {
		t.Fatal(e.bad)
	}
	done := map[Action]bool{}
	why := map[Reason]bool{}
	for f := range e.facts {
		d := Next(f)
		done[d.Do], why[d.Why] = true, true
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
	t.Logf("%d worlds, %d distinct facts", len(e.seen), len(e.facts))
}

// aloud is what the planner does when nothing goes wrong.
func aloud(w model) string {
	var got []string
	for range maxSteps {
		if w.closed {
			break
		}
		d := Next(w.observed())
		if len(got) == 0 || got[len(got)-1] != d.String() {
			got = append(got, d.String())
		}
		after := w.effect(d)
		if after == w {
			after = w.progress()
		}
		if after == w {
			after.f.Overdue = true
		}
		w = after
	}
	return strings.Join(got, ", ")
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
		{Patched, noHealth, false, run + rebooted + "DeletePod, DeleteOrder, MarkPatched, Uncordon, Wait: Soak, Fail: SoakFailed, Quarantine, MarkFailed, Close"},
	} {
		w := model{fate: c.fate, flaw: c.flaw, f: Facts{Lock: Ours, Node: NodeReady, LevelQuarantined: c.bad}}
		if got := aloud(w); got != c.want {
			t.Errorf("%s, flaw %d:\n got %s\nwant %s", c.fate, c.flaw, got, c.want)
		}
	}
}
