package host

import (
	"errors"
	"os"
	"syscall"

	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

const dropCachesPath = "proc/sys/vm/drop_caches"

// forgetUnlinked has the kernel let go of deleted files that only its caches know. As long as a container's file system is
// mounted, what the container wrote below is held by the overlay's inodes after it was deleted: its blocks are not free,
// no trim reaches them, and every clone would free them at its first mount, content and all. All containers have been
// ended by now, so nothing but the caches holds them. Twice, because what was used lately is passed over once.
// Sources: Linux, Documentation/admin-guide/sysctl/vm.rst, drop_caches; fs/overlayfs/super.c, ovl_destroy_inode.
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
		h.say("what containers wrote may not be trimmed: %v", err)
	}
}
