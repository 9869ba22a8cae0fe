package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/generalize/host"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// Linux is the kernel of a real machine.
type Linux struct{}

// Mounts implements Kernel.
func (Linux) Mounts() bool { return true }

// copied is the device of a copy on a machine that runs Linux.
type copied struct {
	disk   Disk
	on     *session
	parts  []Partition
	chosen Partition
	plans  []mountPlan
}

// Open implements Kernel.
func (Linux) Open(disk Disk) (Device, error) {
	m := machine{sys: "/sys", proc: "/proc", root: cmp.Or(disk.MachineRoot, "/")}
	path := disk.Device
	if path == "" {
		var err error
		if path, err = m.findDisk(disk.Serial); err != nil {
			return nil, err
		}
	}
	d, err := openDevice(m, path)
	if err != nil {
		return nil, err
	}
	c := &copied{disk: disk}
	if err := c.look(d); err != nil {
		return nil, err
	}
	if c.on, err = d.begin(disk.Dir); err != nil {
		return nil, err
	}
	return c, nil
}

// Root implements Device.
func (c *copied) Root() string {
	return fmt.Sprintf("%s (%s, UUID %s)", c.chosen.name(), c.chosen.Kind, c.chosen.FileSystem)
}

// look finds the root, and refuses everything that can be refused without a change.
func (c *copied) look(d *device) error {
	if err := d.refuseOther(c.disk.Serial); err != nil {
		return err
	}
	f, err := d.exclusive()
	if err != nil {
		return err
	}
	c.parts, err = partitions(f, d.size)
	whole := contentOf(f, 0, d.size)
	f.Close()
	if err != nil {
		return refusef("%v. %s", err, wrongVolume)
	}
	if err := refuseForeign(c.parts, whole); err != nil {
		return err
	}
	if c.chosen, err = chooseRoot(c.parts, c.disk.RootUUID); err != nil {
		return err
	}
	if err := d.refuseWithoutTools(c.parts); err != nil {
		return err
	}
	for _, p := range c.parts {
		if _, err := d.partitionNumber(p); err != nil {
			return err
		}
	}
	return nil
}

// mounted mounts all file systems for some work, and unmounts them.
func (c *copied) mounted(flags uintptr, work func() error) (err error) {
	defer func() { err = errors.Join(err, c.on.end()) }()
	if err := c.on.mountRoot(c.chosen, flags); err != nil {
		return err
	}
	if err := c.on.mountBelow(c.plans, flags); err != nil {
		return err
	}
	return work()
}

// Mounted implements Device.
func (c *copied) Mounted(ctx context.Context, prove, work func(root string) error) error {
	return c.mounted(0, func() error {
		if err := prove(c.on.root()); err != nil {
			return err
		}
		if err := c.planMounts(); err != nil {
			return err
		}
		if err := c.on.mountBelow(c.plans, 0); err != nil {
			return err
		}
		if err := work(c.on.root()); err != nil {
			return err
		}
		return c.wipeSwap(ctx)
	})
}

// Trim implements Device. It trims the free blocks, and zeroes those that still hold data, and what XFS keeps of removed names. The second mount
// has none of the blocks that XFS frees in the background. The third cannot change a block, so that its list of free blocks holds after the
// unmount.
func (c *copied) Trim(ctx context.Context) error {
	if err := c.mounted(0, func() error { return c.flush(ctx) }); err != nil {
		return err
	}
	free := map[int][]extent{}
	err := c.mounted(unix.MS_RDONLY, func() error {
		for _, m := range c.on.mounted {
			if !m.holdsLinux() {
				continue
			}
			dir, err := os.Open(c.on.at(m))
			if err != nil {
				return err
			}
			free[m.Number], err = freeExtents(dir)
			if err = errors.Join(err, dir.Close()); err != nil {
				return fmt.Errorf("%s: %w", m.name(), err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range c.parts {
		if err := c.zero(ctx, p, free[p.Number]); err != nil {
			return fmt.Errorf("zero what %s does not use: %w", p.name(), err)
		}
	}
	return nil
}

// zero zeroes free blocks and removed names of an unmounted partition.
func (c *copied) zero(ctx context.Context, p Partition, free []extent) error {
	if !p.holdsLinux() {
		return nil
	}
	f, err := c.open(p, os.O_RDWR|unix.O_EXCL)
	if err != nil {
		return err
	}
	zeroed, err := zeroFree(ctx, f, free)
	if zeroed > 0 {
		c.disk.logf("zeroed %d KiB of free blocks of %s", zeroed>>10, p.name())
	}
	if p.Kind == xfs && err == nil {
		var wiped int
		var size int64
		if size, err = f.Seek(0, io.SeekEnd); err == nil {
			wiped, err = wipeXFS(ctx, f, size)
		}
		c.disk.logf("wiped removed names at %d places of %s", wiped, p.name())
		err = errors.Join(err, f.Sync())
	}
	return errors.Join(err, f.Close())
}

// planMounts reads the copy's fstab.
func (c *copied) planMounts() error {
	t, err := tree.Open(c.on.root())
	if err != nil {
		return err
	}
	fstab, err := t.Read("etc/fstab")
	t.Close()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return discardf(Unsupported, "/etc/fstab of the copy cannot be read: %v. Correct the file on the donor", err)
	}
	c.plans, err = planMounts(string(fstab), c.parts, c.chosen)
	return err
}

// wipeSwap zeroes the swap partitions, which hold memory of the donor.
func (c *copied) wipeSwap(ctx context.Context) error {
	for _, p := range c.parts {
		if p.Kind != swap {
			continue
		}
		f, err := c.open(p, os.O_RDWR|unix.O_EXCL)
		if err != nil {
			return err
		}
		size, err := host.ZeroSwap(ctx, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("wipe the swap space of %s: %w", p.name(), err)
		}
		c.disk.logf("wiped the swap space of %s (%d MiB)", p.name(), size>>20)
	}
	return nil
}

// open opens a partition by its number.
func (c *copied) open(p Partition, flag int) (*os.File, error) {
	node, err := c.on.node(p)
	if err != nil {
		return nil, err
	}
	return os.OpenFile(node, flag|unix.O_NONBLOCK, 0)
}

// flush syncs and trims the mounted file systems.
func (c *copied) flush(ctx context.Context) error {
	points, err := tree.MountsBelow(c.on.root())
	if err != nil {
		return err
	}
	for _, m := range c.on.mounted {
		i := slices.IndexFunc(points, func(p tree.MountPoint) bool { return p.Dir == m.Dir })
		if i < 0 {
			return fmt.Errorf("%s is no longer mounted at %s", m.name(), generalize.Printable(m.Dir))
		}
		if err := errors.Join(c.flushMount(ctx, m, points[i]), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

func (c *copied) flushMount(ctx context.Context, m mountPlan, point tree.MountPoint) error {
	dir, err := os.Open(c.on.at(m))
	if err != nil {
		return err
	}
	defer dir.Close()
	if m.Kind == vfat {
		if err := zeroFAT(ctx, dir); err != nil {
			return err
		}
	}
	return host.Flush(c.on.sys, dir, point, c.disk.logf)
}

// Check checks the unmounted file systems with the programs of this machine.
func (c *copied) Check(ctx context.Context) error {
	for _, m := range append([]mountPlan{{c.chosen, "/"}}, c.plans...) {
		f, err := c.open(m.Partition, os.O_RDONLY)
		if err != nil {
			return err
		}
		if err := errors.Join(c.on.device.check(ctx, m.Partition, f), f.Close()); err != nil {
			return err
		}
		c.disk.logf("%s is clean", m.name())
	}
	return nil
}

// Search implements Device.
func (c *copied) Search(_ context.Context, search func(image string) (*scan.Report, error)) (*scan.Report, error) {
	// Nothing else may have mounted the disk meanwhile, or may mount it now.
	f, err := c.on.exclusive()
	if err != nil {
		return nil, discardf(NotClean, "the device is in use after the run: %v", err)
	}
	defer f.Close()
	// Read the disk, and not the kernel's memory of it.
	if err := unix.IoctlSetInt(int(f.Fd()), unix.BLKFLSBUF, 0); err != nil {
		return nil, fmt.Errorf("drop the kernel's buffers of %s: %w", c.disk.Device, err)
	}
	return search(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}

// Close implements Device.
func (c *copied) Close() error { return c.on.close() }
