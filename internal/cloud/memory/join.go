package memory

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Joining is how the machines of a version become nodes. The zero value is one that is Ready when it has booted, with an
// identity of its own, and stays so.
type Joining struct {
	// Never: it boots, and no Node appears.
	Never bool
	// After is from the boot until the Node is there and Ready.
	After time.Duration
	// Twin: each machine has the identity of the disk that the version is a copy of, so that any two have the same.
	Twin bool
	// Lost is from then until it is no longer Ready, for good; 0 is never.
	Lost time.Duration
	// Flap is how long it is Ready, and then is not, in turn; 0 is steadily.
	Flap time.Duration
}

// NodeView is a machine as its cluster sees it.
type NodeView struct {
	Instance cloud.InstanceID
	// Registered is when the Node appeared.
	Registered time.Time
	Ready      bool
	// Changed is since when it is Ready, or is not.
	Changed time.Time
	// MachineID as systemd keeps it.
	MachineID string
}

// SetJoining says how machines join that are built from an image, as a recipe names it: those that run already, too.
func (c *machines) SetJoining(image string, how Joining) {
	defer c.enter()()
	if c.joining == nil {
		c.joining = map[string]Joining{}
	}
	c.joining[image] = how
}

// Nodes lists the machines that run and have joined, in the order in which they were made.
func (c *machines) Nodes() []NodeView {
	defer c.enter()()
	var nodes []NodeView
	for _, m := range c.instances {
		if node, joined := c.joining[m.image].node(m, c.at); joined {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// node is a machine as its cluster sees it at a moment; false for one that has not joined.
func (j Joining) node(m *instance, now time.Time) (NodeView, bool) {
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
