package memory

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// turn changes a machine's power through an intermediate state. No other turn begins before the end.
func (c *machines) turn(m *instance, through, to cloud.Power, d time.Duration) {
	c.setPower(m, through)
	c.after(d, func() {
		if !m.gone {
			c.setPower(m, to)
		}
	})
}

func (c *machines) setPower(m *instance, p cloud.Power) {
	m.power = p
	switch p {
	case cloud.PowerStarting:
		// The guest writes to its disk from the first moment, long before the cloud reports it as running.
		c.spoil(m)
		for _, d := range c.copiesOf(m) { // the firmware may boot the copy of the other root
			c.record(ByCloud, EffectBootCopy, d.name)
		}
	case cloud.PowerRunning:
		m.boots++
		c.record(ByCloud, EffectBoot, string(m.id))
	case cloud.PowerStopped, cloud.PowerStopping, cloud.PowerUnknown:
	}
}

// lookup is find for the test's side: false for an unknown ID.
func (c *machines) lookup(id cloud.InstanceID) (*instance, bool) {
	m, err := c.find(opInstance, id)
	return m, err == nil
}

// BootID returns the guest's boot ID of the current or last boot, a UUID as in the kernel. It changes with each boot.
// It is empty for an unknown instance, or before the first boot.
func (c *controls) BootID(id cloud.InstanceID) string {
	defer c.enter()()
	m, ok := c.lookup(id)
	if !ok || m.boots == 0 {
		return ""
	}
	return bootID(m.id, m.boots)
}

func bootID(id cloud.InstanceID, boot int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s#%d", id, boot))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// change changes an instance with a power, and reports whether there is one.
func (c *controls) change(id cloud.InstanceID, power cloud.Power, change func(*instance)) bool {
	defer c.enter()()
	m, ok := c.lookup(id)
	if ok = ok && m.power == power; ok {
		change(m)
	}
	return ok
}

// MarkGeneralized marks the disk as a generalize pod does. The next boot clears the mark. The result is false unless
// the machine is running.
func (c *controls) MarkGeneralized(id cloud.InstanceID) bool {
	return c.change(id, cloud.PowerRunning, func(m *instance) {
		m.generalized = true
		c.record(ByGuest, EffectGeneralize, string(m.id))
	})
}

// GuestPowerOff powers the guest off from inside. The result is false unless the machine is running.
func (c *controls) GuestPowerOff(id cloud.InstanceID) bool {
	return c.change(id, cloud.PowerRunning, func(m *instance) {
		c.record(ByGuest, EffectStop, string(m.id))
		c.turn(m, cloud.PowerStopping, cloud.PowerStopped, c.config.Latency.GuestOff)
	})
}

// Reboot restarts a running machine at once, by the guest or a stranger. The result is false unless the machine is
// running.
func (c *controls) Reboot(id cloud.InstanceID) bool {
	return c.change(id, cloud.PowerRunning, func(m *instance) {
		c.record(ByStranger, EffectStart, string(m.id))
		c.turn(m, cloud.PowerStarting, cloud.PowerRunning, c.config.Latency.Start)
	})
}

// StartByStranger starts a stopped instance by another client. The result is false unless the machine is stopped.
func (c *controls) StartByStranger(id cloud.InstanceID) bool {
	return c.change(id, cloud.PowerStopped, func(m *instance) {
		c.record(ByStranger, EffectStart, string(m.id))
		c.start(m)
	})
}

// StopByStranger stops a running instance by another client. The result is false unless the machine is running.
func (c *controls) StopByStranger(id cloud.InstanceID) bool {
	return c.change(id, cloud.PowerRunning, func(m *instance) {
		c.record(ByStranger, EffectStop, string(m.id))
		c.turn(m, cloud.PowerStopping, cloud.PowerStopped, c.config.Latency.Stop)
	})
}

// RemoveInstance deletes an instance in spite of protection, and shrinks its pool. It reports whether the instance
// existed.
func (c *pools) RemoveInstance(id cloud.InstanceID) bool {
	defer c.enter()()
	m, ok := c.lookup(id)
	if ok {
		c.lose(m)
	}
	return ok
}

// ScaleIn removes the newest unprotected instance of the pool, like an autoscaler. It returns the instance; empty if
// all are protected.
func (c *pools) ScaleIn(pool cloud.PoolID) cloud.InstanceID {
	defer c.enter()()
	for i := len(c.instances) - 1; i >= 0; i-- {
		if m := c.instances[i]; samePool(m.owner, pool) && !m.protected {
			c.lose(m)
			return m.id
		}
	}
	return ""
}

// lose removes an instance from its pool.
func (c *pools) lose(m *instance) {
	c.remove(m)
	if p, err := c.findPool(opInstance, m.owner); err == nil && !m.removing {
		p.capacity = max(0, p.capacity-1)
	}
}

// make creates a machine for a pool. The machine is off at first.
func (c *machines) make(m *instance) *instance {
	m.power, m.created = cloud.PowerStopped, c.at
	c.instances = append(c.instances, m)
	return m
}

func (c *machines) remove(m *instance) {
	c.drop(m)
	c.record(ByStranger, EffectRemoveInstance, string(m.id))
}

func (c *machines) drop(m *instance) {
	m.gone = true
	c.free(m)
	c.instances = slices.DeleteFunc(slices.Clone(c.instances), func(other *instance) bool { return other == m })
}
