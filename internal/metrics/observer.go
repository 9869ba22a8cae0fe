package metrics

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/membership"
)

const (
	// lookEvery is how often the cloud is asked which version a pool's recipe points at: it may have been
	// rolled back by somebody. On Azure a look through policy.Looks costs two requests, or three: at most six per
	// pool and hour.
	lookEvery = 30 * time.Minute
	// tick is how often it is seen which pools are due; a pool that became known waits no longer than this.
	tick = time.Minute
)

// Observer watches the Prototypes that an engine passes, and the pools that they are of.
type Observer struct {
	metrics  *Metrics
	provider cloud.Provider
	log      logr.Logger
}

// Observer makes one. The provider is asked seldom, through Start only.
func (m *Metrics) Observer(provider cloud.Provider, log logr.Logger) *Observer {
	return &Observer{metrics: m, provider: provider, log: log}
}

// Observe counts what a pass found and left of a Prototype. It is what capture.Engine.Observe wants: quick, and safe
// for concurrent use. Only for a Prototype that names no pool ID may the cloud be asked.
func (o *Observer) Observe(ctx context.Context, before, after *v1alpha1.Prototype) {
	news := o.metrics.observe(before, after)
	of, err := membership.OfPrototype(ctx, o.provider, after, nil)
	if err != nil || of.Pool == "" {
		return // a refused Prototype may name an instance of no pool
	}
	o.metrics.pools.meet(of.Pool, o.provider.PoolName(of.Pool), after, news.Ended != nil)
}

// NeedLeaderElection makes a manager start this only where the captures are carried out.
func (o *Observer) NeedLeaderElection() bool { return true }

// Start looks at the pools that are due until the context ends.
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

// round looks at every pool that is due. A cloud that throttles, or is away, is left alone until the next.
func (o *Observer) round(ctx context.Context) {
	for ctx.Err() == nil {
		id, known, found := o.metrics.pools.next(o.metrics.now(), lookEvery)
		if !found {
			return
		}
		err := o.look(ctx, id, known)
		if err == nil || ctx.Err() != nil {
			continue
		}
		o.log.V(1).Info("the version of a pool's recipe is unknown", "pool", known.name, "error", err.Error())
		if cloud.Is(err, cloud.Throttled) || cloud.Is(err, cloud.Unavailable) {
			return
		}
	}
}

// look asks which version the pool's recipe points at, and how old that is if nobody has said so yet.
func (o *Observer) look(ctx context.Context, id cloud.PoolID, known pool) error {
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

// builtAt is when the version was captured.
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
