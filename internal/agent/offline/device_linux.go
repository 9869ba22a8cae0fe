package offline

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// machine is where this machine describes its devices and mounts, and where its tools are.
type machine struct {
	// sys and proc are /sys and /proc.
	sys, proc string
	// root is the root directory of the machine that has the tools; "/" outside of a pod.
	root string
}

// device is a whole disk of this machine.
type device struct {
	machine
	// path is the device's file, and dir its directory in sysfs.
	path, dir string
	number    uint64
	size      int64
}

// openDevice finds the disk of a device file, and refuses anything but a plain disk that nothing uses.
func openDevice(m machine, path string) (*device, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return nil, refusef("the device %s cannot be read: %v. Attach the volume first", path, err)
	}
	if s.Mode&unix.S_IFMT != unix.S_IFBLK {
		return nil, refusef("%s is not a block device. For a raw image use losetup --find --show --partscan FILE, and pass the printed device", path)
	}
	d := &device{machine: m, path: path, number: s.Rdev}
	dir, err := filepath.EvalSymlinks(filepath.Join(m.sys, "dev/block", numberText(s.Rdev)))
	if err != nil {
		return nil, refusef("the kernel does not describe %s: %v. Mount sysfs at %s", path, err, m.sys)
	}
	d.dir = dir
	switch {
	case d.has("partition"):
		return nil, refusef("%s is a partition. Pass its disk, /dev/%s", path, filepath.Base(filepath.Dir(dir)))
	case d.has("dm"), d.has("md"), len(d.names("slaves")) > 0:
		return nil, refusef("%s is made of other devices (LVM, md or LUKS), and Kamino cleans only plain disks. %s", path, inPlace)
	}
	if err := d.refuseInUse(); err != nil {
		return nil, err
	}
	f, err := d.exclusive()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d.size, err = f.Seek(0, io.SeekEnd)
	return d, err
}

// findDisk returns the file of the only disk with the serial number.
func (m machine) findDisk(serial string) (string, error) {
	var found []string
	for _, name := range entries(filepath.Join(m.sys, "block")) {
		dir, err := filepath.EvalSymlinks(filepath.Join(m.sys, "block", name))
		if err == nil && serial != "" && (&device{machine: m, dir: dir}).shows(serial) {
			found = append(found, filepath.Join(m.root, "dev", name))
		}
	}
	switch len(found) {
	case 0:
		return "", refusef("no disk of this machine shows the serial number %s. Attach the volume first: lsblk -o NAME,SERIAL", serial)
	case 1:
		return found[0], nil
	}
	return "", refusef("several disks show the serial number %s: %s. Pass the device of the copy", serial, strings.Join(found, ", "))
}

// exclusive opens the disk for this program alone. The kernel refuses a disk that is mounted, used for swap or held by another
// driver, as a whole or in a partition, in any mount namespace. Source: open(2), O_EXCL.
func (d *device) exclusive() (*os.File, error) {
	f, err := os.OpenFile(d.path, os.O_RDWR|unix.O_EXCL|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.EBUSY):
		return nil, refusef(
			"%s is in use, for example mounted in another mount namespace. End what uses the disk: lsblk %s, and grep the name in /proc/*/mountinfo",
			d.path, d.path)
	case err != nil:
		return nil, refusef("the device %s cannot be opened: %v. Run the command as root", d.path, err)
	}
	return f, nil
}

// refuseInUse names what uses the disk or a partition: the running machine, a mount, swap, or another device.
func (d *device) refuseInUse() error {
	numbers, dirs := []uint64{d.number}, []string{d.dir}
	for _, part := range d.partitionDirs() {
		dirs = append(dirs, part)
		if n, err := numberOf(part); err == nil {
			numbers = append(numbers, n)
		}
	}
	for _, root := range []string{"/", d.root, filepath.Join(d.proc, "1/root")} {
		var s unix.Stat_t
		if err := unix.Stat(root, &s); err == nil && slices.Contains(numbers, s.Dev) {
			return refusef("%s is the disk that this machine runs from. Pass the device of the copy: lsblk -o NAME,SERIAL,MOUNTPOINTS", d.path)
		}
	}
	for _, file := range []string{"self/mountinfo", "1/mountinfo"} {
		dir, err := mountedAt(filepath.Join(d.proc, file), numbers)
		if err != nil {
			return err
		}
		if dir = generalize.Printable(dir); dir != "" {
			return refusef("%s is mounted at %s. Unmount the file system: umount %s", d.path, dir, dir)
		}
	}
	if by := swapOn(filepath.Join(d.proc, "swaps"), numbers); by != "" {
		return refusef("%s is used for swap. Run swapoff %s", d.path, generalize.Printable(by))
	}
	for _, dir := range dirs {
		if by := entries(filepath.Join(dir, "holders")); len(by) > 0 {
			return refusef(
				"%s is held by /dev/%s (LVM, md or LUKS). Stop that device, for example vgchange -an or mdadm --stop; a copy with such a layout is refused: %s",
				d.path, by[0], inPlace)
		}
	}
	return nil
}

// mountedAt returns where one of the devices is mounted; empty if nowhere, or without the list.
func mountedAt(file string, numbers []uint64) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", nil // no other process with the number, or a sandbox
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m, ok := tree.ParseMount(lines.Text()); ok && slices.ContainsFunc(numbers, func(n uint64) bool { return m.Device == numberText(n) }) {
			return m.Dir, nil
		}
	}
	return "", lines.Err()
}

// swapOn returns the swap device among the devices.
func swapOn(file string, numbers []uint64) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		var s unix.Stat_t
		if len(fields) > 1 && fields[1] == "partition" && unix.Stat(tree.Unescape(fields[0]), &s) == nil && slices.Contains(numbers, s.Rdev) {
			return fields[0]
		}
	}
	return ""
}

// serials returns what identifies the disk: serial numbers and the volume's ID, as NVMe, virtio and SCSI show them, and the LUN in
// Azure. Source:
// Linux, Documentation/ABI: sysfs-block, sysfs-bus-nvme, sysfs-bus-scsi.
func (d *device) serials() (all []string) {
	for _, name := range []string{"serial", "device/serial", "device/wwid", "wwid"} {
		if content, err := os.ReadFile(filepath.Join(d.dir, name)); err == nil {
			all = append(all, strings.TrimSpace(string(content)))
		}
	}
	// The page of the serial number has a header of four bytes.
	if page, err := os.ReadFile(filepath.Join(d.dir, "device/vpd_pg80")); err == nil && len(page) > 4 {
		all = append(all, strings.Trim(string(page[4:]), " \x00"))
	}
	if lun, is := d.dataLUN(); is {
		all = append(all, cloud.SerialOfLUN(lun))
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// dataControllers are the SCSI controllers of data disks in Azure. remoteNVMe is the model of its remote disks: namespace 1 is the OS
// disk, and namespace n+2 is the data disk at LUN n. Source: azure-vm-utils, 80-azure-disk.rules and azure-nvme-id.
var dataControllers = regexp.MustCompile(`^\{?f8b3781[bcd]-1e82-4818-a1c3-63d806ec15bb\}?$`)

const remoteNVMe = "MSFT NVMe Accelerator v1.0"

// scsiAddress is host, channel, target and LUN of a SCSI disk.
var scsiAddress = regexp.MustCompile(`^\d+:\d+:\d+:(\d+)$`)

// dataLUN returns the logical unit number of a data disk in Azure.
func (d *device) dataLUN() (lun int, is bool) {
	if fileText(d.dir, "device/model") == remoteNVMe {
		n, err := strconv.Atoi(fileText(d.dir, "nsid"))
		return n - 2, err == nil && n >= 2
	}
	address := scsiAddress.FindStringSubmatch(filepath.Base(filepath.Dir(filepath.Dir(d.dir)))) // …/3:0:0:LUN/block/sdc
	if address == nil {
		return 0, false
	}
	for dir := filepath.Dir(d.dir); len(dir) > len(d.sys); dir = filepath.Dir(dir) {
		if dataControllers.MatchString(strings.ToLower(fileText(dir, "device_id"))) {
			n, err := strconv.Atoi(address[1])
			return n, err == nil
		}
	}
	return 0, false
}

// shows reports whether the disk has the serial number. Dashes do not matter.
func (d *device) shows(serial string) bool {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "")) }
	return slices.ContainsFunc(d.serials(), func(s string) bool { return plain(s) == plain(serial) })
}

// refuseOther refuses a disk without the serial number. NVMe disks of AWS show vol-0123 as vol0123.
func (d *device) refuseOther(serial string) error {
	if serial == "" || d.shows(serial) {
		return nil
	}
	shows := "no serial number"
	if found := d.serials(); len(found) > 0 {
		shows = generalize.Printable(strings.Join(found, ", "))
	}
	return refusef("%s shows %s, and the copy is %s. Pass the device of the copy: lsblk -o NAME,SERIAL", d.path, shows, serial)
}

// partitionNumber returns the device number of a partition. The kernel must see the partition where the table has it.
func (d *device) partitionNumber(p Partition) (uint64, error) {
	if p.Number == 0 {
		return d.number, nil
	}
	for _, dir := range d.partitionDirs() {
		if fileText(dir, "partition") != fmt.Sprint(p.Number) {
			continue
		}
		if fileText(dir, "start") != fmt.Sprint(p.Begin/sector) || fileText(dir, "size") != fmt.Sprint(p.Length/sector) {
			break
		}
		return numberOf(dir)
	}
	return 0, refusef("the kernel does not show partition %d of %s where the partition table has it. Read the table again: blockdev --rereadpt %s",
		p.Number, d.path, d.path)
}

// partitionDirs are the directories of the partitions in sysfs.
func (d *device) partitionDirs() (dirs []string) {
	for _, name := range entries(d.dir) {
		if dir := filepath.Join(d.dir, name); fileText(dir, "partition") != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func (d *device) has(name string) bool {
	_, err := os.Stat(filepath.Join(d.dir, name))
	return err == nil
}

func (d *device) names(dir string) []string { return entries(filepath.Join(d.dir, dir)) }

func entries(dir string) (names []string) {
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, entry := range found {
		names = append(names, entry.Name())
	}
	return names
}

func fileText(dir, name string) string {
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// numberOf reads the device number in a directory of sysfs.
func numberOf(dir string) (uint64, error) {
	var major, minor uint32
	if _, err := fmt.Sscanf(fileText(dir, "dev"), "%d:%d", &major, &minor); err != nil {
		return 0, fmt.Errorf("read the number of the device %s: %w", filepath.Base(dir), err)
	}
	return unix.Mkdev(major, minor), nil
}

func numberText(number uint64) string {
	return fmt.Sprintf("%d:%d", unix.Major(number), unix.Minor(number))
}
