package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// workshopPrefix begins the IDs of the instances of workshops.
const workshopPrefix = "memory:///workshops/"

const (
	opPreflightWorkshop = "PreflightWorkshop"
	opWorkshop          = "Workshop"
	opWorkshops         = "Workshops"
	opEnsureWorkshop    = "EnsureWorkshop"
	opEndWorkshop       = "EndWorkshop"
)

// workshopCalls are the writes that a workshop needs.
var workshopCalls = []string{opEnsureWorkshop, opEndWorkshop}

// CanBuildWorkshops implements cloud.PoolProvider.
func (c *PoolProvider) CanBuildWorkshops() bool { return !c.config.NoCopy }

// noCopy is the error of a cloud without captures by copy.
func noCopy(op, resource string) error {
	return refused(cloud.Unsupported, op, resource, "NoCopy", "this cloud has no captures by copy")
}

// PreflightWorkshop implements cloud.PoolProvider.
func (c *PoolProvider) PreflightWorkshop(ctx context.Context, spec cloud.WorkshopSpec) ([]cloud.Refusal, error) {
	defer c.enter()()
	p, err := c.admitPool(ctx, opPreflightWorkshop, spec.Pool)
	switch {
	case err != nil:
		return nil, err
	case c.config.NoCopy:
		return nil, noCopy(opPreflightWorkshop, string(spec.Pool))
	}
	return slices.Concat(c.missingPermissions(slices.Concat(workshopCalls, copyCalls), p.spec.Name), c.lacksCapacity(),
		p.notCopyable(false, spec.CustomData)), nil
}

// Workshop implements cloud.PoolProvider.
func (c *PoolProvider) Workshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
	defer c.enter()()
	if err := c.admit(ctx, opWorkshop, spec.Name); err != nil {
		return cloud.Trial{}, err
	}
	if w := findTrial(c.workshops, spec.Pool, spec.Name); w != nil {
		return w.view(), nil
	}
	return cloud.Trial{}, nil
}

// Workshops implements cloud.PoolProvider.
func (c *PoolProvider) Workshops(ctx context.Context, pools ...cloud.PoolID) ([]cloud.WorkshopSpec, error) {
	defer c.enter()()
	if err := c.admit(ctx, opWorkshops, ""); err != nil {
		return nil, err
	}
	var out []cloud.WorkshopSpec
	for _, w := range c.workshops {
		if len(pools) > 0 {
			out = append(out, cloud.WorkshopSpec{Pool: w.pool, Name: w.name, Tags: cloud.OwnerTags(w.tags)})
		}
	}
	return out, nil
}

// EnsureWorkshop implements cloud.PoolProvider. The instance boots within Latency.Start.
func (c *PoolProvider) EnsureWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
	defer c.enter()()
	p, err := c.admitPool(ctx, opEnsureWorkshop, spec.Pool)
	switch {
	case err != nil:
		return cloud.Trial{}, err
	case c.config.NoCopy:
		return cloud.Trial{}, noCopy(opEnsureWorkshop, spec.Name)
	}
	if w := findTrial(c.workshops, spec.Pool, spec.Name); w != nil {
		return w.view(), nil
	}
	if len(c.lacksCapacity()) > 0 {
		return cloud.Trial{}, refused(cloud.QuotaExceeded, opEnsureWorkshop, spec.Name, "OperationNotAllowed",
			fmt.Sprintf("the quota of %d instances is used up", c.config.Quota.Instances))
	}
	if found := p.notCopyable(false, spec.CustomData); found != nil {
		return cloud.Trial{}, found[0].Error(phrase(opEnsureWorkshop), string(p.id))
	}
	w := &trial{name: spec.Name, pool: p.id, version: c.reportedVersion(p), image: p.recipe.image, tags: maps.Clone(spec.Tags), isWorkshop: true}
	c.buildApart(p, w, workshopPrefix, slices.Clone(p.recipe.bootstrap))
	c.workshops = append(c.workshops, w)
	c.record(ByCaller, EffectBeginWorkshop, w.name)
	c.bootTrial(w, &c.failing.workshops)
	return w.view(), nil
}

// EndWorkshop implements cloud.PoolProvider. The workshop is gone after Latency.Delete.
func (c *PoolProvider) EndWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.State, error) {
	defer c.enter()()
	if err := c.admit(ctx, opEndWorkshop, spec.Name); err != nil {
		return cloud.Absent, err
	}
	return c.end(findTrial(c.workshops, spec.Pool, spec.Name)), nil
}

// FailWorkshops makes the instances of the next n workshops fail.
func (c *controls) FailWorkshops(n int, how TrialFailure) {
	defer c.enter()()
	c.failing.workshops = failingTrials{n, how}
}

// isApart reports whether an ID belongs to an instance outside any pool.
func isApart(id cloud.InstanceID) bool {
	text := strings.ToLower(string(id))
	return strings.HasPrefix(text, trialPrefix) || strings.HasPrefix(text, workshopPrefix)
}
