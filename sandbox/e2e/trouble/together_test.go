package trouble

import (
	"net/http"
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/untried"
)

// bothWrite lets two commands write their Prototypes only once each has decided to, and so without a sight
// of the other's.
func (g *ground) bothWrite() {
	g.Helper()
	g.apiGate().meet(2, http.MethodPost, "/prototypes$")
}

func TestTwoCommandsForOneNode(t *testing.T) {
	g := newGround(t, "name=twice,nodes=2")
	before := g.look()
	g.bothWrite()
	if codes := endings(t, g.capture(g.nodes[0], today), g.capture(g.nodes[0], today)); !slices.Equal(codes, []int{0, 0}) {
		t.Errorf("exit codes %v, want twice 0", codes)
	}
	g.captured(before, g.nodes[0])
}

func TestTwoCommandsForTwoNodesOfAPool(t *testing.T) {
	g := newGround(t, "name=rivals,nodes=3")
	before := g.look()
	g.bothWrite()
	first, second := g.capture(g.nodes[0], today), g.capture(g.nodes[1], today)
	if codes := endings(t, first, second); !slices.Equal(codes, []int{0, 3}) {
		t.Errorf("exit codes %v, want one 0 and one 3", codes)
	}
	winner, loser := g.nodes[0], second
	if first.ending() != 0 {
		winner, loser = g.nodes[1], first
	}
	loser.said(t, "Prototype "+g.prototype().Name, winner, "nothing was changed")
	g.captured(before, winner)
}

// TestOneNodeOfTheClusterAtATime has the sandbox to itself: it counts every donor of the cluster.
func TestOneNodeOfTheClusterAtATime(t *testing.T) {
	first, second := ownGround(t, "name=ahead,nodes=2"), ownGround(t, "name=behind,nodes=2")
	second.namespace = "kamino-behind" // and so under another Lease, which two commands would wait for, too
	sandbox.Namespace(second.T, second.namespace)
	snapshot := first.hold(first.cloudGate(), http.MethodPut, "/snapshots/")
	atFirst, then := first.look(), second.look()
	ahead := first.start(untried.Capture(first.nodes[0])...)
	snapshot.await(first)
	behind := second.start(untried.Capture(second.nodes[0])...)
	eventually(t, "the second waits for the first", func() (bool, string) {
		return behind.heard("waiting for prototype " + first.prototype().Name + ", which holds node " + first.nodes[0]), behind.stderr.String()
	})
	if writes := second.writes(); len(writes) > 0 {
		t.Errorf("the second began: %v", writes)
	}
	snapshot.letGo()
	ahead.ends(t, 0)
	behind.ends(t, 0)
	first.captured(atFirst, first.nodes[0])
	second.captured(then, second.nodes[0])
}
