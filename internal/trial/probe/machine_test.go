package probe

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestMachine measures this machine, and leaves no file.
func TestMachine(t *testing.T) {
	dir := t.TempDir()
	m := machine(t.Context(), dir)
	if m.SyncMillis < 1 || m.Hashes < 1 || m.OpenFiles == 0 || m.Says != "" {
		t.Errorf("%+v", m)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if m := machine(t.Context(), filepath.Join(dir, "none")); m.Says == "" || m.SyncMillis != 0 {
		t.Errorf("without the directory: %+v", m)
	}
	if n := hashes(time.Millisecond); n < 1 {
		t.Errorf("%d hashes in a second", n)
	}
}

// TestKernel reads settings, and skips what it cannot read.
func TestKernel(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"proc/sys/vm/max_map_count": "262144\n", "proc/sys/kernel/pid_max": "many\n", "proc/sys/fs/file-max": "18446744073709551615\n",
		"sys/fs/cgroup/cgroup.controllers": "cpu", "sys/fs/cgroup/pids.max": "max\n",
	} {
		file := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]uint64{"vm.max_map_count": 262144, "fs.file-max": math.MaxInt64, "cgroup": 2, "pids.max": math.MaxInt64}
	if got := kernel(root); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	first := filepath.Join(t.TempDir(), "sys/fs/cgroup/pids")
	if err := errors.Join(os.MkdirAll(first, 0o700), os.WriteFile(filepath.Join(first, "pids.max"), []byte("64\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := kernel(filepath.Join(first, "../../../..")); !maps.Equal(got, map[string]uint64{"cgroup": 1, "pids.max": 64}) {
		t.Errorf("%v", got)
	}
	if got := kernel(t.TempDir()); !maps.Equal(got, map[string]uint64{"cgroup": 1}) {
		t.Errorf("%v", got)
	}
}
