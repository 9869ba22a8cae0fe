package capture

import (
	"context"

	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/node/kured"
)

// KuredLockUnknown is the reason of an event: Kamino reserved a donor without knowledge of kured's lock. An unreadable
// lock does not block captures, because the cluster may have no kured.
const KuredLockUnknown = "KuredLockUnknown"

// KuredLockStale is the reason of condition Stalled: a capture waits for a kured lock whose Node does not exist.
const KuredLockStale = "KuredLockStale"

// lookKuredAgain reads kured's lock again before the cordon. Protect takes up to minutes in a cloud, and kured does not
// see our reservation. A later race is possible: decision 0011 in docs/contribute/decisions separates the hours of both.
func (e *Engine) lookKuredAgain(ctx context.Context, w *pass) error {
	f := &w.facts
	if !w.isHeld() || f.Donor.Cordoned || f.MustBoot() || f.Failed || f.Deleting || f.Donor.Node == plan.NodeGone || f.Donor.Patch == plan.PatchUnderWay {
		return nil
	}
	lock, err := kured.Read(ctx, e.Kube, e.Kured, e.now())
	w.preflight.kured, f.Queued = lock, lock.Node != ""
	return err
}
