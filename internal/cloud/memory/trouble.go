package memory

import "github.com/kamino-dev/kamino/internal/cloud"

// failing counts what is still to fail.
type failing struct {
	snapshots int
	images    int
	starts    map[cloud.InstanceID]int
	rebuilds  map[cloud.InstanceID]int
	// trials, with what the cloud says of each.
	trials  int
	trouble string
	noRoom  bool
	blames  bool
	// vacant tells that no instance comes to be.
	vacant bool
}

// FailSnapshots makes the next n snapshots end as Failed.
func (c *machines) FailSnapshots(n int) {
	defer c.enter()()
	c.failing.snapshots = n
}

// FailImages makes the next n image versions end as Failed, half-way.
func (c *machines) FailImages(n int) {
	defer c.enter()()
	c.failing.images = n
}

// FailStarts makes the next n starts of an instance come to nothing, as when the cloud has no room: it is
// Starting for a while, and then Stopped again.
func (c *machines) FailStarts(id cloud.InstanceID, n int) {
	defer c.enter()()
	if m, ok := c.lookup(id); ok {
		if c.failing.starts == nil {
			c.failing.starts = map[cloud.InstanceID]int{}
		}
		c.failing.starts[m.id] = n
	}
}

// SetQuota changes the limits; what is there stays.
func (c *machines) SetQuota(q Quota) {
	defer c.enter()()
	c.config.Quota = q
}

// SetLatency changes the time that work takes which begins from now on.
func (c *machines) SetLatency(l Latency) {
	defer c.enter()()
	c.config.Latency = l
}

// Forbid takes the permission for calls, named as the methods of cloud.Provider, away from the credential.
func (c *credential) Forbid(calls ...string) {
	defer c.enter()()
	for _, call := range calls {
		c.forbidden[call] = true
	}
}

// Permit gives permissions back.
func (c *credential) Permit(calls ...string) {
	defer c.enter()()
	for _, call := range calls {
		delete(c.forbidden, call)
	}
}

// RefusePool sets why no instance of a pool can be captured; nothing for one that can.
func (c *pools) RefusePool(id cloud.PoolID, refusals ...cloud.Refusal) {
	defer c.enter()()
	if p, err := c.findPool(opPool, id); err == nil {
		p.refusals = refusals
	}
}

// RefuseInstance sets why an instance cannot be captured; nothing for one that can.
func (c *machines) RefuseInstance(id cloud.InstanceID, refusals ...cloud.Refusal) {
	defer c.enter()()
	if m, ok := c.lookup(id); ok {
		m.refusals = refusals
	}
}
