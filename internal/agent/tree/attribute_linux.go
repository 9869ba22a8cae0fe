package tree

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxAttribute is the size of the largest extended attribute, and of a list of names, in bytes. Source: Linux,
// XATTR_SIZE_MAX and XATTR_LIST_MAX.
const maxAttribute = 64 << 10

// selinux is the attribute with the label of SELinux.
const selinux = "security.selinux"

// attributes returns the names of a file's extended attributes; none if the file system has no attributes.
func attributes(f *os.File) []string {
	var buffer [1 << 10]byte
	names := buffer[:]
	n, err := unix.Flistxattr(int(f.Fd()), names)
	if errors.Is(err, syscall.ERANGE) {
		names = make([]byte, maxAttribute)
		n, err = unix.Flistxattr(int(f.Fd()), names)
	}
	if err != nil || n == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00")
}

// copyAttributes copies the extended attributes of a file to its replacement: access list, label, and attributes of
// people. An attribute that only the kernel or its security module may set is left out.
func copyAttributes(from, to *os.File) error {
	for _, name := range attributes(from) {
		value := make([]byte, maxAttribute)
		n, err := unix.Fgetxattr(int(from.Fd()), name, value)
		if err == nil {
			err = unix.Fsetxattr(int(to.Fd()), name, value[:n], 0)
		}
		if err != nil && (strings.HasPrefix(name, "user.") || name == "system.posix_acl_access") {
			return &os.PathError{Op: "copy the attribute " + name + " of", Path: from.Name(), Err: err}
		}
	}
	return nil
}

// labelNew gives a new file, directory or link the label of its directory, as the kernel does under SELinux. A kernel
// without SELinux does not, and a file without a label is out of reach for the services of the copied machine.
func labelNew(dir *os.Root, name string) {
	f, err := dir.Open(".")
	if err != nil {
		return
	}
	defer f.Close()
	value := make([]byte, 256)
	n, err := unix.Fgetxattr(int(f.Fd()), selinux, value)
	if err != nil {
		return
	}
	at := filepath.Join("/proc/self/fd", strconv.Itoa(int(f.Fd())), name)
	if _, err := unix.Lgetxattr(at, selinux, make([]byte, 256)); errors.Is(err, unix.ENODATA) {
		_ = unix.Lsetxattr(at, selinux, value[:n], 0)
	}
}

// Immutable returns the first file or directory at and below a path, or the directory of the path, that chattr protects
// from changes; empty if there is none. Other devices are not entered: a volume of a pod may have millions of files.
func (t *Tree) Immutable(p string) string {
	if protected(t, path.Dir(p)) {
		return path.Dir(p)
	}
	first, device := "", uint64(0)
	err := t.Walk(p, func(at string, info fs.FileInfo) error {
		if s, known := info.Sys().(*syscall.Stat_t); known && device == 0 {
			device = s.Dev
		} else if known && s.Dev != device {
			return fs.SkipDir
		}
		if (info.Mode().IsRegular() || info.IsDir()) && protected(t, at) {
			first = at
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return "" // the rule of the path reports the error
	}
	return first
}

// The attributes i and a of chattr(1). Source: Linux, include/uapi/linux/fs.h.
const (
	immutableFlag = 0x10
	appendFlag    = 0x20
)

// protected reports whether a file has the attribute i or a of chattr(1).
func protected(t *Tree, p string) bool {
	f, err := t.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	return err == nil && flags&(immutableFlag|appendFlag) != 0
}
