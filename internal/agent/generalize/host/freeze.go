package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// goOn are the names of processes that go on: the network and the disks need them, and they write no files of their
// own. The kernel cuts names to 15 bytes.
var goOn = []string{"multipathd", "iscsid", "ovs-vswitchd", "ovsdb-server"}

// daemons begins the names of systemd's own daemons. They go on, too: systemd restarts a stopped one after three minutes
// (WatchdogSec). The journal is stopped as a unit; the others write to /run only.
const daemons = "systemd-"

// freeze stops all processes that could write after the search, except PID 1, kernel threads, the run with ancestors and pod,
// and goOn. A stopped process writes nothing, and systemd does not start the process again.
func (h *Host) freeze(ctx context.Context, t *tree.Tree) error {
	for range 50 {
		all, err := processes(t)
		if err != nil {
			return fmt.Errorf("look for writers: %w", err)
		}
		if !sameNamespace(all) {
			return errors.New("the host's processes are not visible, and could not be stopped: the pod needs the host's PID namespace")
		}
		doomed := writing(all, os.Getpid())
		if len(doomed) == 0 {
			h.logf("stopped %d other processes", len(h.frozen))
			return nil
		}
		for _, p := range doomed {
			if err := syscall.Kill(p.pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("stop process %d (%s): %w", p.pid, p.name, err)
			}
			if !slices.Contains(h.frozen, p.pid) {
				h.frozen = append(h.frozen, p.pid)
			}
		}
		if err := h.Wait(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("other processes of the host do not stop")
}

// thaw lets the stopped processes go on after a failure.
func (h *Host) thaw() {
	for _, pid := range slices.Backward(h.frozen) {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			h.logf("let process %d go on: %v", pid, err)
		}
	}
	h.frozen = nil
}

// writing returns the processes that can write and must not.
func writing(all []process, self int) []process {
	byPID := tableOf(all)
	own := byPID.lineOf(byPID[self])
	pod := byPID.shimOf(byPID[self])
	return slices.DeleteFunc(slices.Clone(all), func(p process) bool {
		return p.pid == 1 || p.kernel || p.stopped || strings.HasPrefix(p.name, daemons) || slices.Contains(goOn, p.name) || slices.Contains(own, p) ||
			pod != 0 && byPID.shimOf(p) == pod || slices.ContainsFunc(byPID.lineOf(p), func(above process) bool { return above.pid == self })
	})
}
