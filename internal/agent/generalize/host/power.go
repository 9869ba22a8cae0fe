package host

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

const triggerPath = "proc/sysrq-trigger"

// powerOff syncs, remounts read-only and cuts the power with the kernel's SysRq. An orderly shutdown would run services that
// write again. Source: Linux, Documentation/admin-guide/sysrq.rst.
func (h *Host) powerOff(ctx context.Context, t *tree.Tree) error {
	// O_NONBLOCK: a file that is no trigger must not hang the run.
	f, err := t.OpenFile(triggerPath, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("the proof is reported, but the host cannot be powered off: %w", err)
	}
	defer f.Close()
	for _, order := range []string{"s", "u", "o"} {
		if order == "o" {
			h.awaitReadOnly(ctx, t)
		}
		if _, err := f.WriteString(order); err != nil {
			return fmt.Errorf("the proof is reported, but the host cannot be powered off (%q): %w", order, err)
		}
	}
	h.logf("ordered the power off")
	return nil
}

// awaitReadOnly waits shortly for the kernel's remount in the background. All data is already on the disk; the wait is
// optional.
func (h *Host) awaitReadOnly(ctx context.Context, t *tree.Tree) {
	for range 25 {
		if !ownFileSystem(t) || readOnly(t) || h.Wait(ctx, 200*time.Millisecond) != nil {
			return
		}
	}
}
