//go:build trouble

package trouble

import (
	"slices"
	"testing"
)

func TestTwoCommandsForOneNode(t *testing.T) {
	g := newGround(t, "name=twice,nodes=2")
	before := g.look()
	if codes := endings(t, g.capture(g.nodes[0]), g.capture(g.nodes[0])); !slices.Equal(codes, []int{0, 0}) {
		t.Errorf("exit codes %v, want twice 0", codes)
	}
	g.captured(before, g.nodes[0])
}

func TestTwoCommandsForTwoNodesOfAPool(t *testing.T) {
	g := newGround(t, "name=rivals,nodes=3")
	before := g.look()
	first, second := g.capture(g.nodes[0]), g.capture(g.nodes[1])
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
