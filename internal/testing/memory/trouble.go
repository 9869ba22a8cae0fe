package memory

import "github.com/kamino-dev/kamino/internal/cloud"

// failing counts the failures to come.
type failing struct {
	snapshots int
	images    int
	rebuilds  map[cloud.InstanceID]int
	copies    int
	// trials and workshops fail as ordered.
	trials, workshops failingTrials
}

// controls is the test's side of the machines: what guests and other clients do, and trouble.
type controls struct{ *machines }

// FailSnapshots makes the next n snapshots fail.
func (c *controls) FailSnapshots(n int) {
	defer c.enter()()
	c.failing.snapshots = n
}

// FailImages makes the next n versions fail half-way.
func (c *controls) FailImages(n int) {
	defer c.enter()()
	c.failing.images = n
}

// SetQuota changes the limits. Existing objects stay.
func (c *controls) SetQuota(q Quota) {
	defer c.enter()()
	c.config.Quota = q
}

// Forbid removes the permissions for calls, named as methods of cloud.Provider.
func (c *credential) Forbid(calls ...string) {
	defer c.enter()()
	for _, call := range calls {
		c.forbidden[call] = true
	}
}

// Permit restores permissions.
func (c *credential) Permit(calls ...string) {
	defer c.enter()()
	for _, call := range calls {
		delete(c.forbidden, call)
	}
}

// RefusePool sets the refusals of a pool; none makes it capturable.
func (c *pools) RefusePool(id cloud.PoolID, refusals ...cloud.Refusal) {
	defer c.enter()()
	c.mustPool(id).refusals = refusals
}

// RefuseInstance sets the refusals of an instance; none makes it capturable.
func (c *controls) RefuseInstance(id cloud.InstanceID, refusals ...cloud.Refusal) {
	defer c.enter()()
	if m, ok := c.lookup(id); ok {
		m.refusals = refusals
	}
}
