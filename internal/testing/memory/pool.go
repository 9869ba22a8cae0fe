package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

type pool struct {
	id       cloud.PoolID
	spec     PoolSpec
	capacity int64
	refusals []cloud.Refusal
	recipe   recipe
	// warm is the warm pool; nil without one.
	warm *warmPool
	// next is the number of the next instance. Numbers are never reused.
	next int
	// rolls is true if the pool's policy updates running instances at each write.
	rolls bool
	// revision counts the writes of a pool that is an object (Objects).
	revision int64
}

func samePool(a, b cloud.PoolID) bool { return strings.EqualFold(string(a), string(b)) }

func (c *pools) findPool(op string, id cloud.PoolID) (*pool, error) {
	for _, p := range c.all {
		if samePool(p.id, id) {
			return p, nil
		}
	}
	return nil, refused(cloud.NotFound, op, string(id), "ResourceNotFound", "the pool does not exist")
}

// admitPool is admit and findPool.
func (c *pools) admitPool(ctx context.Context, op string, id cloud.PoolID) (*pool, error) {
	if err := c.admit(ctx, op, string(id)); err != nil {
		return nil, err
	}
	return c.findPool(op, id)
}

// mustPool is findPool for the test's side. An unknown pool panics, because the test is wrong.
func (c *pools) mustPool(id cloud.PoolID) *pool {
	p, err := c.findPool(opPool, id)
	if err != nil {
		panic(err)
	}
	return p
}

// AddPool adds a pool without instances and returns its ID. A duplicate name panics, because the test is wrong.
func (c *pools) AddPool(spec PoolSpec) cloud.PoolID {
	defer c.enter()()
	id := poolID(spec.Name)
	if _, err := c.findPool(opPool, id); err == nil {
		panic(fmt.Sprintf("memory: pool %s exists", id))
	}
	if spec.DiskGB == 0 {
		spec.DiskGB = 30
	}
	p := &pool{id: id, spec: spec, capacity: spec.Capacity, refusals: slices.Clone(spec.Refusals), next: 1}
	p.recipe = recipe{image: spec.Image, bootstrap: slices.Clone(spec.Bootstrap)}
	if p.recipe.image == "" {
		p.recipe.image = "generic"
	}
	if spec.Latest {
		p.recipe.image, c.family(c.familyOf(id)).defined = string(id), true
	}
	c.all = append(c.all, p)
	return id
}

// AddInstance adds a running instance, built from the current recipe, and raises the capacity if necessary. An unknown
// pool or a duplicate ID panics, because the test is wrong.
func (c *pools) AddInstance(id cloud.PoolID, name string) cloud.InstanceID {
	defer c.enter()()
	p := c.mustPool(id)
	if _, ok := c.lookup(c.instanceID(p.id, name)); ok {
		panic(fmt.Sprintf("memory: instance %s exists", c.instanceID(p.id, name)))
	}
	m := c.build(p, name)
	c.setPower(m, cloud.PowerRunning)
	p.capacity = max(p.capacity, int64(len(c.members(p))))
	return m.id
}

// build makes an instance that is off.
func (c *pools) build(p *pool, name string) *instance {
	m := c.make(&instance{
		id: c.instanceID(p.id, name), owner: p.id, stray: c.config.Apart, diskGB: p.spec.DiskGB,
		image: p.recipe.image, builtFrom: c.reportedVersion(p), bootstrap: slices.Clone(p.recipe.bootstrap),
	})
	return m
}

func (c *pools) members(p *pool) []*instance {
	var members []*instance
	for _, m := range c.instances {
		if m.owner == p.id {
			members = append(members, m)
		}
	}
	return members
}

// InstanceIDs returns the pool's instances in the order of creation.
func (c *pools) InstanceIDs(id cloud.PoolID) []cloud.InstanceID {
	defer c.enter()()
	var ids []cloud.InstanceID
	for _, m := range c.instances {
		if samePool(m.owner, id) {
			ids = append(ids, m.id)
		}
	}
	return ids
}

// Family implements cloud.PoolProvider, from the ID.
func (c *PoolProvider) Family(_ context.Context, id cloud.PoolID) (cloud.ImageFamily, error) {
	if !strings.HasPrefix(strings.ToLower(string(id)), poolPrefix) {
		return cloud.ImageFamily{}, refused(cloud.Unsupported, opPool, string(id), "ForeignPool", "not a pool of this cloud")
	}
	return c.familyOf(id), nil
}

// Pool returns a pool with its recipe. The ImageProvider find the version.
func (c *PoolProvider) Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error) {
	defer c.enter()()
	p, err := c.admitPool(ctx, opPool, id)
	if err != nil {
		return cloud.Pool{}, err
	}
	return c.poolView(p, c.recipeView(p)), nil
}

func (c *pools) poolView(p *pool, recipe cloud.Recipe) cloud.Pool {
	return cloud.Pool{
		ID: p.id, Name: p.spec.Name, Location: p.spec.Location, Capacity: p.capacity, MaxSize: p.spec.MaxSize,
		Traits: maps.Clone(p.spec.Traits), Family: c.familyOf(p.id), Recipe: recipe, Owner: p.spec.Owner, Refusals: slices.Concat(p.refusals, p.rollRefusals()),
		Warm: p.warmView(),
	}
}

// Scale sets the size of a pool, as the user's client does, and creates the missing instances at once; they boot within
// Latency.Start. It also replaces instances missing before.
func (c *pools) Scale(id cloud.PoolID, to int64) error {
	const op = "Scale"
	defer c.enter()()
	p := c.mustPool(id)
	switch {
	case to < p.capacity:
		return refused(cloud.Invalid, op, string(id), "InvalidParameter", fmt.Sprintf("%d is less than %d: see ScaleIn", to, p.capacity))
	case p.spec.MaxSize > 0 && to > p.spec.MaxSize:
		return refused(cloud.Invalid, op, string(id), "InvalidParameter",
			fmt.Sprintf("%d is more than the pool's maximum size of %d", to, p.spec.MaxSize))
	case c.config.Quota.Instances > 0 && int64(len(c.instances)-len(c.members(p)))+to > int64(c.config.Quota.Instances):
		return refused(cloud.QuotaExceeded, op, string(id), "OperationNotAllowed",
			fmt.Sprintf("the quota of %d instances is used up", c.config.Quota.Instances))
	case c.config.MaxImages > 0 && c.countImages(p) > c.config.MaxImages:
		return refused(cloud.QuotaExceeded, op, string(id), "OperationNotAllowed",
			fmt.Sprintf("the instances of a pool may have been built from %d images", c.config.MaxImages))
	}
	p.capacity = to
	c.record(ByStranger, EffectScale, string(p.id))
	c.roll(p)
	for int64(len(c.members(p))) < to {
		m := c.build(p, c.freeName(p))
		if p.warm != nil && len(p.warm.instances) > 0 { // the next node comes from the warm pool
			m.image = p.warm.instances[0].image
			m.builtFrom, _ = versionIn(c.familyOf(p.id), m.image)
			p.warm.instances = p.warm.instances[1:]
		}
		c.start(m)
	}
	if p.warm != nil {
		c.balanceWarm(p)
	}
	return nil
}

func (c *pools) freeName(p *pool) string {
	for {
		name := strconv.Itoa(p.next)
		p.next++
		if _, taken := c.lookup(c.instanceID(p.id, name)); !taken {
			return name
		}
	}
}

// SetMaxSize sets the largest capacity of a pool; 0 if unknown to the cloud. The pool does not change.
func (c *pools) SetMaxSize(id cloud.PoolID, most int64) {
	defer c.enter()()
	c.mustPool(id).spec.MaxSize = most
}

const opPoolsInScope = "PoolsInScope"

// PoolsInScope implements cloud.PoolProvider. All pools are in one place.
func (c *PoolProvider) PoolsInScope(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error) {
	defer c.enter()()
	if err := c.admit(ctx, opPoolsInScope, ""); err != nil || len(pools) == 0 {
		return nil, err
	}
	var found []cloud.PoolID
	for _, p := range c.all {
		found = append(found, p.id)
	}
	return found, nil
}

// ReadPool implements cloud.PoolProvider.
func (c *PoolProvider) ReadPool(text string) (cloud.PoolID, bool) {
	name, ok := strings.CutPrefix(strings.ToLower(text), poolPrefix)
	return poolID(name), ok && name != "" && !strings.Contains(name, "/")
}
