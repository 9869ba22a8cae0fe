package host

import (
	"errors"
	"os"
	"syscall"

	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

const dropCachesPath = "proc/sys/vm/drop_caches"

// forgetUnlinked drops the kernel's caches, so that deleted files release their blocks. While a container's file system
// is mounted, overlay inodes hold deleted files: trim does not reach their blocks, and every clone would free them with
// content.
//
// All containers have ended, so only caches hold the files. Two rounds are needed, because the first spares recently
// used inodes. Sources: Linux, Documentation/admin-guide/sysctl/vm.rst, drop_caches; fs/overlayfs/super.c,
// ovl_destroy_inode.
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
		h.say("data of containers may not be trimmed: %v", err)
	}
}
