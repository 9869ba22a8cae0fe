package policy

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// growthPace is how often it is asked whether pods wait for nodes.
const growthPace = time.Minute

// watchGrowth asks for a pass when pods wait for nodes, so that pools may grow: an instance that never becomes a Node makes itself
// known by nothing else.
func (r *Reconciler) watchGrowth(ctx context.Context, q queue) error {
	if r.PodsWait == nil {
		return nil
	}
	go func() {
		tick := time.NewTicker(growthPace)
		defer tick.Stop()
		told := false
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			waits, err := r.PodsWait(ctx)
			if err != nil && !told && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "can't tell whether pods wait for nodes: that a pool grows is seen by the half-hourly look at it")
			}
			if told = err != nil; waits && r.Expect() {
				ask(q, false)
			}
		}
	}()
	return nil
}
