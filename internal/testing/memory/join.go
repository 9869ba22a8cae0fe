package memory

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// JoinBehaviour is how the machines of an image become nodes. The zero value is a node that is Ready right after the boot,
// with its own identity, and stays Ready.
type JoinBehaviour struct {
	// Never: the machine boots, but no Node appears.
	Never bool
	// After is the time from the boot until the Node exists and is Ready.
	After time.Duration
	// Twin: each machine has the identity of the source disk, so that all machines of the version are equal.
	Twin bool
	// Lost is the time from then until the node is permanently unready; 0 means never.
	Lost time.Duration
	// Flap is the time for which the node is alternately Ready and unready; 0 means steadily Ready.
	Flap time.Duration
}

// NodeView is a machine as its cluster sees it.
type NodeView struct {
	Instance cloud.InstanceID
	// Registered is when the Node appeared.
	Registered time.Time
	Ready      bool
	// Changed is the last change of Ready.
	Changed time.Time
	// MachineID is systemd's machine ID.
	MachineID string
}

// SetJoining sets how machines of an image join, including running machines. image is as in a recipe.
func (c *controls) SetJoining(image string, how JoinBehaviour) {
	defer c.enter()()
	c.joinBehaviours[image] = how
}

// Nodes returns the running machines that have joined, in the order of creation.
func (c *controls) Nodes() []NodeView {
	defer c.enter()()
	var nodes []NodeView
	for _, m := range c.instances {
		if node, joined := c.joinBehaviours[m.image].node(m, c.at); joined {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// node returns a machine's node at a time; false before the machine has joined.
func (j JoinBehaviour) node(m *instance, now time.Time) (NodeView, bool) {
	since := m.booted.Add(j.After)
	if j.Never || m.power != cloud.PowerRunning || now.Before(since) {
		return NodeView{}, false
	}
	node := NodeView{Instance: m.id, Registered: since, Ready: true, Changed: since, MachineID: identity(string(m.id))}
	if j.Twin {
		node.MachineID = identity(m.image)
	}
	if j.Flap > 0 {
		inTurn := now.Sub(since) % (2 * j.Flap)
		if node.Ready = inTurn < j.Flap; !node.Ready {
			inTurn -= j.Flap
		}
		node.Changed = now.Add(-inTurn)
	}
	if lost := since.Add(j.Lost); j.Lost > 0 && !now.Before(lost) {
		node.Ready, node.Changed = false, lost
	}
	return node, true
}

func identity(of string) string {
	sum := sha256.Sum256([]byte(of))
	return fmt.Sprintf("%x", sum[:16])
}
