// Package sweep gives back what no Prototype owns any more: nodes whose capture is gone, and the pods, snapshots and Leases
// that such captures have left. It reports nodes that carry a reservation which no Lease confirms, and leaves them alone.
//
// It decides only when to look, and which of several donors is removed first. The nodes are those that the controller keeps anyway, and
// cost no request; the API server is asked for the generalize pods, and the cloud for snapshots and trials once at the start, once a day,
// after a node was given back, and once a capture has vanished.
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
	"github.com/kamino-dev/kamino/internal/reservations"
)

// Sweeper gives back. All fields are needed, but those that say otherwise.
type Sweeper struct {
	// Held lists the nodes that are held, and the pools that there are nodes of.
	Held func(context.Context) ([]reservations.Node, []cloud.PoolID, error)
	// Orphan is capture.Engine's.
	Orphan func(ctx context.Context, node string, holder v1alpha1.Holder) (capture.Result, error)
	// Sweep is capture.Engine's SweepLeftovers.
	Sweep func(ctx context.Context, pools []cloud.PoolID) ([]reservations.Leftover, error)
	// MaxConcurrent is how many nodes of the cluster may be out of service before the sweep begins to remove one; 1 if nil.
	MaxConcurrent func() int
	// Report, if set, is told once of a node to which nothing is done, and why.
	Report func(n reservations.Node, why string)
	// Every is the time between two looks: 2 minutes if zero. Deep is that between two looks for snapshots: 24 hours
	// if zero.
	Every, Deep time.Duration
	// Prototypes lists the UIDs of all from a cache. Without it a capture that vanishes is noticed by the deep look only.
	Prototypes func(context.Context) ([]types.UID, error)
	// Soon is the time between two looks for captures that have vanished: 15 seconds if zero.
	Soon time.Duration
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	Log logr.Logger

	// deepAt is when snapshots were looked for last; suspects are nodes that seemed orphaned at the last look.
	deepAt   time.Time
	suspects map[string]v1alpha1.Holder
	captures captures
	// reported are the nodes that Report was told of, with their holder.
	reported map[string]v1alpha1.Holder
}

// NeedLeaderElection makes a manager start this in one process only.
func (s *Sweeper) NeedLeaderElection() bool { return true }

// Start sweeps until the context ends. What fails is logged and tried again.
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
			s.Log.Error(err, "what no Prototype owns is not swept up", "retryAfter", every)
		}
	}
}

// Pass looks once, and moves each orphaned node on as far as it goes without waiting. A node must seem orphaned at
// two looks in a row: what is kept of Prototypes may be a moment behind what is kept of nodes.
func (s *Sweeper) Pass(ctx context.Context) error {
	nodes, pools, err := s.Held(ctx)
	if err != nil {
		return err
	}
	suspects, told := map[string]v1alpha1.Holder{}, map[string]v1alpha1.Holder{}
	gaveBack, removed := false, s.removes(nodes)
	for _, n := range nodes {
		why := leftAlone(n)
		if n.State != reservations.Orphaned && why == "" {
			continue
		}
		suspects[n.Name] = n.Holder
		if before, seen := s.suspects[n.Name]; !seen || before != n.Holder {
			continue
		}
		if why != "" {
			told[n.Name] = n.Holder
			s.report(n, why)
			continue
		}
		if n.Leaves && n.Name != removed {
			s.Log.V(1).Info("node is removed later", "node", n.Name, "holder", n.Holder.Name)
			continue
		}
		done, err := s.drive(ctx, n)
		if err != nil {
			s.Log.Error(err, "node is not given back yet", "node", n.Name, "holder", n.Holder.Name)
		}
		gaveBack = gaveBack || done
	}
	s.suspects, s.reported = suspects, told
	if s.vanished(ctx) {
		gaveBack, pools = true, s.ofVanished(pools)
	}
	return s.leftovers(ctx, pools, gaveBack)
}

// leftAlone says why nothing is done to a node though nobody is known to give it back; empty if that is not so.
func leftAlone(n reservations.Node) string {
	switch {
	case n.State == reservations.Unconfirmed:
		return fmt.Sprintf("node %s carries a reservation of %s that no Lease of Kamino's confirms, and Kamino leaves it alone: see who writes annotation %s, then run `kamino release-node %s --node-only`",
			n.Name, n.Holder.Brief(), v1alpha1.ReservationAnnotation, n.Name)
	case n.State == reservations.Orphaned && n.InService:
		return fmt.Sprintf("node %s takes pods under the boot that its reservation of %s says it must leave, and Kamino leaves it alone: `kamino release-node %s` has it go through a boot, or removed",
			n.Name, n.Holder.Brief(), n.Name)
	}
	return ""
}

// report tells of such a node once.
func (s *Sweeper) report(n reservations.Node, why string) {
	if before, said := s.reported[n.Name]; said && before == n.Holder {
		return
	}
	s.Log.Info("leaves a node alone", "node", n.Name, "holder", n.Holder.Name, "why", why)
	if s.Report != nil {
		s.Report(n, why)
	}
}

// removes names the one donor that may be removed now: one whose removal has begun, or the first by name while fewer nodes are
// held than may be; empty if there is none.
func (s *Sweeper) removes(nodes []reservations.Node) string {
	limit, holding, first := 1, 0, ""
	if s.MaxConcurrent != nil {
		limit = max(limit, s.MaxConcurrent())
	}
	for _, n := range nodes {
		switch {
		case leftAlone(n) != "":
		case n.State == reservations.ByCapture || n.State == reservations.ByReplacement:
			holding++
		case n.State == reservations.Orphaned && n.Removing:
			return n.Name
		case n.State == reservations.Orphaned && n.Leaves && (first == "" || n.Name < first):
			first = n.Name
		}
	}
	if holding >= limit {
		return ""
	}
	return first
}

// steps bounds what is done for one node in a pass.
const steps = 20

func (s *Sweeper) drive(ctx context.Context, n reservations.Node) (done bool, err error) {
	for range steps {
		result, err := s.Orphan(ctx, n.Name, n.Holder)
		if err != nil {
			return false, err
		}
		if result.Done {
			s.Log.Info("gave back a node whose capture is gone", "node", n.Name, "holder", n.Holder.Name)
			return true, nil
		}
		if result.After > 0 {
			return false, nil
		}
	}
	return false, nil
}

func (s *Sweeper) leftovers(ctx context.Context, pools []cloud.PoolID, gaveBack bool) error {
	deep := s.Deep
	if deep == 0 {
		deep = 24 * time.Hour
	}
	now := time.Now()
	if s.Now != nil {
		now = s.Now()
	}
	if !gaveBack && now.Sub(s.deepAt) < deep {
		pools = nil
	}
	if pools != nil {
		s.deepAt = now // also where it fails: a cloud that refuses is not asked every few minutes
	}
	left, err := s.Sweep(ctx, pools)
	if err != nil && len(left) == 0 {
		return err
	}
	for _, l := range left {
		s.Log.Info("removes what a capture has left that is gone", "kind", l.Kind, "name", l.Name, "prototype", l.Prototype)
	}
	if pools != nil && len(left) > 0 {
		s.deepAt = time.Time{} // look again: what it was made into goes first
	}
	return err
}
