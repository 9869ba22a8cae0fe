package quiesce

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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
	if result, err = m.quiesce(func(State) *bool { t.Error("the copy may be taken"); return nil }); !errors.Is(err, ErrNotFrozen) || m.started != 2+maxAttempts {
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
		"no systemd":  {func(m *machine) error { m.Kernel = Linux{}; return nil }, "systemd of the host cannot be reached"},
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
