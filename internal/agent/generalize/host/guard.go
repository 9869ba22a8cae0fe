package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

const (
	bootIDPath   = "proc/sys/kernel/random/boot_id"
	hostnamePath = "proc/sys/kernel/hostname"
	// begunPath marks, until the next boot, that a run has begun. /run is empty after every boot.
	begunPath = "run/kamino-generalize"
)

// guard refuses a run with another boot, Prototype or profile than the order's, or without a valid order. After the
// donor's reboot the kubelet runs the pod again; guard then ends the second run.
func (h *Host) guard(ctx context.Context, t *tree.Tree) error {
	s := h.Runner.Subject
	if s.Prototype == "" || s.UID == "" || s.BootID == "" {
		return refused("a live run needs the name and UID of the Prototype, and the boot ID of the order")
	}
	boot, err := readProc(t, bootIDPath)
	if err != nil {
		return refused("the host's boot ID cannot be read: %v", err)
	}
	if boot != s.BootID {
		return refused("the boot is %s, and the order was for boot %s: the host was restarted in between", boot, s.BootID)
	}
	order, err := h.API.Get(ctx, h.Order, h.Wait)
	if err != nil {
		return err
	}
	if err := h.Order.Check(order, s, h.Runner.Profile); err != nil {
		return err
	}
	h.Runner.Returning = generalize.MachineKey(t)
	if err := h.Runner.RefuseQuiet(t); err != nil {
		return err
	}
	if order.Spec.NodeName != "" {
		h.Runner.Names = append(h.Runner.Names, order.Spec.NodeName)
	}
	if name, err := readProc(t, hostnamePath); err == nil && name != "" {
		h.Runner.Names = append(h.Runner.Names, name)
	}
	return h.Runner.Refusals(t)
}

// begin creates a mark that only the first run of a boot can create. After an interrupted run only a restart repairs
// the host.
func begin(t *tree.Tree) error {
	f, err := t.OpenFile(begunPath, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return refused("a run has begun in this boot already (/%s exists)", begunPath)
	}
	if err != nil {
		return refused("the mark of a begun run cannot be made: %v", err)
	}
	return f.Close()
}

// readProc reads a short file of /proc. Files in /proc have size zero.
func readProc(t *tree.Tree, p string) (string, error) { return readUpTo(t, p, 4096) }

// readProcLong reads a list in /proc.
func readProcLong(t *tree.Tree, p string) (string, error) { return readUpTo(t, p, 1<<20) }

func readUpTo(t *tree.Tree, p string, limit int64) (string, error) {
	f, err := t.OpenFile(p, os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return "", fmt.Errorf("read /%s: %w", p, err)
	}
	return strings.TrimSpace(string(content)), nil
}
