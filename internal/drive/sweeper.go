package drive

import (
	"context"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/controller/sweep"
	"github.com/kamino-dev/kamino/internal/held"
	"github.com/kamino-dev/kamino/internal/nodecache"
)

// sweeper is what gives back, in a controller, what no Prototype owns.
func (k *Controller) sweeper(engine *capture.Engine, nodes *nodecache.Nodes) *sweep.Sweeper {
	return &sweep.Sweeper{
		Held:   func(ctx context.Context) ([]held.Node, []cloud.PoolID, error) { return k.reserved(ctx, nodes) },
		Orphan: engine.Orphan, Sweep: engine.SweepLeftovers, Now: k.Now, Log: k.Log.WithName("sweep"),
	}
}

// reserved finds the nodes that carry a reservation among those that are kept, and asks for the Prototypes only if
// there are any.
func (k *Controller) reserved(ctx context.Context, nodes *nodecache.Nodes) ([]held.Node, []cloud.PoolID, error) {
	var found []held.Node
	var captures *held.Captures
	pools := nodes.Pools()
	for _, pool := range pools {
		for _, n := range nodes.Of(pool) {
			if n.Annotations[v1alpha1.ReservationAnnotation] == "" {
				continue
			}
			if captures == nil {
				all, err := k.Cluster.Prototypes(ctx)
				if err != nil {
					return nil, nil, err
				}
				read := held.CapturesOf(all)
				captures = &read
			}
			if n, isHeld := captures.Of(n); isHeld {
				found = append(found, n)
			}
		}
	}
	return found, pools, nil
}
