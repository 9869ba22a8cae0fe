package sweep

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// captures are those that this process has seen at work. One whose Prototype is gone without an end, because a client has stripped its
// finalizer, has left what it was at: a trial's instance, or a snapshot. The cloud is asked for that at once, and not once a day.
type captures struct {
	mu      sync.Mutex
	working map[types.UID]cloud.PoolID
	// pools of captures that have vanished, until the cloud was asked.
	pools []cloud.PoolID
}

// Observe is for capture.Engine's Observe.
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

// vanished tells whether a capture has vanished of which the cloud was not asked yet.
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
				s.Log.Info("a capture is gone without an end: looks for what it has left", "uid", uid, "pool", pool)
				delete(c.working, uid)
				c.pools = append(c.pools, pool)
			}
		}
	}
	return len(c.pools) > 0
}

// ofVanished are the pools with those of captures that have vanished, which are forgotten with that.
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
