package plan

import (
	"strings"
	"testing"
	"time"
)

// answers lists all answers of a cloud.
var answers = []Answer{Unasked, Working, Complete, NoInstance, Busy, Elsewhere, Denied}

// nodes returns all states of a node that Next distinguishes.
func nodes() []Node {
	var all []Node
	for bits := range 1 << 11 {
		on := func(n int) bool { return bits>>n&1 == 1 }
		for _, answer := range answers {
			n := Node{
				Name: "n", To: "2026.03.01", Gone: on(0), Held: on(1), Cordoned: on(2), Ready: on(3), Rebooted: on(4), AtOnce: on(5), Force: on(6),
				Overdue: on(7), Asked: on(8), ReturnOverdue: on(9), Answer: answer, DrainTime: time.Minute, ReadyTime: time.Minute,
			}
			if on(10) {
				n.Pods = 2
			}
			all = append(all, n)
			n.Stuck = []string{"a pod that nothing makes again"}
			all = append(all, n)
		}
	}
	return all
}

// TestRefusalsNameRemedy, in a sentence that begins with the obstacle.
func TestRefusalsNameRemedy(t *testing.T) {
	reasons := map[string]bool{}
	for _, n := range nodes() {
		step := Next(n)
		if step.Refusal == nil {
			continue
		}
		reasons[step.Refusal.Reason] = true
		if r := step.Refusal; r.Remedy == "" || !strings.HasPrefix(r.Message, r.Obstacle) || !strings.HasSuffix(r.Message, r.Remedy) || step.Says != r.Message {
			t.Errorf("%+v: %+v", n, step)
		}
	}
	for _, reason := range []string{ReservationLost, PodsStuck, NotDrained, RecipeChanged, RebuildRefused, NodeNotReady} {
		if !reasons[reason] {
			t.Errorf("%s is never said", reason)
		}
	}
}

func TestNext(t *testing.T) {
	held := Node{Name: "n", To: "2026.03.01", Held: true, Cordoned: true, Ready: true, DrainTime: 15 * time.Minute, ReadyTime: 30 * time.Minute}
	for _, test := range []struct {
		name string
		n    func(n *Node)
		want Action
		says string
	}{
		{"one that was just taken", func(n *Node) { n.Cordoned = false }, Cordon, "is cordoned"},
		{"one that is cordoned", func(n *Node) { n.Pods = 3 }, Evict, "drains: 3 pods left"},
		{"one pod is left", func(n *Node) { n.Pods = 1 }, Evict, "drains: 1 pod left"},
		{"one that is drained", func(*Node) {}, Ask, ""},
		{"all at once", func(n *Node) { n.Pods, n.AtOnce = 3, true }, Ask, ""},
		{"pods that nothing makes again", func(n *Node) { n.Pods, n.Stuck = 1, []string{"default/a"} }, ReturnToService,
			"cannot be drained: default/a; remove the pods, or delete the pods with --force (settings.drain.force)"},
		{"a budget", func(n *Node) { n.Pods, n.Overdue, n.Blocked = 1, true, "default/a: the budget says no" }, ReturnToService,
			"was not drained within 15m0s: default/a: the budget says no; remove the obstacle, or ignore budgets with --force (settings.drain.force)"},
		{"pods that end slowly", func(n *Node) { n.Pods, n.Overdue = 2, true }, ReturnToService,
			"was not drained within 15m0s: 2 pods left; remove the obstacle, or ignore budgets with --force (settings.drain.force)"},
		{"by force", func(n *Node) { n.Pods, n.Overdue, n.Force = 1, true, true }, Evict, "drains: 1 pod left"},
		{"pods that came back once the cloud was asked", func(n *Node) { n.Pods, n.Asked = 1, true }, Ask, ""},
		{"the cloud works", func(n *Node) { n.Answer = Working }, Wait, "is being rebuilt from version 2026.03.01"},
		{"the cloud failed", func(n *Node) { n.Answer, n.Said = Working, "no room" }, Wait, "is rebuilt again, because the cloud failed: no room"},
		{"it is done, and the node boots", func(n *Node) { n.Answer, n.Ready = Complete, false }, Wait, "boots"},
		{"it is done, and the node has not noticed", func(n *Node) { n.Answer = Complete }, Wait, "boots"},
		{"it is back", func(n *Node) { n.Answer, n.Rebooted = Complete, true }, Release, "runs version 2026.03.01 and is back in service"},
		{"it was rebuilt before it was taken", func(n *Node) { n.Answer, n.ReturnOverdue = Complete, true }, Release,
			"runs version 2026.03.01 and is back in service"},
		{"it is back, late", func(n *Node) { n.Answer, n.Rebooted, n.ReturnOverdue = Complete, true, true }, Release,
			"runs version 2026.03.01 and is back in service"},
		{"it does not come back", func(n *Node) { n.Answer, n.Ready, n.ReturnOverdue = Complete, false, true }, Keep,
			"was not Ready again within 30m0s, and stays cordoned: see `kubectl describe node n`; the same command continues the rebuild"},
		{"the cloud works for too long", func(n *Node) { n.Answer, n.ReturnOverdue = Working, true }, Keep,
			"was not Ready again within 30m0s, and stays cordoned: see `kubectl describe node n`; the same command continues the rebuild"},
		{"too much was asked", func(n *Node) { n.Answer, n.Said = Busy, "slow down" }, Wait, "waits: slow down"},
		{"no instance", func(n *Node) { n.Answer = NoInstance }, Drop, "has no instance any more, and needs no rebuild"},
		{"no node", func(n *Node) { n.Gone = true }, Drop, "is gone, and needs no rebuild"},
		{"a permission is missing", func(n *Node) { n.Answer, n.Said = Denied, "no" }, ReturnToService,
			"returns to service without a rebuild: no; correct the cause; `kamino doctor` names missing permissions"},
		{"a permission went half-way", func(n *Node) { n.Answer, n.Asked, n.Said = Denied, true, "no" }, Keep,
			"is partly rebuilt, and stays cordoned: no; correct the cause; `kamino doctor` names missing permissions"},
		{"the recipe moved", func(n *Node) { n.Answer, n.Said = Elsewhere, "no" }, ReturnToService,
			"returns to service without a rebuild: no; point the recipe at version 2026.03.01 again, or start a rebuild with the version of the recipe"},
		{"the recipe moved half-way", func(n *Node) { n.Answer, n.Asked, n.Said = Elsewhere, true, "no" }, Keep,
			"is partly rebuilt, and stays cordoned: no; point the recipe at version 2026.03.01 again, or start a rebuild with the version of the recipe"},
		{"a capture has it", func(n *Node) { n.Held, n.By = false, "prototype p" }, Drop,
			"is no longer reserved for this rebuild: the node is held by prototype p; wait until the holder releases the node"},
		{"no holder", func(n *Node) { n.Held = false }, Drop,
			"is no longer reserved for this rebuild: annotation kamino.dev/reservation is gone; find the client that works on the node"},
	} {
		n := held
		test.n(&n)
		if got := Next(n); got.Do != test.want || got.Says != test.says {
			t.Errorf("%s: %s %q, want %s %q", test.name, got.Do, got.Says, test.want, test.says)
		}
	}
}
