package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// trialPrefix begins the IDs of trial instances outside any pool.
const trialPrefix = "memory:///trials/"

// trial is an unfinished trial.
type trial struct {
	name    string
	pool    cloud.PoolID
	version string
	inPool  bool
	// image is the version's image, and before the recipe's image before the trial.
	image, before string
	tags          map[string]string
	// open is true if the pool's recipe names the version for the trial.
	open bool
	// built are all instances of the trial, including removed instances.
	built []*instance
	// ending is true during the removal of the trial.
	ending bool
	// trouble is why the instance failed.
	trouble        string
	noRoom, blames bool
	// vacant is true if the cloud could not create the instance. The trouble is reported while the pool's recipe is
	// open.
	vacant bool
}

func (c *pools) findTrial(spec cloud.TrialSpec) *trial {
	for _, t := range c.trials {
		if t.name == spec.Name && samePool(t.pool, spec.Pool) {
			return t
		}
	}
	return nil
}

// openIn returns the trial with the pool's recipe open; nil if there is none.
func (c *pools) openIn(p *pool) *trial {
	for _, t := range c.trials {
		if t.open && t.pool == p.id && t.image == p.recipe.image {
			return t
		}
	}
	return nil
}

// left returns the remaining instances of a trial.
func (t *trial) left() []*instance {
	return slices.DeleteFunc(slices.Clone(t.built), func(m *instance) bool { return m.gone })
}

// view returns the state of the trial.
func (t *trial) view() cloud.Trial {
	left := t.left()
	view := cloud.Trial{State: cloud.Pending, Open: t.open, Trouble: t.trouble, NoRoom: t.noRoom, Blames: t.blames}
	for _, m := range left {
		view.Instances = append(view.Instances, m.view())
	}
	runs := slices.ContainsFunc(left, func(m *instance) bool { return m.power == cloud.PowerRunning && !m.removing })
	switch {
	case t.ending || len(left) > 0 && !slices.ContainsFunc(left, func(m *instance) bool { return !m.removing }):
		view.State = cloud.Deleting
	case runs:
		view.State = cloud.Complete
	case t.vacant && t.trouble == "":
		view.State = cloud.Pending
	case len(left) == 0:
		view.State = cloud.Failed
		if !t.vacant {
			view.Trouble, view.NoRoom, view.Blames = "", false, false
		}
	case t.trouble != "":
		view.State = cloud.Failed
	}
	return view
}

// PreflightTrial implements cloud.PoolProvider.
func (c *PoolProvider) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	defer c.enter()()
	if err := c.admit(ctx, opPreflightTrial, string(spec.Pool)); err != nil {
		return nil, err
	}
	p, err := c.findPool(opPreflightTrial, spec.Pool)
	if err != nil {
		return nil, err
	}
	found := slices.Concat(c.missingPermissions([]string{opEnsureTrial, opCloseTrial, opEndTrial}, p.spec.Name), c.noRoom())
	if !spec.InPool {
		return append(found, p.notCopyable(spec)...), nil
	}
	if spec.RemoveBootstrap && len(p.recipe.bootstrap) > 0 {
		found = append(found, cloud.Refuse(cloud.PromotionRemoves,
			"the promotion removes "+strings.Join(p.recipe.bootstrap, ", ")+" from the recipe, and a trial in the pool changes its image alone", "try versions apart"))
	}
	if p.spec.MaxSize > 0 && p.capacity >= p.spec.MaxSize {
		found = append(found, cloud.Refuse(cloud.PoolAtMaximum,
			fmt.Sprintf("pool %s has its maximum of %d nodes", p.spec.Name, p.spec.MaxSize), "raise it, or try versions apart"))
	}
	return append(found, p.rollRefusals()...), nil
}

// notCopyable refuses a pool whose new nodes need parts that the cloud does not return.
func (p *pool) notCopyable(spec cloud.TrialSpec) []cloud.Refusal {
	lacking := slices.Clone(p.spec.Unreadable)
	if len(spec.CustomData) > 0 {
		lacking = slices.DeleteFunc(lacking, func(part string) bool { return part == cloud.CustomData })
	}
	if spec.RemoveBootstrap || len(lacking) == 0 {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(cloud.PoolNotCopyable,
		"the cloud does not give out "+strings.Join(lacking, ", ")+" of pool "+p.spec.Name, "try versions in the pool")}
}

// Trial implements cloud.PoolProvider.
func (c *PoolProvider) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	defer c.enter()()
	if err := c.admit(ctx, opTrial, string(spec.Pool)); err != nil {
		return cloud.Trial{}, err
	}
	if t := c.findTrial(spec); t != nil {
		return t.view(), nil
	}
	return cloud.Trial{}, nil
}

// Trials implements cloud.PoolProvider.
func (c *PoolProvider) Trials(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error) {
	defer c.enter()()
	if err := c.admit(ctx, opTrials, ""); err != nil {
		return nil, err
	}
	var out []cloud.TrialSpec
	for _, t := range c.trials {
		if slices.ContainsFunc(pools, func(id cloud.PoolID) bool { return samePool(id, t.pool) }) {
			out = append(out, cloud.TrialSpec{
				ImageRef: cloud.ImageRef{Pool: t.pool, Version: t.version}, Name: t.name, InPool: t.inPool, Image: t.before, Tags: cloud.OwnerTags(t.tags),
			})
		}
	}
	return out, nil
}

// EnsureTrial implements cloud.PoolProvider. The instance boots within Latency.Start.
func (c *PoolProvider) EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	defer c.enter()()
	resource := string(spec.Pool)
	p, v, err := c.target(ctx, opEnsureTrial, spec.Pool, spec.Version)
	if err != nil {
		return cloud.Trial{}, err
	}
	if t := c.findTrial(spec); t != nil {
		return t.view(), nil
	}
	switch {
	case v == nil:
		return cloud.Trial{}, refused(cloud.NotFound, opEnsureTrial, resource, "ImageNotFound", fmt.Sprintf("version %s does not exist", spec.Version))
	case v.state != cloud.Complete:
		return cloud.Trial{}, refused(cloud.Conflict, opEnsureTrial, resource, "ImageNotReady", fmt.Sprintf("version %s is %s, not Complete", v.version, v.state))
	case len(c.noRoom()) > 0:
		return cloud.Trial{}, refused(cloud.QuotaExceeded, opEnsureTrial, resource, "OperationNotAllowed",
			fmt.Sprintf("the quota of %d instances is used up", c.config.Quota.Instances))
	}
	t := &trial{name: spec.Name, pool: p.id, version: v.version, inPool: spec.InPool, image: v.id, before: p.recipe.image, tags: maps.Clone(spec.Tags)}
	if spec.InPool {
		err = c.openTrial(p, t, spec)
	} else {
		err = c.buildApart(p, t, spec)
	}
	if err != nil {
		return cloud.Trial{}, err
	}
	c.bootTrial(t)
	return t.view(), nil
}

// buildApart creates an instance outside the pool.
func (c *pools) buildApart(p *pool, t *trial, spec cloud.TrialSpec) error {
	if found := p.notCopyable(spec); found != nil {
		return found[0].Error(phrases[opEnsureTrial], string(p.id))
	}
	bootstrap := slices.Clone(p.recipe.bootstrap)
	if spec.RemoveBootstrap {
		bootstrap = nil
	}
	owner := cloud.PoolID(trialPrefix + strings.ToLower(spec.Name))
	t.built = []*instance{c.make(&instance{
		id: instanceID(owner, "0"), owner: owner, diskGB: p.spec.DiskGB, image: t.image, builtFrom: t.version, bootstrap: bootstrap,
	})}
	c.trials = append(c.trials, t)
	c.record(ByCaller, EffectBeginTrial, t.name)
	return nil
}

// openTrial grows the pool by an instance of the version.
func (c *pools) openTrial(p *pool, t *trial, spec cloud.TrialSpec) error {
	conflict := func(message string) error {
		return refused(cloud.Conflict, opEnsureTrial, string(p.id), "PreconditionFailed", message+": look again")
	}
	other := slices.IndexFunc(c.trials, func(other *trial) bool { return other.inPool && other.pool == p.id })
	switch {
	case other >= 0:
		return conflict("trial " + c.trials[other].name + " is in the pool")
	case p.recipe.image != spec.Image || p.capacity != spec.Capacity:
		return conflict(fmt.Sprintf("the recipe names %s and the capacity is %d, not %s and %d", p.recipe.image, p.capacity, spec.Image, spec.Capacity))
	case slices.ContainsFunc(c.members(p), func(m *instance) bool { return m.image == t.image }):
		return conflict("the pool has instances of version " + t.version)
	case spec.RemoveBootstrap && len(p.recipe.bootstrap) > 0:
		return refused(cloud.Refused, opEnsureTrial, string(p.id), cloud.PromotionRemoves, "a trial in the pool removes nothing from the recipe")
	case p.spec.MaxSize > 0 && p.capacity >= p.spec.MaxSize:
		return refused(cloud.Invalid, opEnsureTrial, string(p.id), "InvalidParameter", fmt.Sprintf("the pool has its maximum size of %d", p.spec.MaxSize))
	}
	if err := p.mayWrite(opEnsureTrial); err != nil {
		return err
	}
	p.recipe.image, t.open = t.image, true
	p.capacity++
	c.trials = append(c.trials, t)
	c.record(ByCaller, EffectBeginTrial, t.name)
	c.build(p, c.freeName(p))
	return nil
}

// bootTrial starts the first instance of a trial, or injects a failure.
func (c *pools) bootTrial(t *trial) {
	m := t.built[0]
	if c.failing.trials == 0 {
		c.start(m)
		return
	}
	c.failing.trials--
	failing := c.failing
	if t.vacant = failing.vacant; t.vacant {
		c.drop(m)
	} else {
		c.turn(m, cloud.PowerStarting, cloud.PowerStopped, c.config.Latency.Start)
	}
	c.after(c.config.Latency.Start, func() { t.trouble, t.noRoom, t.blames = failing.trouble, failing.noRoom, failing.blames })
}

// StarveTrials makes the cloud fail to create the instances of the next n trials, with the message trouble. In the pool
// the place stays empty until the recipe is closed, and then the message is gone, as with Azure's scale sets.
//
// Source: Compute REST API, Virtual Machine Scale Sets, provisioningState; "Troubleshoot allocation failures".
func (c *machines) StarveTrials(n int, trouble string) {
	defer c.enter()()
	c.failing.trials, c.failing.trouble, c.failing.noRoom, c.failing.blames, c.failing.vacant = n, trouble, true, false, true
}

// FailTrials makes the instances of the next n trials fail with the message trouble. The message means missing capacity
// if noRoom is true, else a bad image.
func (c *machines) FailTrials(n int, trouble string, noRoom bool) {
	defer c.enter()()
	c.failing.trials, c.failing.trouble, c.failing.noRoom, c.failing.blames, c.failing.vacant = n, trouble, noRoom, !noRoom, false
}

// BreakTrials makes the instances of the next n trials fail with the message trouble, without a known cause.
func (c *machines) BreakTrials(n int, trouble string) {
	defer c.enter()()
	c.failing.trials, c.failing.trouble, c.failing.noRoom, c.failing.blames, c.failing.vacant = n, trouble, false, false, false
}

// CloseTrial implements cloud.PoolProvider.
func (c *PoolProvider) CloseTrial(ctx context.Context, spec cloud.TrialSpec) error {
	defer c.enter()()
	if err := c.admit(ctx, opCloseTrial, string(spec.Pool)); err != nil {
		return err
	}
	if t := c.findTrial(spec); t != nil {
		return c.closeTrial(t, spec.Image)
	}
	return nil
}

// closeTrial restores the image of the pool's recipe, unless another client has changed the recipe.
func (c *pools) closeTrial(t *trial, before string) error {
	if !t.open {
		return nil
	}
	p, err := c.findPool(opCloseTrial, t.pool)
	if err == nil && p.recipe.image == t.image {
		if err := p.mayWrite(opCloseTrial); err != nil {
			return err
		}
		p.recipe.image = before
		if t.vacant { // otherwise the pool would fill the place from the restored image
			p.capacity, t.vacant = max(0, p.capacity-1), false
		}
		c.record(ByCaller, EffectCloseTrial, t.name)
	}
	t.open = false
	return nil
}

// EndTrial implements cloud.PoolProvider. The trial is gone after Latency.Delete.
func (c *PoolProvider) EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	defer c.enter()()
	if err := c.admit(ctx, opEndTrial, string(spec.Pool)); err != nil {
		return cloud.Absent, err
	}
	t := c.findTrial(spec)
	if t == nil {
		return cloud.Absent, nil
	}
	if err := c.closeTrial(t, spec.Image); err != nil {
		return cloud.Absent, err
	}
	p, err := c.findPool(opEndTrial, t.pool)
	promoted := t.inPool && err == nil && p.recipe.image == t.image
	if !promoted {
		c.removeTrial(t, p)
	}
	if promoted || len(t.left()) == 0 {
		c.forgetTrial(t)
		return cloud.Absent, nil
	}
	return cloud.Deleting, nil
}

// removeTrial removes the instances of a trial, and shrinks the pool for a trial in the pool.
func (c *pools) removeTrial(t *trial, p *pool) {
	if !t.ending {
		c.record(ByCaller, EffectEndTrial, t.name)
	}
	t.ending = true
	for _, m := range t.left() {
		if m.removing {
			continue
		}
		m.removing = true
		if t.inPool && p != nil {
			p.capacity = max(0, p.capacity-1)
		}
		c.after(c.config.Latency.Delete, func() {
			if !m.gone {
				c.drop(m)
			}
			if len(t.left()) == 0 {
				c.forgetTrial(t)
			}
		})
	}
}

func (c *pools) forgetTrial(t *trial) {
	c.trials = slices.DeleteFunc(c.trials, func(other *trial) bool { return other == t })
}
