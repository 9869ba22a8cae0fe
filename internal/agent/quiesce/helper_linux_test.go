package quiesce

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// prepare starts the helper.
func (m *machine) prepare() *hold {
	m.t.Helper()
	root, err := openRoot(m.dir)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = unix.Close(root) })
	h, err := prepare(m.t.Context(), opened(m.t, m.dir), root, order, m.start)
	if err != nil {
		m.t.Fatal(err)
	}
	return h
}

// memory returns the sizes of the helper's memory in KiB, by their names in proc_pid_status(5).
func (m *machine) memory() map[string]int {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.helper.Pid))
	if err != nil {
		m.t.Fatal(err)
	}
	sizes := map[string]int{}
	for line := range strings.Lines(string(status)) {
		if words := strings.Fields(line); len(words) == 3 && words[2] == "kB" {
			sizes[strings.TrimSuffix(words[0], ":")], _ = strconv.Atoi(words[1])
		}
	}
	return sizes
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755)
}

// TestHelperLost: a helper that is killed, stopped or ended at each step leaves a writable file system, and no copy in time. Either of
// run and guard suffices.
func TestHelperLost(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGTERM} {
		for _, step := range []string{"starting", "ready", "frozen", "frozen, without a guard"} {
			if testing.Short() && (s == syscall.SIGTERM || s == syscall.SIGSTOP && step != "frozen") {
				continue // waits for the guard
			}
			t.Run(fmt.Sprintf("%v, %s", s, step), func(t *testing.T) {
				t.Parallel() // mostly waits for the guard
				onBoth(t, func(t *testing.T, m *machine) {
					m.unguarded = strings.HasSuffix(step, "without a guard")
					lose := func() { m.signal(s) }
					start := m.start
					switch step {
					case "starting":
						m.Kernel = Linux{start: func(ctx context.Context, tr *tree.Tree, g guard) error { defer lose(); return start(ctx, tr, g) }}
					case "ready":
						// The clock is asked once before the helper starts, and again once it is ready.
						m.atLook = func() {
							if m.started == 1 {
								m.atLook = nil
								lose()
							}
						}
					}
					result, err := m.quiesce(func(State) *bool {
						if strings.HasPrefix(step, "frozen") {
							lose()
							return nil
						}
						return &yes
					})
					m.becomesWritable()
					if strings.HasPrefix(step, "frozen") && (result.InTime || err != nil) {
						t.Errorf("in time: %+v, %v", result, err)
					}
					if step == "ready" && (err != nil || !result.InTime || m.started != 2) {
						t.Errorf("not frozen by a second helper of %d: %+v, %v", m.started, result, err)
					}
				})
			})
		}
	}
}

// TestRunLost: the helper thaws at the end of the connection, as when the pod is killed.
func TestRunLost(t *testing.T) {
	onBoth(t, func(t *testing.T, m *machine) {
		m.unguarded = true
		h := m.prepare()
		if why, err := h.Freeze(); why != "" || err != nil || !m.isFrozen() {
			t.Fatalf("not frozen: %q, %v", why, err)
		}
		if err := h.conn.Close(); err != nil {
			t.Fatal(err)
		}
		m.becomesWritable()
	})
}

// TestRunStopped: without an answer or the run the helper thaws after a second.
func TestRunStopped(t *testing.T) {
	onBoth(t, func(t *testing.T, m *machine) {
		m.unguarded = true
		h := m.prepare()
		defer h.Close()
		if why, err := h.Freeze(); why != "" || err != nil || !m.isFrozen() {
			t.Fatalf("not frozen: %q, %v", why, err)
		}
		m.becomesWritable()
	})
}

// TestHelperNeedsNothing: while the file system is frozen all memory of the helper is locked, and no thread of it has a page fault. It
// thaws a file system that holds its own program.
func TestHelperNeedsNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, m *machine) {
		own := filepath.Join(m.dir, "helper")
		if err := copyFile(os.Args[0], own); err != nil {
			t.Fatal(err)
		}
		args := os.Args[0]
		os.Args[0] = own
		defer func() { os.Args[0] = args }()
		h := m.prepare()
		defer h.Close()
		if why, err := h.Freeze(); why != "" || err != nil {
			t.Fatalf("not frozen: %q, %v", why, err)
		}
		if memory := m.memory(); memory["VmRSS"] == 0 || memory["VmLck"] < memory["VmRSS"] {
			t.Errorf("not all memory of the helper is locked: %v KiB", memory)
		}
		if err := h.tell(msgAccepted); err != nil {
			t.Fatal(err)
		}
		got, open := <-h.messages
		if !open || got.late() != "" || got.faults != 0 {
			t.Errorf("%+v", got)
		}
		m.becomesWritable()
	})
}

// TestSectionAllocates holds that nothing between freeze and thaw allocates.
func TestSectionAllocates(t *testing.T) {
	const runs = 50
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	root, err := openRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	for range runs + 1 {
		if err := unix.Send(pair[1], []byte{mark, byte(msgAccepted)}, unix.MSG_DONTWAIT); err != nil {
			t.Fatal(err)
		}
	}
	s := &section{root: root, socket: pair[0]}
	if n := testing.AllocsPerRun(runs, func() { _ = s.run() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if s.in[1] != byte(msgAccepted) {
		t.Error("the answer was not received")
	}
}

// TestFrozenByAnother: a file system that another program froze in the meantime stays frozen by that program.
func TestFrozenByAnother(t *testing.T) {
	m := newMachine(t, "ext4")
	h := m.prepare()
	defer h.Close()
	fd, err := openRoot(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if errno := ioctl(fd, fiFreeze); errno != 0 {
		t.Fatal(errno)
	}
	if why, err := h.Freeze(); why != "" || err == nil || !strings.Contains(err.Error(), "fsfreeze --unfreeze /") {
		t.Errorf("%q, %v", why, err)
	}
	if !m.thaw() {
		t.Error("the other program's freeze has ended")
	}
}
