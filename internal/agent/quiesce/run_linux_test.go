package quiesce

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

var yes, no = true, false

// onBoth runs a test with both file systems.
func onBoth(t *testing.T, test func(t *testing.T, m *machine)) {
	t.Helper()
	for kind := range fileSystems {
		t.Run(kind, func(t *testing.T) { test(t, newMachine(t, kind)) })
	}
}

// TestMoment: at the moment of the copy the file system is frozen, and a copy has the nonce and an unsynced file without a replay of its
// journal. The answer ends the freeze, and so does the lack of an answer. Only an accepted copy is in time.
func TestMoment(t *testing.T) {
	for name, answer := range map[string]*bool{"accepted": &yes, "refused": &no, "no answer": nil} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, m *machine) {
				unsynced := "unsynced-" + strings.Repeat(name[:1], 100)
				plantIn(t, m.dir, map[string]string{"var/lib/layer": unsynced})
				copied := m.image + ".copy"
				result, err := m.quiesce(func(s State) *bool {
					if !s.Frozen || s.NotFrozen != "" || !m.isFrozen() {
						t.Errorf("not frozen: %+v", s)
					}
					m.copyTo(copied)
					return answer
				})
				m.becomesWritable()
				holds := map[string]string{NonceDir + "/" + order: nonce + "\n", "var/lib/layer": unsynced}
				if diff := cmp.Diff(holds, m.readCopy(copied, false, slices.Collect(maps.Keys(holds))...)); diff != "" {
					t.Errorf("the copy (-want +got):\n%s", diff)
				}
				if err != nil || !result.Frozen || result.InTime != (answer == &yes) || (result.Late == "") != result.InTime {
					t.Errorf("%+v, %v", result, err)
				}
				if result.FrozenFor <= 0 || result.FrozenFor > freezeLimit {
					t.Errorf("frozen for %v", result.FrozenFor)
				}
				out, err := exec.CommandContext(t.Context(), "blkid", "-p", "-s", "UUID", "-o", "value", m.image).Output()
				if err != nil {
					t.Fatal(err)
				}
				want := Disk{
					BootID: "6d4f8b6e-0000-4000-8000-000000000001", MachineID: "0123456789abcdef0123456789abcdef",
					RootUUID: strings.TrimSpace(string(out)), FileSystem: m.kind, RootDevice: "/dev/vda1",
				}
				if diff := cmp.Diff(want, result.Disk, cmp.AllowUnexported(Disk{})); diff != "" {
					t.Errorf("the disk (-want +got):\n%s", diff)
				}
				if m.nonceFile() != nonce+"\n" || len(m.waits) > 0 {
					t.Errorf("the nonce file holds %q; waited for %q", m.nonceFile(), m.waits)
				}
			})
		})
	}
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
					start := m.Donor.start
					switch step {
					case "starting":
						m.Donor.start = func(ctx context.Context, tr *tree.Tree, g guard) error { defer lose(); return start(ctx, tr, g) }
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
		if why, err := h.freeze(); why != "" || err != nil || !m.isFrozen() {
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
		defer h.close()
		if why, err := h.freeze(); why != "" || err != nil || !m.isFrozen() {
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
		defer h.close()
		if why, err := h.freeze(); why != "" || err != nil {
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

// TestSlowFlush: a helper that has waited too long for a slow disk is started again.
func TestSlowFlush(t *testing.T) {
	m := newMachine(t, "ext4")
	m.atLook = func() {
		if m.started == 1 {
			m.atLook = nil
			m.over.Wait() // the helper does not wait as long as this
		}
	}
	result, err := m.quiesce(func(State) *bool { return &yes })
	if err != nil || !result.Frozen || !result.InTime || m.started != 2 {
		t.Errorf("%+v, %v, %d helpers", result, err, m.started)
	}
	if testing.Short() {
		return
	}
	// A helper that always ends is no reason to go on for ever.
	m.atLook = func() {
		if m.started > 2 {
			m.over.Wait()
		}
	}
	m.Name = "another"
	if result, err = m.quiesce(func(State) *bool { t.Error("the copy may be taken"); return nil }); !errors.Is(err, errNotFrozen) || m.started != 2+maxAttempts {
		t.Errorf("%+v, %v, %d helpers", result, err, m.started)
	}
	m.becomesWritable()
	if _, err := os.Stat(filepath.Join(m.dir, NonceDir, "another")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the nonce stays: %v", err)
	}
}

// TestBusy: a node that stays busy is left as it is. No helper is started.
func TestBusy(t *testing.T) {
	m := newMachine(t, "ext4")
	locker(t, filepath.Join(m.dir, "var/lib/dpkg/lock-frontend"), "write")
	m.Wait = 5 * time.Second
	now := time.Now()
	m.Now = func() time.Time { return now }
	m.Sleep = func(ctx context.Context, d time.Duration) error { now = now.Add(d); return ctx.Err() }
	result, err := m.quiesce(func(State) *bool { t.Error("the copy may be taken"); return nil })
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Waited != m.Wait || busy.ExitCode() != 3 || !strings.Contains(err.Error(), "DonorBusy") {
		t.Errorf("%+v, %v", result, err)
	}
	want := "a program holds /var/lib/dpkg/lock-frontend: it changes packages"
	if len(m.waits) != 1 || m.waits[0] != want || m.started != 0 {
		t.Errorf("waited for %q, %d helpers", m.waits, m.started)
	}
	if _, err := os.Stat(filepath.Join(m.dir, "var/lib/kamino")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was made: %v", err)
	}
}

// TestBusyAgain: a program that begins while the helper starts is waited for, and the nonce is written again after it.
func TestBusyAgain(t *testing.T) {
	m := newMachine(t, "ext4")
	end := func() {}
	m.atStart = func() {
		if m.started == 0 {
			_, end = locker(t, filepath.Join(m.dir, "var/lib/dpkg/lock-frontend"), "write")
		}
	}
	m.Sleep = func(ctx context.Context, _ time.Duration) error {
		if m.nonceFile() != "" {
			t.Error("the nonce is on the disk of a busy node")
		}
		end()
		return ctx.Err()
	}
	result, err := m.quiesce(func(State) *bool { return &yes })
	if err != nil || !result.Frozen || !result.InTime || len(m.waits) != 1 || m.started != 2 {
		t.Errorf("%+v, %v; waited for %q, %d helpers", result, err, m.waits, m.started)
	}
	m.becomesWritable()
}

// TestNever: without a freeze the disk is flushed, and a program that begins at the moment of the copy spoils it.
func TestNever(t *testing.T) {
	for name, disturbed := range map[string]bool{"quiet": false, "disturbed": true} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, m *machine) {
				m.Freeze = Never
				looks := 0
				m.atLook = func() {
					// The third time is right before the last flush.
					if looks++; looks == 3 {
						plantIn(t, m.dir, map[string]string{"var/lib/unsynced": "unsynced"})
					}
				}
				copied := m.image + ".copy"
				result, err := m.quiesce(func(s State) *bool {
					m.copyTo(copied) // before the question, which flushes
					if s.Frozen || s.NotFrozen != "" || m.isFrozen() {
						t.Errorf("%+v", s)
					}
					if disturbed {
						locker(t, filepath.Join(m.dir, "var/lib/dpkg/lock-frontend"), "write")
					}
					return &yes
				})
				holds := map[string]string{NonceDir + "/" + order: nonce + "\n", "var/lib/unsynced": "unsynced"}
				if diff := cmp.Diff(holds, m.readCopy(copied, true, slices.Collect(maps.Keys(holds))...)); diff != "" {
					t.Errorf("the copy (-want +got):\n%s", diff)
				}
				if err != nil || result.Frozen || result.InTime == disturbed || m.started != 0 {
					t.Errorf("%+v, %v", result, err)
				}
			})
		})
	}
}

// TestUnguarded: a host that cannot guard a freeze is not frozen, and the run says why.
func TestUnguarded(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(m *machine) error
		says  string
	}{
		"no systemd":  {func(m *machine) error { m.Donor.start = nil; return nil }, "systemd of the host cannot be reached"},
		"no fsfreeze": {func(m *machine) error { return os.Remove(filepath.Join(m.dir, "usr/sbin/fsfreeze")) }, "the host has no program fsfreeze"},
		"other PIDs":  {func(m *machine) error { return os.RemoveAll(filepath.Join(m.dir, "proc", fmt.Sprint(os.Getpid()))) }, "the pod needs the host's PID namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "ext4")
			if err := test.spoil(m); err != nil {
				t.Fatal(err)
			}
			result, err := m.quiesce(func(s State) *bool {
				if s.Frozen || !strings.Contains(s.NotFrozen, test.says) || m.isFrozen() {
					t.Errorf("%+v, want %q", s, test.says)
				}
				return &yes
			})
			if err != nil || result.Frozen || !result.InTime || !strings.Contains(result.NotFrozen, test.says) || m.started != 0 {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
}

// TestThawedByAnother: a copy that was accepted after another program thawed the file system is not in time.
func TestThawedByAnother(t *testing.T) {
	onBoth(t, func(t *testing.T, m *machine) {
		result, err := m.quiesce(func(State) *bool {
			if !m.thaw() {
				t.Error("it was not frozen")
			}
			return &yes
		})
		if err != nil || result.InTime || !strings.Contains(result.Late, "another program thawed") {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

// TestFrozenByAnother: a file system that another program froze in the meantime stays frozen by that program.
func TestFrozenByAnother(t *testing.T) {
	m := newMachine(t, "ext4")
	h := m.prepare()
	defer h.close()
	fd, err := openRoot(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if errno := ioctl(fd, fiFreeze); errno != 0 {
		t.Fatal(errno)
	}
	if why, err := h.freeze(); why != "" || err == nil || !strings.Contains(err.Error(), "fsfreeze --unfreeze /") {
		t.Errorf("%q, %v", why, err)
	}
	if !m.thaw() {
		t.Error("the other program's freeze has ended")
	}
}

// TestAnotherRoot: the directory must be the root of the host whose mount table was read.
func TestAnotherRoot(t *testing.T) {
	m := newMachine(t, "ext4")
	plantIn(t, m.dir, map[string]string{
		"proc/1/mountinfo":    "1 0 259:1 / / rw - ext4 /dev/root rw\n",
		"sys/dev/block/259:1": "-> ../../devices/pci0/vda/vda1",
	})
	result, err := m.quiesce(func(State) *bool { t.Error("the copy may be taken"); return nil })
	var refusal *RefusedError
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "--root must name the root of the host") {
		t.Errorf("%+v, %v", result, err)
	}
}
