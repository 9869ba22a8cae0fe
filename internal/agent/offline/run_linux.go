package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/audit"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/generalize/host"
	"github.com/kamino-dev/kamino/internal/agent/quiesce"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// run is one run on a device.
type run struct {
	Disk
	on     *session
	parts  []Partition
	chosen Partition
	plans  []mountPlan
	result Result
	runner *generalize.Runner
}

// Run cleans the copy, and proves it by a second look at the raw device. A *generalize.Refused before the mount means that nothing was
// changed. A *DiscardError or a *generalize.UnprovenError means that the copy must not be used. The file systems are unmounted in any case.
func (d Disk) Run(ctx context.Context) (*Result, error) {
	r := &run{Disk: d}
	if err := r.look(); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"cleaning", r.clean},
		{"trimming", r.trim},
		{"checking the file systems", r.check},
		{"searching the raw device", r.searchRaw},
	} {
		if err := step.do(ctx); err != nil {
			return &r.result, interrupted(ctx, d.Device, step.name, discarded(err))
		}
	}
	return &r.result, r.on.close()
}

// discarded turns a refusal after the mount into the end of the copy: the mount has replayed the journal.
func discarded(err error) error {
	var refused *generalize.Refused
	if errors.As(err, &refused) {
		return &DiscardError{Refused, refused.Lines()}
	}
	return err
}

// interrupted says what a signal leaves behind.
func interrupted(ctx context.Context, device, step string, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("interrupted while %s: %s is unmounted, is cleaned in part, and must not be used: %w", step, device, ctx.Err())
}

// look finds the root, and refuses everything that can be refused without a change.
func (r *run) look() error {
	if err := r.Check(); err != nil {
		return refusef("%v", err)
	}
	d, err := openDevice(machine{sys: "/sys", proc: "/proc", root: cmp.Or(r.MachineRoot, "/")}, r.Device)
	if err != nil {
		return err
	}
	if err := d.refuseOther(r.Serial); err != nil {
		return err
	}
	f, err := d.exclusive()
	if err != nil {
		return err
	}
	r.parts, err = partitions(f, d.size)
	whole := contentOf(f, 0, d.size)
	f.Close()
	if err != nil {
		return refusef("%v. %s", err, wrongVolume)
	}
	if err := refuseForeign(r.parts, whole); err != nil {
		return err
	}
	if r.chosen, err = chooseRoot(r.parts, r.RootUUID); err != nil {
		return err
	}
	if err := d.refuseWithoutTools(r.parts); err != nil {
		return err
	}
	for _, p := range r.parts {
		if _, err := d.partitionNumber(p); err != nil {
			return err
		}
	}
	if r.on, err = d.begin(r.Dir); err != nil {
		return err
	}
	r.result.Root = fmt.Sprintf("%s (%s, UUID %s)", r.chosen.name(), r.chosen.Kind, r.chosen.FileSystem)
	r.logf("the root is %s", r.result.Root)
	return nil
}

// mounted mounts all file systems for some work, and unmounts them.
func (r *run) mounted(flags uintptr, work func() error) (err error) {
	defer func() { err = errors.Join(err, r.on.end()) }()
	if err := r.on.mountRoot(r.chosen, flags); err != nil {
		return err
	}
	if err := r.on.mountBelow(r.plans, flags); err != nil {
		return err
	}
	return work()
}

// clean proves that this is the expected copy, checks that the copy is complete, and applies the rules.
func (r *run) clean(ctx context.Context) error {
	return r.mounted(0, func() error {
		if err := r.prove(); err != nil {
			return err
		}
		if err := r.planMounts(); err != nil {
			return err
		}
		if err := r.on.mountBelow(r.plans, 0); err != nil {
			return err
		}
		if err := r.apply(ctx); err != nil {
			return err
		}
		return r.wipeSwap(ctx)
	})
}

// trim trims the free blocks, and zeroes those that still hold data. The second mount has none of the blocks that XFS frees in the
// background. The third cannot change a block, so that its list of free blocks holds after the unmount.
func (r *run) trim(ctx context.Context) error {
	if err := r.mounted(0, func() error { return r.flush(ctx) }); err != nil {
		return err
	}
	free := map[int][]extent{}
	err := r.mounted(unix.MS_RDONLY, func() error {
		for _, m := range r.on.mounted {
			if !m.holdsLinux() {
				continue
			}
			dir, err := os.Open(r.on.at(m))
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
	for _, p := range r.parts {
		if err := r.zero(ctx, p, free[p.Number]); err != nil {
			return fmt.Errorf("zero the free blocks of %s: %w", p.name(), err)
		}
	}
	return nil
}

// zero zeroes free blocks of an unmounted partition.
func (r *run) zero(ctx context.Context, p Partition, free []extent) error {
	if len(free) == 0 {
		return nil
	}
	f, err := r.open(p, os.O_RDWR|unix.O_EXCL)
	if err != nil {
		return err
	}
	zeroed, err := zeroFree(ctx, f, free)
	if zeroed > 0 {
		r.logf("zeroed %d KiB of free blocks of %s", zeroed>>10, p.name())
	}
	return errors.Join(err, f.Close())
}

// prove compares the copy with the expected machine and flush, and removes the nonces.
func (r *run) prove() error {
	t, err := tree.Open(r.on.root())
	if err != nil {
		return err
	}
	defer t.Close()
	if r.MachineID != "" {
		id, err := t.Read("etc/machine-id")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if found := strings.TrimSpace(string(id)); found != r.MachineID {
			return discardf(OtherDisk, "the copy has the machine ID %q, and the donor has %s. %s", generalize.Printable(found), r.MachineID,
				wrongVolume)
		}
	}
	if r.Nonce != "" {
		found, err := t.Read(quiesce.NonceDir + "/" + r.NonceName)
		if err != nil || strings.TrimSpace(string(found)) != r.Nonce {
			return discardf(StaleCopy,
				"the copy does not hold the donor's last flush, so it is discarded: /%s/%s is missing or has another content. "+
					"Take a fresh snapshot after the flush",
				quiesce.NonceDir, r.NonceName)
		}
	}
	_, err = t.Remove(quiesce.NonceDir, nil)
	return err
}

// planMounts reads the copy's fstab.
func (r *run) planMounts() error {
	t, err := tree.Open(r.on.root())
	if err != nil {
		return err
	}
	fstab, err := t.Read("etc/fstab")
	t.Close()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return discardf(Unsupported, "/etc/fstab of the copy cannot be read: %v. Correct the file on the donor", err)
	}
	r.plans, err = planMounts(string(fstab), r.parts, r.chosen)
	return err
}

// apply checks that the copy is complete, and applies the rules.
func (r *run) apply(ctx context.Context) error {
	t, err := tree.OpenMounted(r.on.root())
	if err != nil {
		return err
	}
	defer t.Close()
	if r.runner, err = r.Runner(t); err != nil {
		return err
	}
	if err := r.audit(t); err != nil {
		return err
	}
	below, release, err := host.OpenBelow(t, r.logf)
	if err != nil {
		return err
	}
	r.runner.Below = below
	r.result.Manifest, err = r.runner.Run(ctx, t)
	release()
	if m := r.result.Manifest; m != nil {
		r.logf("%d of %d rules of profile %s/%s are met", m.Met, m.Rules, m.Profile, m.ProfileVersion)
	}
	if err == nil && r.Cleaned != nil {
		r.Cleaned(t, r.result.Manifest)
	}
	return err
}

// audit refuses a copy with incomplete packages, and removes damaged images.
func (r *run) audit(t *tree.Tree) error {
	whys, err := audit.Packages(t)
	if err != nil {
		return err
	}
	if len(whys) > 0 {
		return &DiscardError{PackagesIncomplete, whys}
	}
	stores, err := generalize.Stores(t, r.runner.Profile)
	if err != nil {
		return err
	}
	found, err := audit.Images(stores)
	if err != nil {
		return err
	}
	if len(found.Whys) > 0 {
		return &DiscardError{ImagesDamaged, found.Whys}
	}
	for _, image := range found.Damaged {
		r.logf("removed the image %s, which a clone pulls again: %s", image.Name, image.Message)
	}
	r.result.RemovedImages = found.Damaged
	return found.Remove()
}

// wipeSwap zeroes the swap partitions, which hold memory of the donor.
func (r *run) wipeSwap(ctx context.Context) error {
	for _, p := range r.parts {
		if p.Kind != swap {
			continue
		}
		f, err := r.open(p, os.O_RDWR|unix.O_EXCL)
		if err != nil {
			return err
		}
		size, err := host.ZeroSwap(ctx, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("wipe the swap space of %s: %w", p.name(), err)
		}
		r.logf("wiped the swap space of %s (%d MiB)", p.name(), size>>20)
	}
	return nil
}

// open opens a partition by its number.
func (r *run) open(p Partition, flag int) (*os.File, error) {
	node, err := r.on.node(p)
	if err != nil {
		return nil, err
	}
	return os.OpenFile(node, flag|unix.O_NONBLOCK, 0)
}

// flush syncs and trims the mounted file systems.
func (r *run) flush(ctx context.Context) error {
	points, err := tree.MountsBelow(r.on.root())
	if err != nil {
		return err
	}
	for _, m := range r.on.mounted {
		i := slices.IndexFunc(points, func(p tree.MountPoint) bool { return p.Dir == m.Dir })
		if i < 0 {
			return fmt.Errorf("%s is no longer mounted at %s", m.name(), generalize.Printable(m.Dir))
		}
		if err := errors.Join(r.flushMount(ctx, m, points[i]), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) flushMount(ctx context.Context, m mountPlan, point tree.MountPoint) error {
	dir, err := os.Open(r.on.at(m))
	if err != nil {
		return err
	}
	defer dir.Close()
	if m.Kind == vfat {
		if err := zeroFAT(ctx, dir); err != nil {
			return err
		}
	}
	return host.Flush(r.on.sys, dir, point, r.logf)
}

// check checks the unmounted file systems with the programs of this machine.
func (r *run) check(ctx context.Context) error {
	for _, m := range append([]mountPlan{{r.chosen, "/"}}, r.plans...) {
		f, err := r.open(m.Partition, os.O_RDONLY)
		if err != nil {
			return err
		}
		if err := errors.Join(r.on.device.check(ctx, m.Partition, f), f.Close()); err != nil {
			return err
		}
		r.logf("%s is clean", m.name())
	}
	return nil
}

// searchRaw reads the whole device, used and free blocks, for secrets and for the donor's identities and values from before the run.
func (r *run) searchRaw(ctx context.Context) error {
	// Nothing else may have mounted the disk meanwhile, or may mount it now.
	f, err := r.on.exclusive()
	if err != nil {
		return discardf(NotClean, "the device is in use after the run: %v", err)
	}
	defer f.Close()
	// Read the disk, and not the kernel's memory of it.
	if err := unix.IoctlSetInt(int(f.Fd()), unix.BLKFLSBUF, 0); err != nil {
		return fmt.Errorf("drop the kernel's buffers of %s: %w", r.Device, err)
	}
	o := r.result.Manifest.SearchOfImage()
	o.Owner, o.Base = generalize.Owner(r.runner.Profile, r.runner.Allow...), generalize.Base(r.runner.Profile)
	if r.result.Raw, err = scan.Image(ctx, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), o); err != nil {
		return err
	}
	if r.result.Raw.Count > 0 {
		e := &generalize.UnprovenError{Reasons: generalize.Reasons{Findings: r.result.Raw.Findings, Count: r.result.Raw.Count}}
		return e
	}
	r.logf("read %d MiB of the raw device: nothing was found", r.result.Raw.Bytes>>20)
	return nil
}

func (r *run) logf(format string, args ...any) {
	_, _ = fmt.Fprintln(r.Log, generalize.Printable(fmt.Sprintf(format, args...)))
}
