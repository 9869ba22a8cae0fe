package tree

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// lookup asks the kernel for a path in one call. nil means that the path is there, and fs.ErrNotExist or ENOTDIR that it
// is not; neither a link nor a mount is on its way, or is the path. With any other error, look up each name.
func lookup(t *Tree, p string) error {
	names := strings.Count(p, "/") + 1
	if t.byName || names > maxHop {
		return errors.ErrUnsupported
	}
	t.asked += names
	fd, err := unix.Openat2(int(t.top.Fd()), p, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err == nil {
		return unix.Close(fd)
	}
	t.byName = t.byName || errors.Is(err, unix.ENOSYS) // before Linux 5.6
	return err
}
