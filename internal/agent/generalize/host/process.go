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

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// process has the needed fields of /proc/PID/stat.
type process struct {
	pid, parent int
	name        string
	// started is the start time in clock ticks after boot. With the PID it identifies a process.
	started string
	// stopped is true for a process that runs no instruction, and kernel for a thread of the kernel.
	stopped, kernel bool
}

// kernelThread is PF_KTHREAD. Source: Linux, include/linux/sched.h.
const kernelThread = 0x00200000

// endContainers kills remaining container processes. After kubelet and runtime stop, containers run on under their
// shims, and node agents would write their state again. The run's own pod is spared, with shim and pause container.
func (h *Host) endContainers(ctx context.Context, t *tree.Tree) error {
	for range 25 {
		all, err := processes(t)
		if err != nil {
			return fmt.Errorf("look for containers: %w", err)
		}
		if !sameNamespace(all) {
			if ownFileSystem(t) {
				return errors.New("the host's processes are not visible, and writing containers could not be ended: the pod needs the host's PID namespace")
			}
			h.logf("the root is no running host's: there are no containers to end")
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
		h.logf("ended %d container processes", len(doomed))
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
			continue // the process has ended
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

// parseStat parses proc_pid_stat(5). The name is in parentheses and may contain any bytes, including parentheses.
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
	// A zombie has no open files, and disappears when its parent waits.
	if err != nil || fields[0] == "Z" {
		return process{}, false
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	if err != nil {
		return process{}, false
	}
	return process{
		pid: pid, parent: parent, name: stat[opened+1 : closed], started: fields[19],
		stopped: fields[0] == "T" || fields[0] == "t", kernel: flags&kernelThread != 0,
	}, true
}

// sameNamespace reports whether the process table belongs to this process's PID namespace. A signal to a PID of another
// namespace would hit a foreign process.
func sameNamespace(all []process) bool {
	content, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return false
	}
	own, ok := parseStat(string(content))
	return ok && own.pid == os.Getpid() && slices.Contains(all, own)
}

// shim reports whether a process is a runtime's parent process of a pod or container. The kernel cuts names to 15
// bytes.
func shim(p process) bool { return strings.HasPrefix(p.name, "containerd-shim") || p.name == "conmon" }

// table is a process table by PID.
type table map[int]process

func tableOf(all []process) table {
	t := table{}
	for _, p := range all {
		t[p.pid] = p
	}
	return t
}

// lineOf returns a process and its ancestors.
func (t table) lineOf(p process) (line []process) {
	for range len(t) + 1 {
		line = append(line, p)
		parent, found := t[p.parent]
		if !found || parent.pid == p.pid {
			break
		}
		p = parent
	}
	return line
}

// shimOf returns the topmost shim at or above a process; 0 without a shim.
func (t table) shimOf(p process) (above int) {
	for _, p := range t.lineOf(p) {
		if shim(p) {
			above = p.pid
		}
	}
	return above
}

// ofContainers returns the shims with all descendants, except under the shim of self. Parents come first, so that no
// shim can report the end of its container.
func ofContainers(all []process, self int) []int {
	byPID := tableOf(all)
	spared := byPID.shimOf(byPID[self])
	var shims, rest []int
	for _, p := range all {
		switch byPID.shimOf(p) {
		case 0, spared:
		case p.pid:
			shims = append(shims, p.pid)
		default:
			rest = append(rest, p.pid)
		}
	}
	return append(shims, rest...)
}
