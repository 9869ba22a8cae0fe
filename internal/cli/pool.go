package cli

import (
	"context"

	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/pool"
)

// pools finds the pools that a person means.
func (s *session) pools() *pool.Finder {
	return &pool.Finder{Cluster: s.cluster, Cloud: s.provider, Now: s.Now, Uncounted: func(err error) {
		s.note("Which nodes run which version can't be told: %s.", explain(err))
	}}
}

// lookBack finds the pool that a person means, and tells its history as of a capture that keeps so many; as of its last one if
// that is zero.
func (s *session) lookBack(ctx context.Context, name string, keep int) (*pool.Pool, history.History, error) {
	p, err := s.pools().Named(ctx, name)
	if err != nil {
		return nil, history.History{}, err
	}
	h, err := s.pools().History(ctx, p, keep)
	return p, h, err
}
