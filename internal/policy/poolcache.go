package policy

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// errorTTL is the lifetime of a failed look. Without changes, a cluster with a revoked credential calls the cloud no more
// often than a cluster with a valid credential.
const errorTTL = 10 * time.Minute

// transientTTL is the lifetime of a look with a transient error, doubled with each further error up to errorTTL. At a start,
// many pools need more reads than Azure grants, and a lost answer must not delay a rollback.
const transientTTL = 5 * time.Second

// manyThrottled is the number of throttled looks in a row after which Kamino treats the cloud as unavailable.
const manyThrottled = 4

// Freshness is the time of the cloud's last answer, and the error since then.
type Freshness struct {
	At time.Time
	// Err is the cloud's error; the last answer is older than Err. Err is valid until RetryAt. TransientErrors counts the
	// transient errors in a row.
	Err             error
	RetryAt         time.Time
	TransientErrors int
}

// PoolLook is the cloud's answer about a pool.
type PoolLook struct {
	Freshness
	Pool   cloud.Pool
	Images []cloud.Image
	// ImageCount counts the images of the pool's instances at the last list of instances.
	ImageCount imagecount.Count
}

// InstanceList is the cloud's list of a pool's instances. Callers must not change the slice. A dropped list is nil, and a list of
// an empty pool is not.
type InstanceList struct {
	Freshness
	Instances []cloud.Instance
}

// Known reports whether the cloud has ever answered.
func (l PoolLook) Known() bool { return l.Pool.ID != "" }

// PoolCache caches the cloud's answers about pools: Kamino decides far more often than the cloud's answers change, and Azure
// limits the requests. Safe for concurrent use; two concurrent callers for one pool cause one request.
type PoolCache struct {
	// Intents, if set, confirm an automatic rollback that is in progress by the tags. Any other is what a person writes: a
	// suspicion. Nil believes the tags.
	Intents *Intents
	// Listed, if set, receives each new list of a pool's instances, and must not keep the slice.
	Listed func(pool cloud.PoolID, instances []cloud.Instance)

	provider PoolReader
	now      func() time.Time

	mu    sync.Mutex
	pools map[cloud.PoolID]*poolEntry
}

type poolEntry struct {
	mu sync.Mutex
	PoolLook
	list InstanceList
	// listing is held during a list of instances.
	listing sync.Mutex
}

// answers reports whether the last answer or the last error serves a caller that accepts this age.
func (f *Freshness) answers(now time.Time, maxAge time.Duration) bool {
	if f.Err != nil {
		return f.RetryAt.After(now) && maxAge > 0
	}
	return !f.At.IsZero() && now.Sub(f.At) < maxAge
}

// failed records the error of a look, and keeps the last answer.
func (f *Freshness) failed(err error, now time.Time) {
	f.Err = err
	pause := errorTTL
	if cloud.Is(err, cloud.Throttled) || cloud.Is(err, cloud.Unavailable) {
		pause = min(transientTTL<<min(f.TransientErrors, 10), errorTTL)
		f.TransientErrors++
	} else {
		f.TransientErrors = 0
	}
	f.RetryAt = now.Add(max(pause, cloud.RetryAfter(err)))
}

// NewPoolCache returns a cache for the provider. now is the clock.
func NewPoolCache(provider PoolReader, now func() time.Time) *PoolCache {
	return &PoolCache{provider: provider, now: now, pools: map[cloud.PoolID]*poolEntry{}}
}

// At returns a pool and its versions, from the cache if the answer is younger than maxAge. The error, also in the PoolLook, is
// the cloud's.
func (l *PoolCache) At(ctx context.Context, id cloud.PoolID, maxAge time.Duration) (PoolLook, error) {
	e := l.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := l.now()
	if e.answers(now, maxAge) {
		return e.PoolLook, e.Err
	}
	pool, err := l.provider.Pool(ctx, id)
	var images []cloud.Image
	if err == nil {
		images, err = l.provider.Images(ctx, id)
	}
	if err == nil {
		images, err = l.believed(ctx, pool, images)
	}
	if ctx.Err() != nil {
		return e.PoolLook, ctx.Err() // shows nothing about the cloud
	}
	if err != nil {
		e.failed(err, now)
		return e.PoolLook, err
	}
	e.PoolLook = PoolLook{Freshness: Freshness{At: now}, Pool: pool, Images: images, ImageCount: e.ImageCount}
	return e.PoolLook, nil
}

// believed returns the versions without the time and the goal of a rollback that Kamino did not begin.
func (l *PoolCache) believed(ctx context.Context, pool cloud.Pool, images []cloud.Image) ([]cloud.Image, error) {
	back := history.RollingBack(pool, images)
	if back == nil || l.Intents == nil {
		return images, nil
	}
	began, err := l.Intents.began(ctx, pool.ID, *back)
	if err != nil || began {
		return images, err
	}
	images = slices.Clone(images)
	for i := range images {
		if images[i].Version == back.Version {
			images[i].Tags = maps.Clone(images[i].Tags)
			delete(images[i].Tags, cloud.TagRolledBackAt)
			delete(images[i].Tags, cloud.TagRolledBackTo)
		}
	}
	return images, nil
}

// Instances returns the pool's instances, from the cache if the list is younger than maxAge. All parts of a controller read
// one list. The error, also in the InstanceList, is the cloud's.
func (l *PoolCache) Instances(ctx context.Context, id cloud.PoolID, maxAge time.Duration) (InstanceList, error) {
	e := l.entry(id)
	e.listing.Lock()
	defer e.listing.Unlock()
	now := l.now()
	if list := l.LastInstances(id); list.answers(now, maxAge) {
		return list, list.Err
	}
	listing, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	instances, err := l.provider.Instances(listing, id)
	if ctx.Err() != nil {
		return l.LastInstances(id), ctx.Err() // shows nothing about the cloud
	}
	if err == nil && l.Listed != nil {
		l.Listed(id, instances)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.list.failed(err, now)
		return e.list, err
	}
	e.list = InstanceList{Freshness: Freshness{At: now}, Instances: append([]cloud.Instance{}, instances...)}
	e.ImageCount = imagecount.Of(cloud.Recipe{}, instances, l.provider.MaxImages(id)).Brief()
	return e.list, nil
}

// LastInstances returns the last list of instances without a request.
func (l *PoolCache) LastInstances(id cloud.PoolID) InstanceList {
	e := l.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.list
}

// Prefetch returns a context in which looks at many pools need fewer requests: cloud.PrefetchRecipes.
func (l *PoolCache) Prefetch(ctx context.Context, ids []cloud.PoolID) context.Context {
	listing, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return cloud.ContinueReadCache(ctx, cloud.ReadCacheOf(cloud.PrefetchRecipes(listing, l.provider, ids)))
}

// Last returns the last answer without a request.
func (l *PoolCache) Last(id cloud.PoolID) PoolLook {
	e := l.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.PoolLook
}

// Forget drops the age of an answer after a change in the cloud: the next look calls the cloud.
func (l *PoolCache) Forget(id cloud.PoolID) {
	e := l.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.At, e.RetryAt = time.Time{}, time.Time{}
}

// Observe forgets a pool with each new phase of a capture of the pool, because phases change versions and the recipe. The
// engine calls Observe after its passes.
func (l *PoolCache) Observe(ctx context.Context, before, after *v1alpha1.Prototype) {
	if before.Status.Phase == after.Status.Phase {
		return
	}
	if of, err := membership.OfPrototype(ctx, l.provider, after, nil); err == nil && of.Pool != "" {
		l.Forget(of.Pool)
	}
}

// Keep drops the answers about all pools without a wanted ID, and the instances of old lists: many instances need much
// memory.
func (l *PoolCache) Keep(wanted func(cloud.PoolID) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, e := range l.pools {
		switch {
		case !wanted(id):
			delete(l.pools, id)
		case e.mu.TryLock(): // a look at the pool may take a minute
			if l.now().Sub(e.list.At) > pollInterval {
				e.list.Instances, e.list.At = nil, time.Time{}
			}
			e.mu.Unlock()
		}
	}
}

func (l *PoolCache) entry(id cloud.PoolID) *poolEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pools[id] == nil {
		l.pools[id] = &poolEntry{}
	}
	return l.pools[id]
}

// sharedMaxAge is the age up to which an answer serves callers that only watch the version in use.
const sharedMaxAge = 20 * time.Minute

// Watcher answers Pool and Image from a PoolCache if the answer is younger than twenty minutes. Use a Watcher only to watch pools,
// and never for a change.
type Watcher struct {
	PoolReader
	looks *PoolCache
}

// Watcher returns the Watcher of the cache.
func (l *PoolCache) Watcher() *Watcher { return &Watcher{l.provider, l} }

// Pool implements PoolReader.
func (w *Watcher) Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error) {
	look, err := w.looks.At(ctx, id, sharedMaxAge)
	return look.Pool, err
}

// Image returns a version of a pool; without it, an Image without a state.
func (w *Watcher) Image(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error) {
	look, err := w.looks.At(ctx, ref.Pool, sharedMaxAge)
	if err != nil {
		return cloud.Image{}, err
	}
	for _, image := range look.Images {
		if image.Version == ref.Version {
			return image, nil
		}
	}
	return cloud.Image{ImageRef: ref, Version: ref.Version}, nil
}
