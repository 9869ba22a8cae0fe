package capture

import (
	"context"

	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/kured"
)

// KuredLockUnknown is the reason of an event: a donor was taken though nobody can tell whether kured reboots a node. A lock of
// which nothing can be told keeps no capture waiting, for kured may be no part of the cluster; that it was so is told.
const KuredLockUnknown = "KuredLockUnknown"

// KuredLockStale is the reason of condition Stalled: a capture waits for a lock of kured whose Node does not exist.
const KuredLockStale = "KuredLockStale"

// lookKuredAgain looks once more while the donor is reserved and has lost nothing yet: to protect it takes a cloud up to
// minutes, in which kured may have taken a node. It sees no reservation of ours; what is behind this look is left to the
// hours that the two are given (docs/decisions/0011).
func (e *Engine) lookKuredAgain(ctx context.Context, w *observed) error {
	f := &w.facts
	if !w.held() || f.Cordoned || f.MustBoot() || f.Failed || f.Deleting || f.Node == plan.NodeGone {
		return nil
	}
	lock, err := kured.Read(ctx, e.Kube, e.Kured, e.now())
	w.kured, f.Queued = lock, lock.Node != ""
	return err
}
