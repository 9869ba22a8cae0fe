package quiesce

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// inPlace is the remedy for a disk that is not copied while it runs.
const inPlace = "capture the node in place, if it can return"

// device is a block device with a file system, as sysfs shows it.
type device struct {
	// name of the device, and of its whole disk: nvme0n1p1 and nvme0n1.
	name, disk string
	// made says what made the device from others; empty for a disk or a partition.
	made string
}

// supported are the file systems that are copied while they run.
var supported = []string{"ext4", "xfs"}

// whyNotKind has the file systems with a reason of their own.
var whyNotKind = map[string]string{
	"btrfs":   "btrfs can span several disks, and its copies have the same identity as the original",
	"zfs":     "a ZFS pool can span several disks, and only its own host can import a copy",
	"overlay": "an overlay has its files in other file systems",
	"nfs":     "the files are on another machine",
	"nfs4":    "the files are on another machine",
	"cifs":    "the files are on another machine",
	"ceph":    "the files are on other machines",
	"9p":      "the files are on another machine",
	"tmpfs":   "the files are in memory",
	"ramfs":   "the files are in memory",
	"rootfs":  "the files are in memory",
}

// pooled are file systems with data and a number of no device: a number with the major 0 is not a disk's.
var pooled = []string{"btrfs", "zfs", "bcachefs"}

// readOnlyKinds are file systems that are never written, such as those of snaps.
var readOnlyKinds = []string{"squashfs", "erofs", "iso9660"}

// bootPoints are mount points of the boot loader's partitions. They change only with packages, and a flush suffices.
var bootPoints = []string{"/boot", "/boot/efi", "/efi"}

// volumes are directories for disks that are no part of the machine: of pods, and of people.
var volumes = []string{"/var/lib/kubelet/pods/", "/var/lib/kubelet/plugins/", "/mnt/", "/media/", "/run/"}

// finder describes a device by its number major:minor.
type finder = func(number string) (device, error)

// judgeDisk returns the device of the root file system, or a refusal. It also returns the mount points on other partitions
// of the same disk, which the copy includes.
func judgeDisk(mounts []tree.MountPoint, find finder) (root tree.MountPoint, dev device, beside []string, err error) {
	// The last mount at a point covers the others.
	for _, m := range mounts {
		if m.Dir == "/" {
			root = m
		}
	}
	if dev, err = judgeRoot(root, find); err != nil {
		return root, dev, nil, err
	}
	for _, m := range mounts {
		if !holdsData(m) || m.Device == root.Device {
			continue
		}
		if err := judgeOther(m, dev, find); err != nil {
			return root, dev, nil, err
		}
		beside = append(beside, m.Dir)
	}
	return root, dev, beside, nil
}

// CheckDisk returns a *RefusedError if the disk of the host at t is not copied while it runs, and changes nothing. It reads what everyone
// may read; nil also means that this does not suffice.
func CheckDisk(t *tree.Tree) error {
	mounts, err := mountsOfHost(t)
	if err == nil {
		_, _, _, err = judgeDisk(mounts, func(number string) (device, error) { return deviceOf(t, number) })
	}
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		return refused
	}
	return nil
}

// judgeRoot returns the device of the root file system, or a refusal.
func judgeRoot(root tree.MountPoint, find finder) (device, error) {
	if root.Dir == "" {
		return device{}, errors.New("the mount table of the host has no root file system")
	}
	if !slices.Contains(supported, root.Kind) {
		why := whyNotKind[root.Kind]
		if strings.HasPrefix(root.Kind, "fuse") {
			why = "a program serves the files"
		}
		if why != "" {
			why = " (" + why + ")"
		}
		return device{}, refusef("the root file system is %s on %s%s, and only ext4 and xfs are copied while they run: %s",
			root.Kind, root.Source, why, inPlace)
	}
	dev, err := find(root.Device)
	switch {
	case err != nil:
		return dev, fmt.Errorf("find the disk of the root file system (%s, device %s): %w", root.Source, root.Device, err)
	case dev.made != "":
		return dev, refusef("the root file system is on %s, %s, and only a plain disk or partition is copied while it runs: %s", dev.name, dev.made, inPlace)
	}
	return dev, nil
}

// judgeOther refuses another file system with data of the machine, except the boot loader's on the disk of the root.
func judgeOther(m tree.MountPoint, root device, find finder) error {
	if slices.Contains(pooled, m.Kind) {
		return refusef("%s is %s, and a copy of %s lacks it: %s", m.Dir, m.Kind, root.disk, inPlace)
	}
	other, err := find(m.Device)
	switch {
	case err != nil:
		return fmt.Errorf("find the disk of %s (%s, device %s): %w", m.Dir, m.Source, m.Device, err)
	case other.disk != root.disk:
		return refusef("%s is on another disk (%s), and the copy of %s lacks it: %s", m.Dir, other.name, root.disk, inPlace)
	case !slices.Contains(bootPoints, m.Dir):
		return refusef("%s is on a partition of its own (%s), and a copy has one moment for one file system: %s", m.Dir, other.name, inPlace)
	}
	return nil
}

// holdsData reports whether a mount has data of the machine on a disk of the machine.
func holdsData(m tree.MountPoint) bool {
	if slices.ContainsFunc(volumes, func(dir string) bool { return strings.HasPrefix(m.Dir+"/", dir) }) {
		return false
	}
	if strings.HasPrefix(m.Device, "0:") {
		return slices.Contains(pooled, m.Kind)
	}
	return !slices.Contains(readOnlyKinds, m.Kind)
}

// mountsOfHost are the mounts that PID 1 of the host has.
func mountsOfHost(t *tree.Tree) (mounts []tree.MountPoint, err error) {
	content, err := t.Read("proc/1/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the mount table of the host: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		if m, ok := tree.ParseMount(line); ok {
			mounts = append(mounts, m)
		}
	}
	return mounts, nil
}

// deviceOf describes a device by its number, from sysfs.
func deviceOf(t *tree.Tree, number string) (device, error) {
	at, _, err := t.Resolve("sys/dev/block/" + number)
	if err != nil {
		return device{}, fmt.Errorf("/sys/dev/block/%s: %w", number, err)
	}
	exists := func(p string) bool { _, err := t.Lstat(p); return err == nil }
	d := device{name: path.Base(at)}
	whole := at
	if exists(at + "/partition") {
		whole = path.Dir(at)
	}
	d.disk = path.Base(whole)
	d.made = madeOf(d.disk, whole, exists)
	if d.made == "a mapped device" {
		d.made, err = mappedBy(t, whole)
	}
	return d, err
}

// networked begins the names of disks on other machines.
var networked = []string{"nbd", "rbd", "drbd"}

// madeOf says what made a whole disk from others, by its path in sysfs; empty for a disk of the machine. Source: sysfs of
// Linux, block/genhd.c, drivers/block, drivers/md and drivers/scsi.
func madeOf(name, at string, exists func(string) bool) string {
	switch {
	case exists(at + "/dm"):
		return "a mapped device"
	case exists(at + "/md"):
		return "a RAID array (md)"
	case exists(at+"/bcache") || strings.HasPrefix(name, "bcache"):
		return "a cached device (bcache)"
	case exists(at+"/loop") || strings.HasPrefix(name, "loop"):
		return "a file as a device (loop)"
	case strings.HasPrefix(name, "zram") || strings.HasPrefix(name, "ram"):
		return "a device in memory"
	case slices.ContainsFunc(networked, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
		return "a disk of another machine"
	case strings.Contains(at, "/session"):
		return "a disk of another machine (iSCSI)"
	}
	return ""
}

// mappedBy says which program made a mapped device. The prefix of its UUID names the program. Source: dmsetup(8).
func mappedBy(t *tree.Tree, at string) (string, error) {
	uuid, err := t.Read(at + "/dm/uuid")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	prefix, _, _ := strings.Cut(string(uuid), "-")
	switch prefix {
	case "LVM":
		return "a logical volume (LVM)", nil
	case "CRYPT":
		return "an encrypted device (LUKS)", nil
	case "mpath":
		return "a device with several paths (multipath)", nil
	}
	return "a mapped device", nil
}
