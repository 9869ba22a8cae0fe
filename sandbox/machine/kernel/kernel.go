// Package kernel is the kernel of a simulated machine for the commands of a copy: kamino-node quiesce and generalize --device. Everything
// else of these commands is the product's. The disk of a machine is a directory tree, and a device is the tree of a further disk. A flush and
// a freeze are those of package disk, and nothing is mounted or trimmed.
package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/agent"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/offline"
	"github.com/kamino-dev/kamino/internal/agent/quiesce"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// Verb is the first argument with which a program of the sandbox is kamino-node on a simulated machine.
const Verb = "node"

// Main is kamino-node with this kernel. It returns the exit code.
func Main(ctx context.Context, running quiesce.Kernel, args []string) int {
	return agent.Environment{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Now: time.Now, Running: running, Devices: Devices{},
	}.Run(ctx, args)
}

// Running implements quiesce.Kernel for the disk that a machine runs from.
type Running struct{}

// volume implements quiesce.Volume and quiesce.Guard. The end of this process ends the freeze, as a guard does.
type volume struct {
	root string
	disk quiesce.Disk
	at   time.Time
	thaw func()
}

// Open implements quiesce.Kernel.
func (Running) Open(t *tree.Tree) (quiesce.Volume, error) {
	v := &volume{root: t.Dir(), disk: quiesce.Disk{FileSystem: "ext4", RootDevice: "/dev/nvme0n1p1", MachineID: disk.MachineID(t.Dir())}}
	boot, err := t.Read("proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, err
	}
	v.disk.BootID, v.disk.RootUUID = strings.TrimSpace(string(boot)), disk.RootUUID(v.root)
	return v, nil
}

func (v *volume) Disk() quiesce.Disk { return v.disk }

func (v *volume) Flush() error { return disk.Flush(v.root) }

func (v *volume) Guard(context.Context, string) (quiesce.Guard, error) { return v, nil }

func (v *volume) Freeze() (why string, err error) {
	v.at = time.Now()
	v.thaw, err = disk.Freeze(v.root)
	return "", err
}

func (v *volume) Thaw(ctx context.Context, answers <-chan bool) (time.Duration, string) {
	late := quiesce.Late(ctx, answers)
	v.thaw()
	return time.Since(v.at), late
}

func (v *volume) Close() {}

// Devices implements offline.Kernel for the further disks of a machine.
type Devices struct{}

// Mounts implements offline.Kernel.
func (Devices) Mounts() bool { return false }

// device is the tree of a further disk.
type device struct{ dir string }

// Open implements offline.Kernel.
func (Devices) Open(d offline.Disk) (offline.Device, error) {
	disks := filepath.Join(cmp.Or(d.MachineRoot, "/"), disk.Further)
	dir, err := filepath.EvalSymlinks(cmp.Or(d.Device, filepath.Join(disks, d.Serial)))
	if err != nil {
		return nil, refusef("the device %s cannot be read: %v. Attach the volume first", cmp.Or(d.Device, d.Serial), err)
	}
	links, err := os.ReadDir(disks)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	shown := ""
	for _, link := range links {
		if to, err := filepath.EvalSymlinks(filepath.Join(disks, link.Name())); err == nil && to == dir {
			shown = link.Name()
		}
	}
	plain := func(serial string) string { return strings.ToLower(strings.ReplaceAll(serial, "-", "")) }
	switch uuid := disk.RootUUID(dir); {
	case shown == "":
		return nil, refusef("%s is not a block device", d.Device)
	case d.Serial != "" && plain(d.Serial) != plain(shown):
		return nil, refusef("%s shows %s, and the copy is %s", d.Device, shown, d.Serial)
	case d.RootUUID != "" && d.RootUUID != uuid:
		return nil, refusef("no file system of the device has the UUID %s; found: %s", d.RootUUID, uuid)
	}
	return device{dir}, nil
}

func refusef(format string, args ...any) error {
	return generalize.NewRefused(fmt.Sprintf(format, args...))
}

func (d device) Root() string { return "partition 1 (ext4, UUID " + disk.RootUUID(d.dir) + ")" }

func (d device) Mounted(_ context.Context, prove, work func(root string) error) error {
	if err := prove(d.dir); err != nil {
		return err
	}
	return work(d.dir)
}

func (d device) Trim(context.Context) error { return nil }

func (d device) Check(context.Context) error { return nil }

// block is the size of a block in bytes. A file begins at a block.
const block = 4096

// Search implements offline.Device: the raw device is all files, one after the other.
func (d device) Search(_ context.Context, search func(image string) (*scan.Report, error)) (*scan.Report, error) {
	image, err := os.CreateTemp("", "raw-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(image.Name())
	defer image.Close()
	size := int64(0)
	err = filepath.WalkDir(d.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		n, err := io.Copy(io.NewOffsetWriter(image, size), file)
		size += (n + block - 1) / block * block
		return err
	})
	if err := errors.Join(err, image.Truncate(size)); err != nil {
		return nil, err
	}
	return search(image.Name())
}

func (d device) Close() error { return nil }
