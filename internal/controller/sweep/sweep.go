// Package sweep returns nodes without a living capture to service, and removes pods, snapshots and Leases of such captures.
// The package reports nodes with a reservation that no Lease confirms, and leaves these nodes alone.
//
// The package decides only the time of a look. The nodes come from the
// controller's cache. A look lists the generalize pods. The package asks the cloud for snapshots and trials at the start,
// daily, and after a node or a capture is gone.
package sweep

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/reservations"
)

// Sweeper cleans up after lost captures. All fields are required unless the comment says otherwise.
type Sweeper struct {
	// Held lists the reserved nodes, and the pools of all nodes.
	Held func(context.Context) ([]reservations.Node, []cloud.PoolID, error)
	// Orphan is capture.Engine.Orphan.
	Orphan func(ctx context.Context, node string, holder v1alpha1.Holder) (capture.Result, error)
	// Sweep is capture.Engine.SweepLeftovers.
	Sweep func(ctx context.Context, pools []cloud.PoolID) ([]reservations.Leftover, error)
	// Places, if set, lists pools in the places where leftovers may be, without nodes too.
	Places func(context.Context) ([]cloud.PoolID, error)
	// Report, if set, receives a node that the sweep leaves alone, once, with the reason.
	Report func(n reservations.Node, why string)
	// Every is the time between two looks. Default: 2 minutes. Deep is the time between two looks for snapshots. Default:
	// 24 hours.
	Every, Deep time.Duration
	// Prototypes lists the UIDs of all Prototypes from a cache. Without Prototypes, only the deep look notices a lost
	// capture.
	Prototypes func(context.Context) ([]types.UID, error)
	// Soon is the time between two looks for lost captures. Default: 15 seconds.
	Soon time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	Log logr.Logger

	// deepAt is the time of the last look for snapshots. suspects are the nodes that seemed orphaned at the last look.
	deepAt   time.Time
	suspects map[string]v1alpha1.Holder
	captures captures
	// reported holds the nodes that Report has received, with their holder.
	reported map[string]v1alpha1.Holder
}

// NeedLeaderElection lets a manager start the Sweeper in one process only.
func (s *Sweeper) NeedLeaderElection() bool { return true }

// Start sweeps until the context ends. Start logs errors and tries again.
func (s *Sweeper) Start(ctx context.Context) error {
	every := s.Every
	if every == 0 {
		every = 2 * time.Minute
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	soon := time.NewTicker(cmp.Or(s.Soon, 15*time.Second))
	defer soon.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-soon.C:
			if !s.vanished(ctx) {
				continue
			}
		}
		if err := s.Pass(ctx); err != nil && ctx.Err() == nil {
			s.Log.Error(err, "the sweep failed", "retryAfter", every)
		}
	}
}

// Pass looks once, and advances each orphaned node without waiting. A node must seem orphaned at two looks in a row: the
// cache of Prototypes may be older than the cache of nodes.
func (s *Sweeper) Pass(ctx context.Context) error {
	nodes, pools, err := s.Held(ctx)
	if err != nil {
		return err
	}
	suspects, reported := map[string]v1alpha1.Holder{}, map[string]v1alpha1.Holder{}
	released := false
	for _, n := range nodes {
		why := skipReason(n)
		if n.State != reservations.Orphaned && why == "" {
			continue
		}
		suspects[n.Name] = n.Holder
		if before, seen := s.suspects[n.Name]; !seen || before != n.Holder {
			continue
		}
		if why != "" {
			reported[n.Name] = n.Holder
			s.report(n, why)
			continue
		}
		done, err := s.advance(ctx, n)
		if err != nil {
			s.Log.Error(err, "node is not returned to service yet", "node", n.Name, "holder", n.Holder.Name)
		}
		released = released || done
	}
	s.suspects, s.reported = suspects, reported
	if s.vanished(ctx) {
		released, pools = true, s.ofVanished(pools)
	}
	return s.leftovers(ctx, pools, released)
}

// skipReason returns why the sweep does not change a node without a known holder; empty if the sweep may change the node.
func skipReason(n reservations.Node) string {
	switch {
	case n.State == reservations.Unconfirmed:
		return fmt.Sprintf("node %s carries a reservation of %s that no Lease of Kamino confirms, and Kamino leaves the node alone: "+
			"find the writer of annotation %s, then run `kamino return-node %s --node-only`",
			n.Name, n.Holder.Brief(), v1alpha1.ReservationAnnotation, n.Name)
	case n.State == reservations.Orphaned && n.InService:
		return fmt.Sprintf("node %s takes pods, but its reservation of %s requires a reboot, and Kamino leaves the node alone: "+
			"run `kamino return-node %s` to reboot the node",
			n.Name, n.Holder.Brief(), n.Name)
	}
	return ""
}

// report reports such a node once.
func (s *Sweeper) report(n reservations.Node, why string) {
	if before, said := s.reported[n.Name]; said && before == n.Holder {
		return
	}
	s.Log.Info("leaves a node alone", "node", n.Name, "holder", n.Holder.Name, "why", why)
	if s.Report != nil {
		s.Report(n, why)
	}
}

// steps limits the steps for one node in a pass.
const steps = 20

func (s *Sweeper) advance(ctx context.Context, n reservations.Node) (done bool, err error) {
	for range steps {
		result, err := s.Orphan(ctx, n.Name, n.Holder)
		if err != nil {
			return false, err
		}
		if result.Done {
			s.Log.Info("returned a node of a lost capture to service", "node", n.Name, "holder", n.Holder.Name)
			return true, nil
		}
		if result.After > 0 {
			return false, nil
		}
	}
	return false, nil
}

func (s *Sweeper) leftovers(ctx context.Context, pools []cloud.PoolID, released bool) error {
	deep := s.Deep
	if deep == 0 {
		deep = 24 * time.Hour
	}
	now := time.Now()
	if s.Now != nil {
		now = s.Now()
	}
	if !released && now.Sub(s.deepAt) < deep {
		pools = nil
	} else {
		s.deepAt = now // also after an error: a cloud that refuses gets no request every few minutes
		if s.Places != nil {
			more, err := s.Places(ctx)
			if err != nil {
				return err
			}
			pools = reservations.Union(pools, more)
		}
	}
	left, err := s.Sweep(ctx, pools)
	if err != nil && len(left) == 0 {
		return err
	}
	for _, l := range left {
		s.Log.Info("removes a leftover of a lost capture", "kind", l.Kind, "name", l.Name, "prototype", l.Prototype)
	}
	if pools != nil && len(left) > 0 {
		s.deepAt = time.Time{} // look again: the image version from a snapshot goes first
	}
	return err
}
