package cli

import (
	"context"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/pool"
)

// pools finds the pools that a user names.
func (s *session) pools() *pool.Finder {
	return &pool.Finder{Cluster: s.cluster, Cloud: s.provider, Now: s.Now, Uncounted: func(err error) {
		s.note("The versions of the nodes are unknown: %s.", explain(err))
	}}
}

// lookBack finds the named pool and its history. keep is the number of versions that the next capture keeps; zero means the
// number of the last capture.
func (s *session) lookBack(ctx context.Context, name string, keep int) (*pool.Pool, history.History, error) {
	p, err := s.pools().Named(ctx, name)
	if err != nil {
		return nil, history.History{}, err
	}
	h, err := s.pools().History(ctx, p, keep)
	return p, h, err
}

// standings lists the pools, and the reserved nodes unless only names one pool. It lists the cluster's nodes once.
func (s *session) standings(ctx context.Context, only string, all []v1alpha1.Prototype) ([]pool.Status, print.ReservationReport, error) {
	finder := s.pools()
	if only != "" {
		standings, err := finder.Statuses(ctx, only)
		return standings, print.ReservationReport{}, err
	}
	counted := finder.Count()
	reserved, err := s.reservationReport(s.reservationClient().LookWith(ctx, all, counted.Add))
	if err != nil {
		return nil, reserved, err
	}
	standings, err := finder.StatusesOf(ctx, counted, "")
	return standings, reserved, err
}
