package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

const dropCachesPath = "proc/sys/vm/drop_caches"

// forgetUnlinked drops the kernel's caches, so that deleted files of overlay mounts release their blocks for the trim. Two
// rounds are needed, because the first spares recently used inodes. Source: Linux, Documentation/admin-guide/sysctl/vm.rst,
// drop_caches; fs/overlayfs/super.c, ovl_destroy_inode.
func (h *Host) forgetUnlinked(t *tree.Tree) {
	f, err := t.OpenFile(dropCachesPath, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		for range 2 {
			_, again := f.WriteString("2")
			err = errors.Join(err, again)
		}
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		h.logf("data of containers may not be trimmed: %v", err)
	}
}

// emptyUnlinked frees the blocks of deleted files that a process holds open, on the given devices. Trim does not reach
// their blocks, and a clone would free them with content. All processes that could use the content are stopped.
func (h *Host) emptyUnlinked(t *tree.Tree, disks map[uint64]bool) error {
	all, err := processes(t)
	if errors.Is(err, os.ErrNotExist) {
		return nil // no running machine
	}
	if err != nil {
		return fmt.Errorf("look for deleted files that are open: %w", err)
	}
	emptied := 0
	for _, p := range all {
		if p.kernel || p.pid == os.Getpid() {
			continue
		}
		for _, list := range []string{"fd", "map_files"} {
			n, err := emptyIn(filepath.Join(t.Dir(), "proc", strconv.Itoa(p.pid), list), disks)
			emptied += n
			if errors.Is(err, os.ErrPermission) && list == "map_files" {
				continue // a kernel that shows mapped files to no container
			}
			if err != nil {
				return fmt.Errorf("process %d (%s) holds a deleted file open: %w", p.pid, p.name, err)
			}
		}
	}
	if emptied > 0 {
		h.logf("emptied %d deleted files that are open", emptied)
	}
	return nil
}

// emptyIn empties the deleted files in one list of a process. A mapped program or library has no write permission in
// the list, and stays: its content is of a package.
func emptyIn(dir string, disks map[uint64]bool) (emptied int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, gone(err)
	}
	for _, entry := range entries {
		at := filepath.Join(dir, entry.Name())
		if target, err := os.Readlink(at); err != nil || !strings.HasSuffix(target, " (deleted)") {
			continue
		}
		if info, err := os.Lstat(at); err != nil || filepath.Base(dir) == "map_files" && info.Mode().Perm()&0o200 == 0 {
			continue
		}
		var s unix.Stat_t
		if err := unix.Stat(at, &s); err != nil || s.Mode&unix.S_IFMT != unix.S_IFREG || s.Nlink > 0 || s.Blocks == 0 || !disks[s.Dev] {
			continue
		}
		f, err := os.OpenFile(at, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			err = errors.Join(tree.Empty(f, s.Size), f.Close())
		}
		if err := gone(err); err != nil {
			return emptied, err
		}
		emptied++
	}
	return emptied, nil
}

// gone returns no error for a process that has ended, or a program that is running.
func gone(err error) error {
	for _, harmless := range []error{os.ErrNotExist, syscall.ESRCH, syscall.ETXTBSY} {
		if errors.Is(err, harmless) {
			return nil
		}
	}
	return err
}
