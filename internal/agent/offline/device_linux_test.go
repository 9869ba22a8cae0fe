package offline

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/cloud"
)

var here = machine{sys: "/sys", proc: "/proc", root: "/"}

// loop attaches an image to a device with partitions. It needs root.
func loop(t *testing.T, image string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("devices need root")
	}
	device := strings.TrimSpace(command(t, "", "losetup", "--find", "--show", image))
	t.Cleanup(func() {
		_ = exec.Command("partx", "--delete", device).Run()
		_ = exec.Command("losetup", "--detach", device).Run()
	})
	// Not every kernel reads partition tables, and the device may have partitions of an earlier file.
	_ = exec.Command("partx", "--delete", device).Run()
	command(t, "", "partx", "--add", device)
	return device
}

// TestDevicesInUse needs root. Whatever uses a disk or a partition refuses it.
func TestDevicesInUse(t *testing.T) {
	device := loop(t, image(t, 64<<20, "label: gpt\nsize=20M\nsize=20M\n"))
	if _, err := openDevice(here, device); err != nil {
		t.Fatalf("nothing uses it: %v", err)
	}
	refused := func(path, says string) {
		t.Helper()
		_, err := openDevice(here, path)
		var r *generalize.Refused
		if !errors.As(err, &r) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", path, err, says)
		}
	}
	refused(device+"p1", "is a partition. Pass its disk, /dev/"+filepath.Base(device))
	refused(filepath.Join(t.TempDir(), "none"), "Attach the volume first")
	refused(image(t, 1<<20, ""), "is not a block device")
	refused("/dev/null", "is not a block device")

	command(t, "", "mkfs.ext4", "-q", device+"p1")
	point := t.TempDir()
	if err := unix.Mount(device+"p1", point, "ext4", 0, ""); err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	refused(device, "is mounted at "+point)
	if err := unix.Unmount(point, 0); err != nil {
		t.Fatal(err)
	}
	// The kernel knows of mounts that no list of this program shows.
	held, err := os.OpenFile(device+"p2", os.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		t.Fatal(err)
	}
	refused(device, "is in use")
	held.Close()
	if _, err := openDevice(here, device); err != nil {
		t.Errorf("nothing uses it any more: %v", err)
	}
}

// TestOwnDisk: the disk of the running machine is refused by the number of its root, before anything is opened.
func TestOwnDisk(t *testing.T) {
	var s unix.Stat_t
	if err := unix.Stat("/", &s); err != nil || unix.Major(s.Dev) == 0 {
		t.Skip("the root is on no disk")
	}
	dir, err := filepath.EvalSymlinks("/sys/dev/block/" + numberText(s.Dev))
	if err != nil {
		t.Skip(err)
	}
	if fileText(dir, "partition") != "" {
		dir = filepath.Dir(dir)
	}
	_, err = openDevice(here, "/dev/"+filepath.Base(dir))
	if err == nil ||
		!strings.Contains(err.Error(), "is the disk that this machine runs from") && !strings.Contains(err.Error(), "is made of other devices") {
		t.Errorf("got %v", err)
	}
}

// TestSerials reads a device's identity as the drivers show it in sysfs.
func TestSerials(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		match []string
		other []string
	}{
		"nvme of AWS": {map[string]string{"device/serial": "vol0123456789abcdef0\n", "wwid": "nvme.1d0f-766f6c\n"}, []string{"vol-0123456789abcdef0",
			"VOL0123456789ABCDEF0"}, []string{"vol-0123456789abcdef1", "vol"}},
		"virtio": {map[string]string{"serial": "disk-2\n"}, []string{"disk-2"}, []string{"disk-1"}},
		"scsi":   {map[string]string{"device/vpd_pg80": "\x00\x80\x00\x08  0QEMU1\x00"}, []string{"0QEMU1"}, []string{"0QEMU2"}},
		"none":   {nil, []string{""}, []string{"vol-1"}},
	} {
		d := &device{path: "/dev/x", dir: t.TempDir()}
		for file, content := range c.files {
			at := filepath.Join(d.dir, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		for _, serial := range c.match {
			if err := d.refuseOther(serial); err != nil {
				t.Errorf("%s: %s: %v", name, serial, err)
			}
		}
		for _, serial := range c.other {
			if err := d.refuseOther(serial); err == nil || !strings.Contains(err.Error(), "the copy is "+serial+". Pass the device of the copy") {
				t.Errorf("%s: %s: %v", name, serial, err)
			}
		}
	}
}

// TestHeldDisks: swap and mapped devices refuse the disk, as sysfs and /proc/swaps show them.
func TestHeldDisks(t *testing.T) {
	device := loop(t, image(t, 64<<20, "label: gpt\nsize=20M\n"))
	proc := t.TempDir()
	if err := os.WriteFile(filepath.Join(proc, "swaps"), []byte("Filename\tType\n"+device+"p1 partition 1 2 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openDevice(machine{"/sys", proc, "/"}, device); err == nil || !strings.Contains(err.Error(), "Run swapoff "+device+"p1") {
		t.Errorf("swap: %v", err)
	}
	var s unix.Stat_t
	if err := unix.Stat(device, &s); err != nil {
		t.Fatal(err)
	}
	for holder, says := range map[string]string{
		"holders/dm-0": "is held by /dev/dm-0", "slaves/sdb": "made of other devices", "dm/name": "made of other devices",
	} {
		sys := t.TempDir()
		if err := os.MkdirAll(filepath.Join(sys, "dev/block", numberText(s.Rdev), holder), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := openDevice(machine{sys, t.TempDir(), "/"}, device); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", holder, err)
		}
	}
}

// TestToolsOfTheMachine: a program is looked for in the machine's root only, and a missing one is refused with its package.
func TestToolsOfTheMachine(t *testing.T) {
	m := machine{root: t.TempDir()}
	parts := []Partition{part(1, ext4, ""), part(2, xfs, ""), part(3, vfat, ""), part(4, swap, "")}
	err := m.refuseWithoutTools(parts)
	for _, says := range []string{"e2fsprogs", "xfsprogs", "dosfstools"} {
		if err == nil || !strings.Contains(err.Error(), "Install the package "+says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	for i, name := range []string{"usr/sbin/e2fsck", "sbin/xfs_repair", "usr/bin/fsck.vfat"} {
		at := filepath.Join(m.root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte("#!"), 0o755)); err != nil {
			t.Fatal(err)
		}
		if err := m.refuseWithoutTools(parts[:i+1]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := m.find("xfs_repair"); got != "/sbin/xfs_repair" {
		t.Errorf("found %q", got)
	}
}

// TestPartitionOfTheKernel: a partition that the kernel has elsewhere is refused.
func TestPartitionOfTheKernel(t *testing.T) {
	device := loop(t, image(t, 64<<20, "label: gpt\nsize=20M\n"))
	d, err := openDevice(here, device)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	parts, err := partitions(f, d.size)
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	var s unix.Stat_t
	if err := unix.Stat(device+"p1", &s); err != nil {
		t.Fatal(err)
	}
	if number, err := d.partitionNumber(parts[0]); err != nil || number != s.Rdev {
		t.Errorf("got %d, %v, want %d", number, err, s.Rdev)
	}
	changes := []func(*Partition){
		func(p *Partition) { p.Number = 2 }, func(p *Partition) { p.Begin += sector }, func(p *Partition) { p.Length -= sector },
	}
	for _, change := range changes {
		p := parts[0]
		change(&p)
		if _, err := d.partitionNumber(p); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("blockdev --rereadpt %s", device)) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// TestDiskOfASerialNumber finds the only disk that shows the number.
func TestDiskOfASerialNumber(t *testing.T) {
	m := machine{sys: t.TempDir(), root: "/host"}
	for name, serial := range map[string]string{"nvme0n1": "vol01", "nvme1n1": "vol02", "nvme2n1": "vol03", "nvme3n1": "vol03"} {
		dir := filepath.Join(m.sys, "block", name, "device")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "serial"), []byte(serial+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if path, err := m.findDisk("vol-02"); err != nil || path != "/host/dev/nvme1n1" {
		t.Errorf("found %s: %v", path, err)
	}
	for serial, says := range map[string]string{"": "no disk", "vol-04": "no disk", "vol-03": "several disks"} {
		if path, err := m.findDisk(serial); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: found %s: %v", serial, path, err)
		}
	}
}

// TestDiskAtALUN finds a data disk of Azure by its logical unit number: on the SCSI controllers of data disks, or as an NVMe
// namespace. Disks of the system at the same number are others.
func TestDiskAtALUN(t *testing.T) {
	const vmbus, guid = "devices/ACPI0004:00/VMBUS:00/", "-1e82-4818-a1c3-63d806ec15bb"
	m := machine{sys: t.TempDir(), root: "/host"}
	disk := func(dir string, files map[string]string) {
		t.Helper()
		full := filepath.Join(m.sys, dir)
		err := errors.Join(os.MkdirAll(filepath.Join(full, "device"), 0o755), os.MkdirAll(filepath.Join(m.sys, "block"), 0o755),
			os.Symlink(full, filepath.Join(m.sys, "block", filepath.Base(dir))))
		for name, content := range files {
			err = errors.Join(err, os.WriteFile(filepath.Join(full, name), []byte(content+"\n"), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, at := range map[string][2]string{
		"sda": {"f8b3781a", "0:0:0:0"}, "sdb": {"f8b3781a", "0:0:0:1"}, "sdc": {"f8b3781b", "1:0:0:1"}, "sdd": {"f8b3781b", "1:0:0:0"},
	} {
		disk(vmbus+at[0]+guid+"/host1/target1:0:0/"+at[1]+"/block/"+name, nil)
		id := filepath.Join(m.sys, vmbus+at[0]+guid, "device_id")
		if err := os.WriteFile(id, []byte("{"+at[0]+guid+"}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for nsid, model := range []string{"", remoteNVMe, remoteNVMe, "", remoteNVMe, "Microsoft NVMe Direct Disk v2"} {
		if model != "" {
			disk(fmt.Sprintf("devices/pci/nvme/nvme0/nvme0n%d", nsid), map[string]string{"nsid": fmt.Sprint(nsid), "device/model": model})
		}
	}
	for lun, want := range map[int]string{1: "sdc", 2: "nvme0n4"} {
		if path, err := m.findDisk(cloud.SerialOfLUN(lun)); err != nil || path != "/host/dev/"+want {
			t.Errorf("LUN %d: found %s: %v", lun, path, err)
		}
	}
	for lun, says := range map[int]string{0: "several disks", 3: "no disk"} { // sdd and nvme0n2 are both at LUN 0
		if path, err := m.findDisk(cloud.SerialOfLUN(lun)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("LUN %d: found %s: %v", lun, path, err)
		}
	}
}
