package policy

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// growthInterval is the interval between two checks for pods that wait for nodes.
const growthInterval = time.Minute

// watchGrowth requests a pass when pods wait for nodes, so that pools may grow. An instance that never becomes a Node gives
// no other sign.
func (r *Reconciler) watchGrowth(ctx context.Context, q queue) error {
	if r.PodsWait == nil {
		return nil
	}
	go func() {
		tick := time.NewTicker(growthInterval)
		defer tick.Stop()
		logged := false
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			waits, err := r.PodsWait(ctx)
			if err != nil && !logged && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "cannot list waiting pods: Kamino sees the growth of a pool by the half-hourly look only")
			}
			if logged = err != nil; waits && r.Expect() {
				ask(q, false)
			}
		}
	}()
	return nil
}
