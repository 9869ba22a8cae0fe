package policy

import (
	"context"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imagecount"
	"github.com/kamino-dev/kamino/internal/membership"
)

// errorLife is how long a look that failed stands for the next ones. A quiet cluster whose credential was
// taken away asks the cloud no more often than one whose credential works.
const errorLife = 10 * time.Minute

// passingLife is how long a look stands that failed by what passes by itself. It doubles with each further one, up to
// errorLife: in a cluster of many pools a start takes more reads than Azure grants at once, and has the others a few
// seconds later; and one answer that is lost must not keep a pool from going back for longer.
const passingLife = 5 * time.Second

// manyThrottled looks in a row are a cloud that has no time for us, not a moment's crowd.
const manyThrottled = 4

// Look is what the cloud said of a pool, and when.
type Look struct {
	Pool   cloud.Pool
	Images []cloud.Image
	At     time.Time
	// Spread is from how many images the pool's instances were built, by whoever listed them last.
	Spread imagecount.Count
	// Err is why the cloud could not be asked; then the rest is what was known before, if anything. It stands
	// until Again, and Passing counts how many looks in a row have failed by what passes by itself.
	Err     error
	Again   time.Time
	Passing int
}

// Known tells whether the cloud has ever said something.
func (l Look) Known() bool { return l.Pool.ID != "" }

// Looks keeps what the cloud said of pools: a decision is thought over far more often than the cloud changes
// its answer, and Azure counts each question. Safe for concurrent use; two who ask about one pool at once ask
// the cloud once.
type Looks struct {
	provider cloud.Provider
	now      func() time.Time

	mu    sync.Mutex
	pools map[cloud.PoolID]*entry
}

type entry struct {
	mu sync.Mutex
	Look
}

// failed keeps why a look failed, beside what was known.
func (e *entry) failed(err error, now time.Time) {
	e.Err = err
	pause := errorLife
	if cloud.Is(err, cloud.Throttled) || cloud.Is(err, cloud.Unavailable) {
		pause = min(passingLife<<min(e.Passing, 10), errorLife)
		e.Passing++
	} else {
		e.Passing = 0
	}
	e.Again = now.Add(max(pause, cloud.RetryAfter(err)))
}

// NewLooks asks the provider, at times that the clock tells.
func NewLooks(provider cloud.Provider, now func() time.Time) *Looks {
	return &Looks{provider: provider, now: now, pools: map[cloud.PoolID]*entry{}}
}

// At looks at a pool and its versions, unless what is known is younger than maxAge. Its error, which is in
// the Look too, is the cloud's.
func (l *Looks) At(ctx context.Context, id cloud.PoolID, maxAge time.Duration) (Look, error) {
	e := l.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := l.now()
	if e.Known() && now.Sub(e.At) < maxAge && e.Err == nil {
		return e.Look, nil
	}
	if e.Err != nil && e.Again.After(now) && maxAge > 0 {
		return e.Look, e.Err
	}
	pool, err := l.provider.Pool(ctx, id)
	var images []cloud.Image
	if err == nil {
		images, err = l.provider.Images(ctx, id)
	}
	if ctx.Err() != nil {
		return e.Look, ctx.Err() // says nothing of the cloud
	}
	if err != nil {
		e.failed(err, now)
		return e.Look, err
	}
	e.Look = Look{Pool: pool, Images: images, At: now, Spread: e.Spread}
	return e.Look, nil
}

// Prefetch has looks within the context it returns ask less of the cloud about each of many pools: cloud.PrefetchRecipes.
func (l *Looks) Prefetch(ctx context.Context, ids []cloud.PoolID) context.Context {
	listing, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return cloud.ContinueReadCache(ctx, cloud.ReadCacheOf(cloud.PrefetchRecipes(listing, l.provider, ids)))
}

// Counted takes over from how many images the pool's instances were built. Whoever lists them for another reason tells,
// so that nobody has to ask the cloud for it.
func (l *Looks) Counted(id cloud.PoolID, counted imagecount.Count) {
	e := l.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Spread = counted
}

// Last is what is known without asking anybody.
func (l *Looks) Last(id cloud.PoolID) Look {
	e := l.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Look
}

// Forget makes the next look ask the cloud, because something there was changed.
func (l *Looks) Forget(id cloud.PoolID) {
	e := l.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.At, e.Again = time.Time{}, time.Time{}
}

// Observe has what is known of a pool forgotten with each step of a capture of it: the steps are what changes its
// versions and its recipe. An engine is to tell it of its passes.
func (l *Looks) Observe(ctx context.Context, before, after *v1alpha1.Prototype) {
	if before.Status.Phase == after.Status.Phase {
		return
	}
	if of, err := membership.OfPrototype(ctx, l.provider, after, nil); err == nil && of.Pool != "" {
		l.Forget(of.Pool)
	}
}

// Keep drops what is known of all pools but these.
func (l *Looks) Keep(wanted func(cloud.PoolID) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.pools {
		if !wanted(id) {
			delete(l.pools, id)
		}
	}
}

func (l *Looks) entry(id cloud.PoolID) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pools[id] == nil {
		l.pools[id] = &entry{}
	}
	return l.pools[id]
}

// sharedLife is how old an answer may be for those who only watch which version is in use.
const sharedLife = 20 * time.Minute

// Provider is the provider whose looks at pools and single versions are answered from what is known already, if
// that is younger than twenty minutes: for whoever only watches, so that the cloud is not asked twice. It must not
// be used where anything is changed.
func (l *Looks) Provider() cloud.Provider { return &watching{l.provider, l} }

type watching struct {
	cloud.Provider
	looks *Looks
}

// Decorated implements cloud.Decorator: powers are the provider's own.
func (w *watching) Decorated() cloud.Provider { return w.Provider }

// Pool implements cloud.PoolProvider.
func (w *watching) Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error) {
	look, err := w.looks.At(ctx, id, sharedLife)
	return look.Pool, err
}

// Image implements cloud.ImageProvider.
func (w *watching) Image(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error) {
	look, err := w.looks.At(ctx, ref.Pool, sharedLife)
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
