package generalize

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// device is a block device that a boot needs.
type device struct {
	line int
	// spec is the name in the configuration, for example UUID=…, and point the mount point or the mapped name.
	spec, point string
	// isSwap: a clone boots without it.
	isSwap bool
}

// systemPoints are mount points of the root's own disk, if the disk of a device is unknown.
var systemPoints = []string{"/", "/boot", "/boot/efi", "/boot/firmware", "/efi", "/usr"}

// swapSpace is the point of swap space in fstab and units.
const swapSpace = "swap"

// virtual matches devices that the kernel makes on every machine.
var virtual = regexp.MustCompile(`^/dev/(?:zram|loop|ram|shm)`)

// withoutDisk are file systems without a disk. Source: filesystems(5).
var withoutDisk = strings.Fields("proc sysfs tmpfs devtmpfs devpts cgroup cgroup2 overlay nfs nfs4 cifs smb3 ceph glusterfs lustre 9p virtiofs efs")

// devices returns the devices in fstab, crypttab or a unit that a boot waits for.
func devices(p string, content []byte) []device {
	switch {
	case strings.HasSuffix(p, ".mount"):
		return unitDevices(string(content), "")
	case strings.HasSuffix(p, ".swap"):
		return unitDevices(string(content), swapSpace)
	case strings.HasSuffix(p, ".conf"):
		return arrays(string(content))
	case path.Base(p) == "crypttab":
		return lineDevices(content, func(f []string) (spec, point string, options string) {
			return f[1], "/dev/mapper/" + f[0], strings.Join(f[min(3, len(f)):], ",")
		})
	default:
		return lineDevices(content, func(f []string) (spec, point string, options string) {
			if len(f) > 2 && slices.Contains(withoutDisk, f[2]) {
				return "", "", ""
			}
			if len(f) > 2 && f[2] == "swap" {
				f[1] = swapSpace
			}
			return f[0], f[1], strings.Join(f[min(3, len(f)):min(4, len(f))], ",")
		})
	}
}

func lineDevices(content []byte, parse func(fields []string) (spec, point, options string)) (found []device) {
	for number, line := range strings.Split(string(content), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		spec, point, text := parse(fields)
		options := parseOptions(text)
		if isDevice(spec) && !options.isOptional(point == swapSpace) {
			found = append(found, device{number + 1, spec, tree.Unescape(point), point == swapSpace || slices.Contains(options, "swap")})
		}
	}
	return found
}

// arrays returns the arrays that mdadm assembles at boot, and the disks by which it looks for their parts. Source:
// mdadm.conf(5).
func arrays(content string) (found []device) {
	for number, line := range strings.Split(content, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch strings.ToUpper(fields[0]) {
		case "ARRAY":
			if isDevice(fields[1]) {
				found = append(found, device{number + 1, fields[1], "an array", false})
			}
			if disk := kernelNameIn(fields[2:]); disk != "" {
				found = append(found, device{number + 1, disk, "an array", false})
			}
		case "DEVICE", "DEVICES":
			for _, spec := range fields[1:] {
				if strings.HasPrefix(spec, "/dev/disk/by-id/") || kernelName.MatchString(spec) {
					found = append(found, device{number + 1, spec, "an array", false})
				}
			}
		}
	}
	return found
}

// unitDevices returns the device of a unit for a mount or swap space. systemd honors nofail in the options of a mount alone;
// TimeoutSec limits the mount, and not the wait for the device. Source: systemd.mount(5), systemd.swap(5), systemd.unit(5).
func unitDevices(content, point string) []device {
	d, isOptional := device{point: point}, false
	for number, line := range strings.Split(content, "\n") {
		key, value, _ := strings.Cut(line, "=")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "What":
			d.line, d.spec = number+1, strings.Trim(value, `"`)
		case "Where":
			d.point = value
		case "Type":
			if slices.Contains(withoutDisk, value) {
				return nil
			}
		case "Options":
			if options := parseOptions(value); point != swapSpace {
				isOptional = options.isElsewhere() || options.isNofail()
			}
		case "JobTimeoutSec":
			isOptional = isOptional || point == swapSpace && isShort(value)
		}
	}
	if isOptional || !isDevice(d.spec) {
		return nil
	}
	return []device{d}
}

// tags are the tags of fstab(5), with udev's directories of links.
var tags = map[string]string{
	"UUID": "by-uuid", "LABEL": "by-label", "PARTUUID": "by-partuuid", "PARTLABEL": "by-partlabel", "ID": "by-id",
}

// isDevice reports whether a name is a tag or a path of a block device.
func isDevice(spec string) bool {
	tag, _, tagged := strings.Cut(spec, "=")
	return tagged && tags[tag] != "" || strings.HasPrefix(spec, "/dev/")
}

// devicePath returns the path of a device in the tree.
func devicePath(spec string) string {
	if tag, value, tagged := strings.Cut(spec, "="); tagged && tags[tag] != "" {
		value = strings.ReplaceAll(strings.Trim(value, `"`), " ", `\x20`)
		return path.Join("dev/disk", tags[tag], value)
	}
	return tree.Rel(spec)
}

// disks knows the disk of the root file system.
type disks struct {
	tree *tree.Tree
	root []string
}

func disksOf(t *tree.Tree) disks {
	d := disks{tree: t}
	if info, err := t.Lstat("."); err == nil && t.Running() {
		if s, known := info.Sys().(*syscall.Stat_t); known {
			d.root = d.below(fmt.Sprintf("sys/dev/block/%d:%d", s.Dev>>8&0xfff, s.Dev&0xff|s.Dev>>12&0xfff00), 0)
		}
	}
	return d
}

// below returns the disks of a device in sysfs: itself, the disk of a partition, or the disks of a mapped device.
func (d disks) below(at string, depth int) []string {
	real, _, err := d.tree.Resolve(at)
	if err != nil || depth > 8 {
		return nil
	}
	if slaves, err := d.tree.List(path.Join(real, "slaves")); err == nil && len(slaves) > 0 {
		var all []string
		for _, s := range slaves {
			all = append(all, d.below(path.Join(real, "slaves", s.Name()), depth+1)...)
		}
		return all
	}
	if _, err := d.tree.Lstat(path.Join(real, "partition")); err == nil {
		real = path.Dir(real)
	}
	return []string{path.Base(real)}
}

// sysfs returns the path in sysfs of a device, by its name or numbers; empty if there is no such device.
func (d disks) sysfs(at string) string {
	if deviceNumbers.MatchString(at) {
		return "sys/dev/block/" + at
	}
	real, _, err := d.tree.Resolve(at)
	if err != nil {
		return ""
	}
	return "sys/class/block/" + path.Base(real)
}

// foreign reports whether a clone may lack a device: another disk, or a name with the serial number of the donor's
// disk. If sysfs does not show the disk, only mount points of the system are on the root's disk.
func (d disks) foreign(dev device) bool {
	if virtual.MatchString(dev.spec) {
		return false
	}
	at := devicePath(dev.spec)
	if name, byID := strings.CutPrefix(at, "dev/disk/by-id/"); byID {
		return !slices.ContainsFunc([]string{"dm-name-", "dm-uuid-LVM-", "lvm-pv-uuid-", "md-uuid-", "md-name-"},
			func(of string) bool { return strings.HasPrefix(name, of) })
	}
	if len(d.root) > 0 {
		at = d.sysfs(at)
		if at == "" {
			return true
		}
		own := d.below(at, 0)
		return len(own) == 0 || slices.ContainsFunc(own, func(disk string) bool { return !slices.Contains(d.root, disk) })
	}
	return dev.point != "" && dev.point != "none" && !slices.Contains(systemPoints, dev.point)
}

// foreignDevices returns the devices of a file that a clone may lack, or may have by another name.
func foreignDevices(t *tree.Tree, p string, content []byte) []device {
	isOwn := ownDevices(t, p)
	found := slices.DeleteFunc(devices(p, content), func(dev device) bool { return isOwn(dev) && !isKernelName(dev.spec, dev.point) })
	if path.Base(p) != "fstab" {
		return found
	}
	found = append(found, bindMounts(content, isOwn)...)
	slices.SortStableFunc(found, func(a, b device) int { return a.line - b.line })
	return found
}

// bindMounts returns bind mounts of directories on disks that a clone may lack. They fail with the mount of the disk, also with one
// that is optional. Source: systemd.mount(5), implicit dependencies.
func bindMounts(content []byte, isOwn func(device) bool) (found []device) {
	type line struct {
		device
		options mountOptions
	}
	var lines []line
	for number, text := range strings.Split(string(content), "\n") {
		if fields := strings.Fields(text); len(fields) > 3 && !strings.HasPrefix(fields[0], "#") {
			lines = append(lines, line{device{line: number + 1, spec: tree.Unescape(fields[0]), point: tree.Unescape(fields[1])}, parseOptions(fields[3])})
		}
	}
	for _, bind := range lines {
		if !bind.options.has("bind", "rbind") || bind.options.isNofail() || bind.options.has("noauto", "x-systemd.automount") {
			continue
		}
		if slices.ContainsFunc(lines, func(disk line) bool {
			return isDevice(disk.spec) && strings.HasPrefix(bind.spec+"/", disk.point+"/") && !slices.Contains(systemPoints, disk.point) && !isOwn(disk.device)
		}) {
			found = append(found, bind.device)
		}
	}
	return found
}

// ownDevices returns a function that reports whether a device of a file is on the disk of the root.
func ownDevices(t *tree.Tree, p string) func(device) bool {
	d := disksOf(t)
	var system []string
	if path.Base(p) == "crypttab" || path.Ext(p) == ".conf" {
		system = systemDevices(t)
	}
	return func(dev device) bool {
		return slices.Contains(system, dev.point) || slices.Contains(system, dev.spec) || !d.foreign(dev)
	}
}

// systemDevices returns the devices of the system's file systems, as fstab names them.
func systemDevices(t *tree.Tree) (system []string) {
	fstab, err := t.Read("etc/fstab")
	if err != nil {
		return nil
	}
	for _, dev := range devices("etc/fstab", fstab) {
		if slices.Contains(systemPoints, dev.point) {
			system = append(system, dev.spec)
		}
	}
	return system
}

var (
	// bootParameter matches parameters of the kernel command line that wait for a disk, and the same setting of
	// initramfs-tools. The first group is the name, and the second the device.
	bootParameter = regexp.MustCompile(`(?:^|[\s"'=])(resume|RESUME|mount\.usr|cryptdevice|(?:rd\.)?systemd\.(?:mount|swap)[_-]extra|rd\.luks\.uuid|rd\.luks\.name|rd\.lvm\.lv)=["']?([^\s"']+)`)
	// dracutDevice matches settings of dracut with a device.
	dracutDevice  = regexp.MustCompile(`^\s*(add_device|fstab_lines)\+?=["']?\s*([^\s"']+)`)
	noResume      = regexp.MustCompile(`(?:^|[\s"'])noresume(?:[\s"']|$)`)
	deviceNumbers = regexp.MustCompile(`^[0-9]+:[0-9]+$`)
)

// waitsForDisk reports whether boot parameters name a disk that a clone may lack. Without sysfs the parameters of LUKS
// and LVM are not judged, because only sysfs shows which of them hold the root file system.
func waitsForDisk(t *tree.Tree, content []byte) bool {
	d, system := disksOf(t), systemDevices(t)
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, m := range slices.Concat(bootParameter.FindAllStringSubmatch(line, -1), dracutDevice.FindAllStringSubmatch(line, -1)) {
			name := strings.ToLower(m[1])
			spec := awaitedDevice(name, m[2], line, len(d.root) > 0)
			if spec != "" && !slices.ContainsFunc(system, func(own string) bool { return sameDisks(own, spec) }) && d.foreign(device{spec: spec, point: name}) {
				return true
			}
		}
	}
	return false
}

// awaitedDevice is the device that a boot parameter waits for; empty if the boot does not wait, or if only sysfs could show that.
func awaitedDevice(name, spec, line string, hasSysfs bool) string {
	switch {
	case strings.Contains(name, "systemd."):
		parts, isSwap, at := strings.Split(spec, ":"), strings.Contains(name, "swap"), 3
		if isSwap {
			at = 1
		}
		if len(parts) > at && parseOptions(parts[at]).isOptional(isSwap) {
			return ""
		}
		spec = parts[0]
	case name == "resume" && noResume.MatchString(line), strings.HasPrefix(name, "rd.") && !hasSysfs:
		return ""
	case name == "cryptdevice":
		spec, _, _ = strings.Cut(spec, ":")
	case strings.HasPrefix(name, "rd.luks."):
		spec, _, _ = strings.Cut(strings.TrimPrefix(spec, "luks-"), "=")
		spec = "UUID=" + spec
	case strings.HasPrefix(name, "rd."):
		spec = "/dev/" + spec
	}
	if hasSysfs && deviceNumbers.MatchString(spec) || isDevice(spec) {
		return spec
	}
	return ""
}

// sameDisks reports whether two names are equal, or of volumes of one group. A group without one of its disks has no
// root file system.
func sameDisks(a, b string) bool {
	group := volumeGroup(a)
	return a == b || group != "" && group == volumeGroup(b)
}

// volumeGroup returns the group of a logical volume; empty for other devices.
func volumeGroup(spec string) string {
	dir, name := path.Split(spec)
	switch {
	case dir == "/dev/mapper/":
		const dash = "\x00"
		group, _, mapped := strings.Cut(strings.ReplaceAll(name, "--", dash), "-")
		if !mapped {
			return ""
		}
		return strings.ReplaceAll(group, dash, "-")
	case strings.Count(spec, "/") == 3 && strings.HasPrefix(spec, "/dev/"):
		return path.Base(dir)
	default:
		return ""
	}
}

// refuseForeign names the first device that a clone may lack.
func refuseForeign(t *tree.Tree, p string, content []byte, _ *DonorValues) string {
	found := slices.DeleteFunc(foreignDevices(t, p, content), func(dev device) bool { return dev.isSwap })
	if len(found) == 0 {
		return ""
	}
	if path.Ext(p) == ".conf" {
		return fmt.Sprintf("line %d assembles %s, and a clone has no such disks. Remove the line, then run update-initramfs -u or dracut -f",
			found[0].line, found[0].spec)
	}
	if path.Ext(p) != "" {
		if wanted, err := (files{tree: t}).wanted(path.Base(p)); err == nil && !wanted {
			return ""
		}
	}
	if dev := found[0]; isKernelName(dev.spec, dev.point) && ownDevices(t, p)(dev) {
		return fmt.Sprintf("line %d names %s for %s, and other hardware gives the disk another name. Name it by the UUID= of blkid %s (in a unit: /dev/disk/by-uuid/UUID)",
			dev.line, dev.spec, dev.point, dev.spec)
	}
	if found[0].point == swapSpace {
		return fmt.Sprintf("line %d needs %s, and each boot of a clone without this disk would wait %d seconds. Set JobTimeoutSec=10 in [Unit], or run systemctl disable '%s'",
			found[0].line, found[0].spec, defaultWait, path.Base(p))
	}
	return fmt.Sprintf("line %d needs %s for %s, and the boot of a clone without this disk would stop. Add nofail to the line (in a unit: Options=nofail), or remove the line",
		found[0].line, found[0].spec, found[0].point)
}

// addNofail adds the option to the lines with a device that a clone may lack, and a timeout for swap space. Units stay.
func addNofail(t *tree.Tree, p string, content []byte, _ *rules.Rule, _ *DonorValues) []byte {
	found := foreignDevices(t, p, content)
	if path.Ext(p) != "" {
		return content
	}
	lines := bytes.SplitAfter(content, []byte("\n"))
	for _, dev := range found {
		fields, column := strings.Fields(string(lines[dev.line-1])), 3
		if path.Base(p) == "crypttab" {
			for len(fields) < 3 {
				fields = append(fields, "none")
			}
		} else if len(fields) == 2 {
			fields = append(fields, "auto")
		}
		if len(fields) == column {
			fields = append(fields, "")
		}
		fields[column] = strings.Join(parseOptions(fields[column]).optional(dev.point == swapSpace), ",")
		lines[dev.line-1] = []byte(strings.Join(fields, " ") + "\n")
	}
	return bytes.Join(lines, nil)
}

// nofailAdded is the second look at addNofail: by words, without the parser.
func nofailAdded(t *tree.Tree, p string, content []byte, r *rules.Rule, before *DonorValues) string {
	if path.Ext(p) != "" || bytes.Equal(addNofail(t, p, content, r, before), content) {
		return ""
	}
	return "a line still needs a disk, which a clone may not have"
}

// noID replaces the machine ID in the names of boot entries. The first boot writes the clone's own ID there.
const noID = "00000000000000000000000000000000"

// dropBootID removes the machine ID from a boot entry or the environment of GRUB. The size of the content stays.
func dropBootID(_ *tree.Tree, _ string, content []byte, _ *rules.Rule, before *DonorValues) []byte {
	if len(before.id) != len(noID) {
		return content
	}
	return bytes.ReplaceAll(content, []byte(before.id), []byte(noID))
}

func bootIDDropped(_ *tree.Tree, p string, content []byte, _ *rules.Rule, before *DonorValues) string {
	if before.id != "" && strings.Contains(path.Base(p)+" "+string(content), before.id) {
		return "the machine ID is in the name or in the content"
	}
	return ""
}

// renameBootEntry returns the name of a boot entry without the machine ID.
func renameBootEntry(p string, before *DonorValues) string {
	if len(before.id) != len(noID) {
		return p
	}
	return path.Join(path.Dir(p), strings.ReplaceAll(path.Base(p), before.id, noID))
}

// isLink reports whether a match is a symbolic link.
func isLink(m tree.Match) bool { return m.Info.Mode()&fs.ModeSymlink != 0 }
