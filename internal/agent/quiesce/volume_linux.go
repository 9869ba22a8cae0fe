package quiesce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// Linux is the kernel of a real host.
type Linux struct {
	// start replaces the host's systemd in a test.
	start starter
}

// volume is the disk of a host that runs Linux.
type volume struct {
	tree  *tree.Tree
	start starter
	disk  Disk
	// root is a descriptor of the root directory, opened before the freeze. beside are those of the boot partitions.
	root   int
	beside []int
}

// Open implements Kernel.
func (l Linux) Open(t *tree.Tree) (Volume, error) {
	v := &volume{tree: t, start: l.start}
	if v.start == nil {
		v.start = func(ctx context.Context, t *tree.Tree, g guard) error { return g.start(ctx, t) }
	}
	var err error
	if v.disk, err = diskOf(t); err != nil {
		return nil, err
	}
	if v.root, err = openRoot(t.Dir()); err != nil {
		return nil, err
	}
	for _, dir := range v.disk.beside {
		fd, err := openRoot(filepath.Join(t.Dir(), dir))
		if err != nil {
			v.Close()
			return nil, err
		}
		v.beside = append(v.beside, fd)
	}
	return v, nil
}

// Disk implements Volume.
func (v *volume) Disk() Disk { return v.disk }

// Close implements Volume.
func (v *volume) Close() {
	for _, fd := range append(v.beside, v.root) {
		_ = unix.Close(fd)
	}
}

// Flush implements Volume.
func (v *volume) Flush() error {
	for _, fd := range append(v.beside, v.root) {
		if err := unix.Syncfs(fd); err != nil {
			return fmt.Errorf("flush the root file system: %w", err)
		}
	}
	return nil
}

// Guard implements Volume: a transient unit of the host's systemd.
func (v *volume) Guard(ctx context.Context, name string) (Guard, error) {
	h, err := prepare(ctx, v.tree, v.root, name, v.start)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// diskOf identifies the disk, or refuses it.
func diskOf(t *tree.Tree) (Disk, error) {
	mounts, err := mountsOfHost(t)
	if err != nil {
		return Disk{}, err
	}
	root, dev, beside, err := judgeDisk(mounts, func(number string) (device, error) { return deviceOf(t, number) })
	if err != nil {
		return Disk{}, err
	}
	var s unix.Stat_t
	if err := unix.Stat(t.Dir(), &s); err != nil {
		return Disk{}, err
	}
	if number := fmt.Sprintf("%d:%d", unix.Major(s.Dev), unix.Minor(s.Dev)); number != root.Device {
		return Disk{}, refusef("%s is on device %s, and the root file system of the host is on device %s: --root must name the root of the host",
			t.Dir(), number, root.Device)
	}
	d := Disk{FileSystem: root.Kind, RootDevice: "/dev/" + dev.name, beside: beside}
	f, err := t.OpenFile("dev/"+dev.name, os.O_RDONLY, 0)
	if err != nil {
		return d, fmt.Errorf("open the root device: %w", err)
	}
	d.RootUUID, err = readUUID(root.Kind, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return d, fmt.Errorf("read the superblock of %s: %w", d.RootDevice, err)
	}
	for _, id := range []struct {
		path string
		into *string
	}{{"proc/sys/kernel/random/boot_id", &d.BootID}, {"etc/machine-id", &d.MachineID}} {
		text, err := t.Read(id.path)
		if errors.Is(err, fs.ErrNotExist) {
			return d, refusef("the host has no /%s, and a copy of its disk could not be recognized: run systemd-machine-id-setup", id.path)
		}
		if err != nil {
			return d, err
		}
		*id.into = string(bytes.TrimSpace(text))
	}
	return d, nil
}
