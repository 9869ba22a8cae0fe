package trouble

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// The tests in this file have the sandbox to themselves: a controller carries out everybody's Prototypes.

// controller starts one and returns when it holds the Lease.
func (g *ground) controller() *child {
	g.Helper()
	c := g.start("controller", "--health-probe-bind-address", "0")
	eventually(g.T, "the controller leads", func() (bool, string) {
		return c.heard("Successfully acquired lease"), c.stderr.String()
	})
	return c
}

// leaves demands that a controller that is asked to end does, and gives the Lease back.
func (g *ground) leaves(c *child) {
	g.Helper()
	c.interrupt()
	c.ends(g.T, 0)
}

func TestControllerDoesWhatACommandLeft(t *testing.T) {
	g := ownGround(t, "name=nowait,nodes=2")
	before := g.look()
	command := g.capture(g.nodes[0], "--wait=false")
	command.ends(t, 0, "No controller holds Kamino's Lease: nothing happens to Prototype "+g.pool.ScaleSet())
	if writes := g.writes(); len(writes) > 0 {
		t.Errorf("the command began: %v", writes)
	}
	controller := g.controller()
	g.reaches("the capture is done", ended)
	g.leaves(controller)
	g.captured(before, g.nodes[0])
}

func TestCommandFollowsTheController(t *testing.T) {
	g := ownGround(t, "name=follow,nodes=3")
	before := g.look()
	publishing := g.hold(g.cloudGate(), "PUT", "/versions/")
	controller := g.controller()
	left := g.capture(g.nodes[0], "--wait=false")
	left.ends(t, 0, "The controller ", " does the work")
	publishing.await(g)
	follower := g.capture(g.nodes[0])
	eventually(t, "the command follows", func() (bool, string) {
		return follower.heard("following Prototype ") && follower.heard("the controller "), follower.stderr.String()
	})
	publishing.letGo()
	follower.ends(t, 0, "Node "+g.nodes[0]+" is being captured already: following Prototype ")
	if follower.heard("this command does the work") {
		t.Error("the command did the work of the controller")
	}
	g.captured(before, g.nodes[0])
	g.leaves(controller)
}

func TestControllerIsKilledAndAnotherGoesOn(t *testing.T) {
	g := ownGround(t, "name=killed,nodes=2")
	before := g.look()
	gate := g.cloudGate()
	first := g.controller()
	gate.after("PUT", "/snapshots/", first.kill)
	g.capture(g.nodes[0], "--wait=false").ends(t, 0)
	first.ends(t, -1)
	if n := g.node(g.nodes[0]); !n.Spec.Unschedulable {
		t.Error("the donor is in service in the middle of its capture")
	}
	g.freeLease()
	second := g.controller()
	g.reaches("the capture is done", ended)
	g.leaves(second)
	g.captured(before, g.nodes[0])
}

func TestPrototypeIsDeletedUnderAController(t *testing.T) {
	g := ownGround(t, "name=kubectl,nodes=2")
	before := g.look()
	snapshot := g.hold(g.cloudGate(), "PUT", "/snapshots/")
	controller := g.controller()
	g.capture(g.nodes[0], "--wait=false").ends(t, 0)
	snapshot.await(g)
	name := g.prototype().Name
	deletion := start(t, nil, "kubectl", "delete", "prototype", name)
	g.reaches("the prototype is being deleted", func(p *v1alpha1.Prototype) bool { return p.DeletionTimestamp != nil })
	snapshot.letGo()
	deletion.ends(t, 0) // kubectl waits until it is gone
	g.givenBack(before, g.nodes[0], 1)
	g.gone(name)
	g.leaves(controller)
}
