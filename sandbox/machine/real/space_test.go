//go:build machines

package real

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// needed limits the space of all disks of a test on the host at one time, in bytes. The space is checked before the
// test, and a test that exceeds the limit fails.
const needed = 4 << 30

// requireSpace ends the test if the host lacks space, because the lack would show only minutes later.
func requireSpace(t *testing.T, dir string) {
	t.Helper()
	var room syscall.Statfs_t
	if err := syscall.Statfs(dir, &room); err != nil {
		t.Fatal(err)
	}
	if free := room.Bavail * uint64(room.Bsize); free < needed {
		t.Fatalf("the machines' disks need %.1f GB in %s, %.1f are free: make room, or name another place with TMPDIR", gigabytes(needed), filepath.Dir(filepath.Dir(dir)), gigabytes(float64(free)))
	}
}

func gigabytes(bytes float64) float64 { return bytes / 1e9 }

// watchSpace measures the size of a directory twice a second, until the test ends.
func watchSpace(t *testing.T, dir string) (end func()) {
	t.Helper()
	var peak atomic.Int64
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			peak.Store(max(peak.Load(), allocated(dir)))
			select {
			case <-over:
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	return func() {
		close(over)
		<-ended
		t.Logf("the disks had %.1f GB of the host's at most", gigabytes(float64(peak.Load())))
		if peak.Load() > needed {
			t.Errorf("that is more than the %.1f GB that are asked for beforehand: remove what nothing needs any more", gigabytes(needed))
		}
	}
}

// allocated returns the allocated bytes of a directory's files on its own file system. Holes of disks and mounted
// file systems are excluded.
func allocated(dir string) (sum int64) {
	var own syscall.Stat_t
	if err := syscall.Lstat(dir, &own); err != nil {
		return 0
	}
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		var file syscall.Stat_t
		if err != nil || syscall.Lstat(path, &file) != nil {
			return nil // The file was removed meanwhile.
		}
		if file.Dev != own.Dev {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		sum += file.Blocks * 512
		return nil
	})
	return sum
}

// imageOf is where a machine's disk lies.
func (l *lab) imageOf(machine string) string { return filepath.Join(l.dir, machine+".img") }

// copyDisk simulates a snapshot and its new disk: equal bytes, with holes. Both share blocks if the host's file
// system can share.
func copyDisk(t *testing.T, from, to string) string {
	t.Helper()
	run(t, "cp", "--reflink=auto", "--sparse=always", from, to)
	return to
}

// discard removes unused disks of stopped machines, because all disks together exceed the space of a host.
func discard(t *testing.T, images ...string) {
	t.Helper()
	for _, image := range images {
		if err := os.Remove(image); err != nil {
			t.Error(err)
		}
	}
}
