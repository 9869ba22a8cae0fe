package memory

import (
	"context"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// instance is a VM with its disk.
type instance struct {
	id cloud.InstanceID
	// owner is the ID of the pool that built the instance.
	owner cloud.PoolID
	// stray is true if the instance does not name its pool.
	stray bool
	// diskGB is the size of the OS disk.
	diskGB    int32
	power     cloud.Power
	protected bool
	image     string
	builtFrom string
	created   time.Time
	bootstrap []string
	refusals  []cloud.Refusal
	// generalized is true if the disk was generalized since the last boot.
	generalized bool
	boots       int
	// console is the serial console.
	console string
	// rebuilding is true during a rebuild. broken is true after a failed rebuild.
	rebuilding, broken bool
	// removing is true during the removal: the pool has already shrunk.
	removing, gone bool
}

func (c *machines) find(op string, id cloud.InstanceID) (*instance, error) {
	if !isInstance(id) {
		return nil, refused(cloud.Unsupported, op, string(id), "ForeignInstance", "not an instance of a pool in this cloud")
	}
	for _, m := range c.instances {
		if sameInstance(m.id, id) {
			return m, nil
		}
	}
	return nil, refused(cloud.NotFound, op, string(id), "ResourceNotFound", "the instance does not exist")
}

// admitInstance is admit and find.
func (c *machines) admitInstance(ctx context.Context, op string, id cloud.InstanceID) (*instance, error) {
	if err := c.admit(ctx, op, string(id)); err != nil {
		return nil, err
	}
	return c.find(op, id)
}

// Instance returns an instance.
func (c *ImageProvider) Instance(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error) {
	defer c.enter()()
	m, err := c.admitInstance(ctx, opInstance, id)
	if err != nil {
		return cloud.Instance{}, err
	}
	return m.view(), nil
}

// ConsoleOutput implements cloud.ImageProvider.
func (c *ImageProvider) ConsoleOutput(ctx context.Context, id cloud.InstanceID) (string, error) {
	defer c.enter()()
	m, err := c.admitInstance(ctx, opConsoleOutput, id)
	if err != nil {
		return "", err
	}
	return m.console[max(0, len(m.console)-cloud.ConsoleSize):], nil
}

// SetConsole sets the serial console of an instance.
func (c *Cloud) SetConsole(id cloud.InstanceID, text string) {
	defer c.machines.enter()()
	if m, err := c.machines.find(opConsoleOutput, id); err == nil {
		m.console = text
	}
}

// diskOf is the ID of the OS disk of an instance.
func diskOf(id cloud.InstanceID) string { return string(id) + "/disk" }

func (m *instance) view() cloud.Instance {
	owner := m.owner
	if m.stray {
		owner = ""
	}
	return cloud.Instance{
		ID: m.id, Pool: owner, Power: m.power, Disk: diskOf(m.id),
		Image: m.image, BuiltFrom: m.builtFrom, CreatedAt: m.created, Removing: m.removing, Refusals: slices.Clone(m.refusals),
	}
}

// MaxImages implements cloud.PoolProvider.
func (c *PoolProvider) MaxImages(cloud.PoolID) int {
	defer c.enter()()
	return c.config.MaxImages
}

// SetMaxImages sets the limit of different images in a pool.
func (c *controls) SetMaxImages(limit int) {
	defer c.enter()()
	c.config.MaxImages = limit
}

// countImages counts the images of the pool's instances and of its recipe.
func (c *pools) countImages(p *pool) int {
	seen := map[string]bool{p.recipe.image: true}
	for _, m := range c.members(p) {
		seen[m.image] = true
	}
	return len(seen)
}

// Instances implements cloud.PoolProvider, in the order of creation.
func (c *PoolProvider) Instances(ctx context.Context, id cloud.PoolID) ([]cloud.Instance, error) {
	defer c.enter()()
	p, err := c.admitPool(ctx, opInstances, id)
	if err != nil {
		return nil, err
	}
	var list []cloud.Instance
	for _, m := range c.members(p) {
		list = append(list, m.view())
	}
	return list, nil
}

// EnsureStopped requests the power-off. A starting instance continues: call again.
func (c *ImageProvider) EnsureStopped(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	defer c.enter()()
	m, err := c.admitInstance(ctx, opEnsureStopped, id)
	if err != nil {
		return cloud.PowerUnknown, err
	}
	if m.power == cloud.PowerRunning {
		c.record(ByCaller, EffectStop, string(m.id))
		c.turn(m, cloud.PowerStopping, cloud.PowerStopped, c.config.Latency.Stop)
	}
	return m.power, nil
}

// EnsureStarted requests the start. A stopping instance continues: call again.
func (c *ImageProvider) EnsureStarted(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	defer c.enter()()
	m, err := c.admitInstance(ctx, opEnsureStarted, id)
	if err != nil {
		return cloud.PowerUnknown, err
	}
	if m.power == cloud.PowerStopped {
		c.record(ByCaller, EffectStart, string(m.id))
		c.start(m)
	}
	return m.power, nil
}

// Restart requests the restart of a running instance.
func (c *ImageProvider) Restart(ctx context.Context, id cloud.InstanceID) error {
	defer c.enter()()
	m, err := c.admitInstance(ctx, opRestart, id)
	if err != nil {
		return err
	}
	if m.power != cloud.PowerRunning {
		return refused(cloud.Unavailable, opRestart, string(id), "IncorrectState", "the instance does not run")
	}
	c.record(ByCaller, EffectRestart, string(m.id))
	c.turn(m, cloud.PowerStarting, cloud.PowerRunning, c.config.Latency.Start)
	return nil
}

// start boots a machine.
func (c *machines) start(m *instance) {
	c.turn(m, cloud.PowerStarting, cloud.PowerRunning, c.config.Latency.Start)
}

// CapturesInPlace implements cloud.PoolProvider.
func (c *PoolProvider) CapturesInPlace() bool { return !c.config.NoInPlace }

// Protection returns an instance's protection from scale-in.
func (c *PoolProvider) Protection(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
	defer c.enter()()
	m, err := c.admitInstance(ctx, opProtection, id)
	if err != nil || c.config.NoHold {
		return cloud.Protection{}, err
	}
	return cloud.ProtectionOf(m.protected), nil
}

// ProtectFromScaleIn takes effect at once.
func (c *PoolProvider) ProtectFromScaleIn(ctx context.Context, id cloud.InstanceID, token string) error {
	return c.protect(ctx, opProtect, id, token, func(bool) bool { return true })
}

// Unprotect takes effect at once.
func (c *PoolProvider) Unprotect(ctx context.Context, id cloud.InstanceID, token string) error {
	return c.protect(ctx, opUnprotect, id, token, func(before bool) bool { return before })
}

// protect sets an instance's protection to the wanted value for its protection in the token.
func (c *machines) protect(ctx context.Context, op string, id cloud.InstanceID, token string, wanted func(before bool) bool) error {
	defer c.enter()()
	if err := c.admit(ctx, op, string(id)); err != nil {
		return err
	}
	if token == "" {
		return nil
	}
	before, err := cloud.ParseProtection(phrase(op), id, token)
	if err != nil {
		return err
	}
	m, err := c.find(op, id)
	if err != nil || c.config.NoHold || m.protected == wanted(before) {
		return err
	}
	m.protected = wanted(before)
	if m.protected {
		c.record(ByCaller, EffectProtect, string(m.id))
	} else {
		c.record(ByCaller, EffectUnprotect, string(m.id))
	}
	return nil
}
