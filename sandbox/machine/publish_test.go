package machine

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

func TestParallelCopiesOfPlatformImage(t *testing.T) {
	w := newFleetEnv(t)
	const many = 8
	var copies sync.WaitGroup
	for n := range many {
		copies.Go(func() {
			if err := w.fleet.CopyDisk(w.Context(), fleet.DiskID(fmt.Sprint("disk", n)), platformImage); err != nil {
				w.Error(err)
			}
		})
	}
	copies.Wait()
	want := files(t, w.fleet.DiskTree(platformImage))
	for n := range many {
		if got := files(t, w.fleet.DiskTree(fleet.DiskID(fmt.Sprint("disk", n)))); got != want {
			t.Errorf("disk %d has %d files, the image %d", n, got, want)
		}
	}
}

func files(t *testing.T, root string) int {
	t.Helper()
	count := 0
	err := filepath.WalkDir(root, func(_ string, _ fs.DirEntry, err error) error {
		count++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}
