package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// process is what /proc/PID/stat says of a process, as far as it matters here.
type process struct {
	pid, parent int
	name        string
	// started is its start in clock ticks after boot; with the PID it names a process for good.
	started string
}

// endContainers kills what is left of containers. They run on under their shims when kubelet and runtime
// are stopped: node agents that would write their state again while it is removed. The pod that this runs
// in is spared, with its shim and its pause container.
func (h *Host) endContainers(ctx context.Context, t *tree.Tree) error {
	for range 25 {
		all, err := processes(t)
		if err != nil {
			return fmt.Errorf("look for containers: %w", err)
		}
		if !sameNamespace(all) {
			if ownFileSystem(t) {
				return errors.New("the host's processes cannot be seen, so containers that write could not be ended: the pod needs the host's PID namespace")
			}
			h.say("the root is no running host's: there are no containers to end")
			return nil
		}
		doomed := ofContainers(all, os.Getpid())
		if len(doomed) == 0 {
			return nil
		}
		for _, pid := range doomed {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("end container process %d: %w", pid, err)
			}
		}
		h.say("ended %d container processes", len(doomed))
		if err := h.Wait(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("container processes do not end")
}

// processes reads the host's process table.
func processes(t *tree.Tree) ([]process, error) {
	entries, err := t.List("proc")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		stat, err := readProc(t, "proc/"+entry.Name()+"/stat")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // It has ended since.
		}
		if err != nil {
			return nil, err
		}
		if p, ok := parseStat(stat); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// parseStat reads proc_pid_stat(5). The name stands in brackets and may hold any bytes, brackets included.
func parseStat(stat string) (process, bool) {
	opened, closed := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if opened < 0 || closed < opened {
		return process{}, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(stat[:opened]))
	fields := strings.Fields(stat[closed+1:])
	if err != nil || len(fields) < 20 {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	// A zombie holds no file and writes nothing; it goes when its parent looks.
	if err != nil || fields[0] == "Z" {
		return process{}, false
	}
	return process{pid: pid, parent: parent, name: stat[opened+1 : closed], started: fields[19]}, true
}

// sameNamespace says whether the process table is that of our own PID namespace, so that a PID in it is
// one that we can signal. Signals to numbers of another namespace would hit strangers.
func sameNamespace(all []process) bool {
	content, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return false
	}
	own, ok := parseStat(string(content))
	return ok && own.pid == os.Getpid() && slices.Contains(all, own)
}

// shim says whether a process is what a runtime leaves behind as the parent of a pod's or a container's
// processes. The kernel cuts names to 15 bytes.
func shim(p process) bool { return strings.HasPrefix(p.name, "containerd-shim") || p.name == "conmon" }

// ofContainers returns shims and all their descendants but the shim that self runs under, in the order
// parents first, so that no shim has the time to report its container's end.
func ofContainers(all []process, self int) []int {
	byPID := map[int]process{}
	for _, p := range all {
		byPID[p.pid] = p
	}
	// shimOf walks up to the uppermost shim above a process.
	shimOf := func(p process) int {
		above := 0
		for range len(all) + 1 {
			if shim(p) {
				above = p.pid
			}
			parent, found := byPID[p.parent]
			if !found || parent.pid == p.pid {
				break
			}
			p = parent
		}
		return above
	}
	spared := shimOf(byPID[self])
	var shims, rest []int
	for _, p := range all {
		switch shimOf(p) {
		case 0, spared:
		case p.pid:
			shims = append(shims, p.pid)
		default:
			rest = append(rest, p.pid)
		}
	}
	return append(shims, rest...)
}
