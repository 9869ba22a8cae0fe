package capture

import (
	"context"

	"github.com/kamino-dev/kamino/internal/kured"
)

// KuredLockUnknown is the reason of an event: a donor was taken though nobody can tell whether kured reboots a node.
const KuredLockUnknown = "KuredLockUnknown"

// lookKured finds the node for which kured holds its lock. A lock of which nothing can be told keeps no capture waiting,
// for kured may be no part of the cluster; that it was so is told.
func (e *Engine) lookKured(ctx context.Context, w *world) error {
	lock, err := kured.Read(ctx, e.Kube, e.Kured, e.now())
	w.kured = lock
	if lock.Node != "" {
		w.facts.Queued = true
	}
	return err
}
