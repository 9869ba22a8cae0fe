package metrics

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

const (
	// lookEvery is the interval between two requests for the version in a pool's recipe, because a person may have rolled
	// back the recipe. On Azure a look through policy.PoolCache costs two or three requests: at most six per pool and hour.
	lookEvery = 30 * time.Minute
	// tick is the interval between two checks for due pools, and the longest wait of a new pool.
	tick = time.Minute
)

// Cloud has the calls of a cloud.Provider for the metrics of pools.
type Cloud interface {
	membership.Registry
	PoolName(id cloud.PoolID) string
	Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error)
	Image(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error)
}

// Observer watches the Prototypes that an engine passes, and their pools.
type Observer struct {
	metrics  *Metrics
	provider Cloud
	log      logr.Logger
}

// Observer returns an Observer. Only Start calls the provider, and seldom.
func (m *Metrics) Observer(provider Cloud, log logr.Logger) *Observer {
	return &Observer{metrics: m, provider: provider, log: log}
}

// Observe counts the changes of a pass: capture.Engine.Observe. Observe is quick and safe for concurrent use. Only a
// Prototype without a pool ID may need a request to the cloud.
func (o *Observer) Observe(ctx context.Context, before, after *v1alpha1.Prototype) {
	of, err := membership.OfPrototype(ctx, o.provider, after, nil)
	if err != nil || of.Pool == "" { // a refused Prototype may name an instance without a pool
		o.metrics.observe(before, after, after.Spec.Pool)
		return
	}
	name := o.provider.PoolName(of.Pool)
	changes := o.metrics.observe(before, after, name)
	o.metrics.pools.meet(of.Pool, name, after, changes.Ended != nil)
}

// NeedLeaderElection lets a manager start the Observer only in the process that runs captures.
func (o *Observer) NeedLeaderElection() bool { return true }

// Start looks at due pools until the context ends.
func (o *Observer) Start(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		o.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// round looks at all due pools. After a throttled or failed request, round waits for the next round.
func (o *Observer) round(ctx context.Context) {
	for ctx.Err() == nil {
		id, known, found := o.metrics.pools.next(o.metrics.now(), lookEvery)
		if !found {
			return
		}
		err := o.readRecipe(ctx, id, known)
		if err == nil || ctx.Err() != nil {
			continue
		}
		o.log.V(1).Info("the version of a pool's recipe is unknown", "pool", known.name, "error", err.Error())
		if cloud.Is(err, cloud.Throttled) || cloud.Is(err, cloud.Unavailable) {
			return
		}
	}
}

// readRecipe reads the version in the pool's recipe, and its age if unknown.
func (o *Observer) readRecipe(ctx context.Context, id cloud.PoolID, known pool) error {
	found, err := o.provider.Pool(ctx, id)
	if cloud.Is(err, cloud.NotFound) {
		o.metrics.pools.lost(id)
		return nil
	}
	if err != nil {
		return err
	}
	version := found.Recipe.Version
	builtAt := known.builtAt
	if version != known.version {
		if builtAt, err = o.builtAt(ctx, cloud.ImageRef{Pool: id, Version: version}); err != nil {
			return err
		}
	}
	o.metrics.pools.found(id, known, version, builtAt)
	return nil
}

// builtAt is the time of the version's capture.
func (o *Observer) builtAt(ctx context.Context, ref cloud.ImageRef) (time.Time, error) {
	if ref.Version == "" {
		return time.Time{}, nil
	}
	image, err := o.provider.Image(ctx, ref)
	if err != nil {
		return time.Time{}, err
	}
	return history.BuiltAt(image), nil
}
