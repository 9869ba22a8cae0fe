package probe

import (
	"context"
	"crypto/sha256"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Machine is a measurement of a node by a process in a pod. The best of some tries stands for the node, because other
// pods start at the same time.
type Machine struct {
	// SyncMillis is the time to write and sync 16 MiB to the node's disk, in milliseconds.
	SyncMillis int64 `json:"syncMillis"`
	// Hashes is the number of 4 KiB blocks that one thread hashes in a second, with SHA-256.
	Hashes int64 `json:"hashes"`
	// OpenFiles is the hard limit of open files of a process; 0 if unknown.
	OpenFiles uint64 `json:"openFiles,omitempty"`
	// Kernel are settings of the kernel, and the version of cgroups, by name. Unreadable ones are missing.
	Kernel map[string]uint64 `json:"kernel,omitempty"`
	// Says is why the disk was not measured; empty after a measurement.
	Says string `json:"message,omitempty"`
}

const (
	machineTries = 3
	// synced is the number of written bytes, and hashed the size of a hashed block.
	synced, hashed = 16 << 20, 4 << 10
	// hashTime is the time of a try.
	hashTime = time.Second
)

// machine measures the disk of a directory, the processor, and the limit of open files.
func machine(ctx context.Context, dir string) *Machine {
	m := &Machine{OpenFiles: openFiles(), Kernel: kernel("/")}
	for range machineTries {
		took, err := syncTime(dir)
		if err != nil {
			m.Says = message(err)
			break
		}
		if millis := max(1, took.Milliseconds()); m.SyncMillis == 0 || millis < m.SyncMillis {
			m.SyncMillis = millis
		}
		m.Hashes = max(m.Hashes, hashes(hashTime))
		if ctx.Err() != nil {
			break
		}
	}
	return m
}

// limits are settings of the kernel that workloads need. A pod sees them without rights.
var limits = []string{"vm.max_map_count", "fs.inotify.max_user_watches", "fs.inotify.max_user_instances", "kernel.pid_max", "fs.file-max"}

// kernel reads the settings below a root.
func kernel(root string) map[string]uint64 {
	found := map[string]uint64{"cgroup": 1}
	if _, err := os.Stat(filepath.Join(root, "sys/fs/cgroup/cgroup.controllers")); err == nil {
		found["cgroup"] = 2
	}
	for _, name := range limits {
		text, err := os.ReadFile(filepath.Join(root, "proc/sys", strings.ReplaceAll(name, ".", "/")))
		if n, wrong := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && wrong == nil {
			found[name] = min(n, math.MaxInt64)
		}
	}
	for _, path := range []string{"sys/fs/cgroup/pids.max", "sys/fs/cgroup/pids/pids.max"} { // of the container; cgroup v2, v1
		text, err := os.ReadFile(filepath.Join(root, path))
		if value := strings.TrimSpace(string(text)); err == nil && value == "max" {
			found["pids.max"] = math.MaxInt64
		} else if n, wrong := strconv.ParseUint(value, 10, 64); err == nil && wrong == nil {
			found["pids.max"] = min(n, math.MaxInt64)
		}
	}
	return found
}

// syncTime is the time to write and sync a file.
func syncTime(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, "sync-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	defer func() { _ = f.Close() }()
	content := make([]byte, 1<<20)
	began := time.Now()
	for range synced / len(content) {
		if _, err := f.Write(content); err != nil {
			return 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// hashes counts the hashed blocks per second. The time of the clock counts, not that of the processor: a starved node is
// slow, too.
func hashes(during time.Duration) int64 {
	block := make([]byte, hashed)
	n := int64(0)
	for began := time.Now(); ; n++ {
		sum := sha256.Sum256(block)
		copy(block, sum[:])
		if past := time.Since(began); past >= during {
			return int64(float64(n) / past.Seconds())
		}
	}
}
