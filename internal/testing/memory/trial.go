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

// trial is an unfinished trial or workshop.
type trial struct {
	name           string
	pool           cloud.PoolID
	version, image string
	// machineType is what the trial asked for; empty for the type of the pool.
	machineType string
	tags        map[string]string
	// built are all instances of the trial, including removed instances.
	built []*instance
	// isEnding is true during the removal of the trial.
	isEnding bool
	failure  TrialFailure
	// isWorkshop is true for a workshop, which has the form of a trial of the recipe's image.
	isWorkshop bool
}

func findTrial(all []*trial, pool cloud.PoolID, name string) *trial {
	for _, t := range all {
		if t.name == name && samePool(t.pool, pool) {
			return t
		}
	}
	return nil
}

// remaining returns the remaining instances of a trial.
func (t *trial) remaining() []*instance {
	return slices.DeleteFunc(slices.Clone(t.built), func(m *instance) bool { return m.gone })
}

// view returns the state of the trial.
func (t *trial) view() cloud.Trial {
	left := t.remaining()
	view := cloud.Trial{State: cloud.Pending, Trouble: t.failure.Trouble, LacksCapacity: t.failure.LacksCapacity, BlamesImage: t.failure.BlamesImage}
	for _, m := range left {
		view.Instances = append(view.Instances, m.view())
	}
	runs := slices.ContainsFunc(left, func(m *instance) bool { return m.power == cloud.PowerRunning && !m.removing })
	switch {
	case t.isEnding || len(left) > 0 && !slices.ContainsFunc(left, func(m *instance) bool { return !m.removing }):
		view.State = cloud.Deleting
	case runs:
		view.State = cloud.Complete
	case t.failure.Unfilled && (t.failure.Trouble == "" || t.failure.Retries):
		view.State = cloud.Pending
	case len(left) == 0:
		view.State = cloud.Failed
		if !t.failure.Unfilled {
			view.Trouble, view.LacksCapacity, view.BlamesImage = "", false, false
		}
	case t.failure.Trouble != "":
		view.State = cloud.Failed
	}
	return view
}

// PreflightTrial implements cloud.PoolProvider.
func (c *PoolProvider) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	defer c.enter()()
	p, err := c.admitPool(ctx, opPreflightTrial, spec.Pool)
	if err != nil {
		return nil, err
	}
	return slices.Concat(c.missingPermissions([]string{opEnsureTrial, opEndTrial}, p.spec.Name), c.lacksCapacity(),
		p.notCopyable(spec.RemoveBootstrap, spec.CustomData)), nil
}

// notCopyable refuses a pool whose new nodes need parts that the cloud does not return.
func (p *pool) notCopyable(removeBootstrap bool, customData []byte) []cloud.Refusal {
	lacking := slices.DeleteFunc(slices.Clone(p.spec.Unreadable), func(part string) bool { return !slices.Contains(p.recipe.bootstrap, part) })
	if len(customData) > 0 {
		lacking = slices.DeleteFunc(lacking, func(part string) bool { return part == cloud.CustomData })
	}
	if removeBootstrap || len(lacking) == 0 {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(cloud.PoolNotCopyable,
		"the cloud does not give out "+strings.Join(lacking, ", ")+" of pool "+p.spec.Name, "pass a copy, or set settings.trial.mode to Off")}
}

// Trial implements cloud.PoolProvider.
func (c *PoolProvider) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	defer c.enter()()
	if err := c.admit(ctx, opTrial, string(spec.Pool)); err != nil {
		return cloud.Trial{}, err
	}
	if t := findTrial(c.trials, spec.Pool, spec.Name); t != nil {
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
		if len(pools) > 0 {
			out = append(out, cloud.TrialSpec{
				ImageRef: cloud.ImageRef{Pool: t.pool, Version: t.version}, Name: t.name, Tags: cloud.OwnerTags(t.tags),
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
	if t := findTrial(c.trials, spec.Pool, spec.Name); t != nil {
		return t.view(), nil
	}
	switch {
	case v == nil:
		return cloud.Trial{}, refused(cloud.NotFound, opEnsureTrial, resource, "ImageNotFound", fmt.Sprintf("version %s does not exist", spec.Version))
	case v.state != cloud.Complete:
		return cloud.Trial{}, refused(cloud.Conflict, opEnsureTrial, resource, "ImageNotReady",
			fmt.Sprintf("version %s is %s, not Complete", v.version, v.state))
	case len(c.lacksCapacity()) > 0:
		return cloud.Trial{}, refused(cloud.QuotaExceeded, opEnsureTrial, resource, "OperationNotAllowed",
			fmt.Sprintf("the quota of %d instances is used up", c.config.Quota.Instances))
	}
	t := &trial{name: spec.Name, pool: p.id, version: v.version, image: v.id, machineType: spec.MachineType, tags: maps.Clone(spec.Tags)}
	if found := p.notCopyable(spec.RemoveBootstrap, spec.CustomData); found != nil {
		return cloud.Trial{}, found[0].Error(phrase(opEnsureTrial), string(p.id))
	}
	bootstrap := slices.Clone(p.recipe.bootstrap)
	if spec.RemoveBootstrap {
		bootstrap = nil
	}
	c.buildApart(p, t, trialPrefix, bootstrap)
	c.trials = append(c.trials, t)
	c.record(ByCaller, EffectBeginTrial, t.name)
	c.bootTrial(t, &c.failing.trials)
	return t.view(), nil
}

// buildApart creates an instance outside the pool.
func (c *pools) buildApart(p *pool, t *trial, prefix string, bootstrap []string) {
	owner := cloud.PoolID(prefix + strings.ToLower(t.name))
	t.built = []*instance{c.make(&instance{
		id: instanceID(owner, "0"), owner: owner, diskGB: p.spec.DiskGB, image: t.image, builtFrom: t.version, bootstrap: bootstrap,
	})}
}

// failingTrials are the next failures of trials or workshops.
type failingTrials struct {
	left int
	how  TrialFailure
}

// bootTrial starts the first instance of a trial, or injects a failure.
func (c *pools) bootTrial(t *trial, failing *failingTrials) {
	m := t.built[0]
	if only := failing.how.MachineType; failing.left == 0 || only != "" && only != t.machineType {
		c.start(m)
		return
	}
	failing.left--
	failure := failing.how
	if t.failure = (TrialFailure{Unfilled: failure.Unfilled, Retries: failure.Retries}); failure.Unfilled {
		c.drop(m)
	} else {
		c.turn(m, cloud.PowerStarting, cloud.PowerStopped, c.config.Latency.Start)
	}
	c.after(c.config.Latency.Start, func() { t.failure = failure })
}

// TrialFailure is how the instances of a trial fail, after Latency.Start.
type TrialFailure struct {
	// Trouble is the cloud's message. Without LacksCapacity and BlamesImage, the cause is unknown.
	Trouble                    string
	LacksCapacity, BlamesImage bool
	// Unfilled: the cloud creates no instance. Source: Compute REST API, Virtual Machine Scale Sets, provisioningState;
	// "Troubleshoot allocation failures". Retries: the cloud tries again and again, as Cluster API's provider for AWS does.
	Unfilled, Retries bool
	// MachineType is the only type whose trials fail; empty for all.
	MachineType string
}

// FailTrials makes the instances of the next n trials fail.
func (c *controls) FailTrials(n int, how TrialFailure) {
	defer c.enter()()
	c.failing.trials = failingTrials{n, how}
}

// EndTrial implements cloud.PoolProvider. The trial is gone after Latency.Delete.
func (c *PoolProvider) EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	defer c.enter()()
	if err := c.admit(ctx, opEndTrial, string(spec.Pool)); err != nil {
		return cloud.Absent, err
	}
	return c.end(findTrial(c.trials, spec.Pool, spec.Name)), nil
}

// end starts to remove a trial or a workshop; nil is none.
func (c *pools) end(t *trial) cloud.State {
	if t == nil {
		return cloud.Absent
	}
	c.removeTrial(t)
	if len(t.remaining()) == 0 {
		c.forgetTrial(t)
		return cloud.Absent
	}
	return cloud.Deleting
}

// removeTrial removes the instances of a trial.
func (c *pools) removeTrial(t *trial) {
	if kind := (map[bool]string{false: EffectEndTrial, true: EffectEndWorkshop})[t.isWorkshop]; !t.isEnding {
		c.record(ByCaller, kind, t.name)
	}
	t.isEnding = true
	for _, m := range t.remaining() {
		if m.removing {
			continue
		}
		m.removing = true
		c.after(c.config.Latency.Delete, func() {
			if !m.gone {
				c.drop(m)
			}
			if len(t.remaining()) == 0 {
				c.forgetTrial(t)
			}
		})
	}
}

func (c *pools) forgetTrial(t *trial) {
	isIt := func(other *trial) bool { return other == t }
	c.trials, c.workshops = slices.DeleteFunc(c.trials, isIt), slices.DeleteFunc(c.workshops, isIt)
}
