package azure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// testFleet is a small real fleet. Disks are directories. Machines have a power state, and add a line to their
// disk's log at each boot.
type testFleet struct {
	dir string

	mu       sync.Mutex
	machines map[string]*testMachine
	// stops holds each power-off until the channel is closed; nil holds none.
	stops chan struct{}
}

type testMachine struct {
	spec  fleet.Spec
	power fleet.Power
	boots int
	hard  bool
}

func newTestFleet(t *testing.T) *testFleet {
	t.Helper()
	return &testFleet{dir: t.TempDir(), machines: map[string]*testMachine{}}
}

func (f *testFleet) path(id fleet.DiskID) string {
	return filepath.Join(f.dir, strings.NewReplacer("/", "+", ":", "+").Replace(string(id)))
}

// CopyDisk implements fleet.Fleet. Platform images are made up.
func (f *testFleet) CopyDisk(_ context.Context, dst, src fleet.DiskID) error {
	to, from := f.path(dst), f.path(src)
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if strings.Count(string(src), ":") == 3 {
		if err := os.MkdirAll(from, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(from, "origin"), []byte(src), 0o644); err != nil {
			return err
		}
	}
	if _, err := os.Stat(from); err != nil {
		return fmt.Errorf("copy disk: %w", err)
	}
	return os.CopyFS(to, os.DirFS(from))
}

// DeleteDisk implements fleet.Fleet.
func (f *testFleet) DeleteDisk(_ context.Context, id fleet.DiskID) error {
	return os.RemoveAll(f.path(id))
}

// Launch implements fleet.Fleet.
func (f *testFleet) Launch(_ context.Context, spec fleet.Spec) error {
	if _, err := os.Stat(f.path(spec.Disk)); err != nil && !spec.Light {
		return fmt.Errorf("launch %s: %w", spec.ID, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.machines[spec.ID] = &testMachine{spec: spec, power: fleet.On, boots: 1}
	return nil
}

func (f *testFleet) change(id string, change func(*testMachine)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.machines[id]
	if m == nil {
		return fmt.Errorf("no machine %s", id)
	}
	change(m)
	return nil
}

// PowerOn implements fleet.Fleet.
func (f *testFleet) PowerOn(_ context.Context, id string) error {
	return f.change(id, func(m *testMachine) {
		if m.power != fleet.On {
			m.power = fleet.On
			m.boots++
		}
	})
}

// PowerOff implements fleet.Fleet.
func (f *testFleet) PowerOff(ctx context.Context, id string, hard bool) error {
	if f.stops != nil {
		select {
		case <-f.stops:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return f.change(id, func(m *testMachine) { m.power, m.hard = fleet.Off, hard })
}

// Power implements fleet.Fleet.
func (f *testFleet) Power(id string) fleet.Power {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.machines[id]; m != nil {
		return m.power
	}
	return fleet.Off
}

// Console implements fleet.Fleet.
func (f *testFleet) Console(id string) string { return "console of " + strings.ToLower(id) }

// Terminate implements fleet.Fleet.
func (f *testFleet) Terminate(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.machines, id)
	return nil
}

// Reimage implements fleet.Fleet.
func (f *testFleet) Reimage(_ context.Context, spec fleet.Spec) error {
	return f.change(spec.ID, func(m *testMachine) { m.spec, m.power, m.boots = spec, fleet.On, m.boots+1 })
}

func (f *testFleet) machine(t *testing.T, id string) testMachine {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.machines[id]
	if m == nil {
		t.Fatalf("the fleet has no machine %s", id)
	}
	return *m
}

func (f *testFleet) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.machines)
}

// file reads a file of a disk; empty if there is none.
func (f *testFleet) file(t *testing.T, id fleet.DiskID, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.path(id), name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

func (f *testFleet) hasDisk(id fleet.DiskID) bool {
	_, err := os.Stat(f.path(id))
	return err == nil
}

func (f *testFleet) writeFile(t *testing.T, id fleet.DiskID, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.path(id), name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
