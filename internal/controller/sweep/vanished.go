package sweep

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// captures are the running captures that this process has seen. A client may strip the finalizer and delete a Prototype.
// Then a trial's instance or a snapshot stays, and the sweep asks the cloud at once.
type captures struct {
	mu      sync.Mutex
	working map[types.UID]cloud.PoolID
	// pools of lost captures, until the next request to the cloud.
	pools []cloud.PoolID
}

// Observe receives the passes of the engine: capture.Engine.Observe.
func (s *Sweeper) Observe(_ context.Context, _, after *v1alpha1.Prototype) {
	c := &s.captures
	c.mu.Lock()
	defer c.mu.Unlock()
	if after.Status.Terminal() || after.DeletionTimestamp != nil && len(after.Finalizers) == 0 {
		delete(c.working, after.UID)
		return
	}
	if c.working == nil {
		c.working = map[types.UID]cloud.PoolID{}
	}
	c.working[after.UID] = cloud.PoolID(after.Spec.PoolID)
}

// vanished reports whether a capture is lost and the cloud has not been asked yet.
func (s *Sweeper) vanished(ctx context.Context) bool {
	c := &s.captures
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.working) > 0 && s.Prototypes != nil {
		there, err := s.Prototypes(ctx)
		if err != nil {
			return false
		}
		for uid, pool := range c.working {
			if !slices.Contains(there, uid) {
				s.Log.Info("a capture is lost: looks for leftovers", "uid", uid, "pool", pool)
				delete(c.working, uid)
				c.pools = append(c.pools, pool)
			}
		}
	}
	return len(c.pools) > 0
}

// ofVanished adds the pools of lost captures, and forgets these pools.
func (s *Sweeper) ofVanished(pools []cloud.PoolID) []cloud.PoolID {
	c := &s.captures
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pool := range c.pools {
		if pool != "" && !slices.Contains(pools, pool) {
			pools = append(slices.Clone(pools), pool)
		}
	}
	c.pools = nil
	return pools
}
