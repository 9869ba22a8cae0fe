package capture

import (
	"context"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/selection"
)

// cannotEvict exceeds the number of pods on any node.
const cannotEvict = 1 << 20

// DisruptionCost returns the cost of draining a node: the number of evictions, plus cannotEvict if some pods cannot be
// evicted. For a leaving donor the cost includes the pods that are hard to move.
func (e *Engine) DisruptionCost(ctx context.Context, name string, settings v1alpha1.DrainSettings, leaves bool) (selection.DisruptionCost, error) {
	left, err := node.Left(ctx, e.Kube, name, settings, node.OwnPod{})
	if err != nil {
		return selection.DisruptionCost{}, err
	}
	found := selection.PodContext{}
	if leaves {
		if found, err = e.rooms().drain.podContext(ctx, left.Pods); err != nil {
			return selection.DisruptionCost{}, err
		}
	}
	b := selection.BurdenOf(left.Pods, found)
	if len(left.Stuck) > 0 || len(left.Protected) > 0 && !settings.Disrupt {
		b.Evictions += cannotEvict
	}
	return b, nil
}
