package generalize

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// rootDrivers are the drivers for the root disk of a machine, by the driver of the disk. Source: Linux, drivers/{nvme,block,scsi}.
var rootDrivers = map[string][]string{
	"nvme":         {"nvme"},
	"xen_blkfront": {"xen_blkfront"},
	"virtio_blk":   {"virtio_blk", "virtio_pci"},
	"virtio_scsi":  {"virtio_scsi", "virtio_pci", "sd_mod"},
	"hv_storvsc":   {"hv_storvsc", "hv_vmbus", "sd_mod"},
}

// driversOf are the disks that a clone may get if the machines of the pool are unknown: those of the cloud whose agent is on the disk, else all.
func driversOf(t *tree.Tree) []string {
	switch {
	case osID([]byte(text(t, "etc/os-release"))) == "amzn", len(filesOf(t, "etc/amazon/ssm/*.template", "etc/eks/*")) > 0:
		return []string{"nvme", "xen_blkfront"}
	case len(filesOf(t, "etc/waagent.conf")) > 0:
		return []string{"hv_storvsc", "nvme"}
	default:
		return []string{"hv_storvsc", "nvme", "virtio_blk", "virtio_scsi", "xen_blkfront"}
	}
}

// missingDrivers returns which driver of a disk the initramfs of a clone lacks; empty if none, or if the initramfs cannot be read. A
// driver that the kernel has in no form is missing only for machines that the pool is known to have. p is the directory of the modules
// of a kernel, and wanted are the disks of these machines.
func missingDrivers(t *tree.Tree, p string, wanted []string) string {
	boot := bootKernelOf(t)
	if boot.release == "" || path.Base(p) != boot.release || len(boot.initramfs) == 0 {
		return ""
	}
	loaded, others, whole := loadedModules(t, &boot)
	if !whole {
		return ""
	}
	if others != "" && !slices.Contains(slices.Collect(maps.Values(loaded)), true) {
		return fmt.Sprintf("starts with the initramfs /%s, which has the modules of another kernel (%s). Run %s",
			boot.initramfs[0], others, rebuildCommand(t, boot.release))
	}
	own, known := tree.ModulesOf(t, boot.release), len(wanted) > 0
	if !known {
		wanted = driversOf(t)
	}
	for _, disk := range wanted {
		for _, driver := range rootDrivers[disk] {
			has := own[driver] != "" || known && driver == disk
			if has && own[driver] != tree.Builtin && !loaded[driver] {
				return fmt.Sprintf("starts with the initramfs /%s, which was built for other hardware and lacks the driver %s: "+
					"a clone on a machine with disks of %s stops before its root. Build it for all hardware: %s",
					boot.initramfs[len(boot.initramfs)-1], driver, disk, rebuildCommand(t, boot.release))
			}
		}
	}
	return ""
}

// loadedModules are the modules in the initramfs of a kernel, and whether they are of that kernel. others is the release of another
// kernel with modules there. whole is false if the initramfs cannot be read.
func loadedModules(t *tree.Tree, boot *bootKernel) (loaded map[string]bool, others string, whole bool) {
	loaded = map[string]bool{}
	for _, file := range boot.initramfs {
		names, whole := initramfsOf(t, file)
		if !whole {
			return nil, "", false
		}
		for _, name := range names {
			module := tree.ModuleName(name)
			_, below, found := strings.Cut(name, "/lib/modules/")
			if !found || module == "" {
				continue
			}
			release, _, _ := strings.Cut(below, "/")
			loaded[module] = loaded[module] || release == boot.release
			if release != boot.release {
				others = release
			}
		}
	}
	return loaded, others, true
}

// rebuildCommand builds the initramfs of a kernel for all hardware.
func rebuildCommand(t *tree.Tree, release string) string {
	if _, _, err := t.Resolve("usr/sbin/mkinitramfs"); err == nil {
		return "set MODULES=most in /etc/initramfs-tools/initramfs.conf and conf.d, and run update-initramfs -u -k " + release
	}
	return "set hostonly=no in /etc/dracut.conf.d, and run dracut --force --no-hostonly --kver " + release + " (or --regenerate-all)"
}

// initramfsOf returns the files in an initramfs.
func initramfsOf(t *tree.Tree, p string) (names []string, whole bool) {
	f, err := openFile(t, p)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false
	}
	return scan.Initramfs(f, info.Size())
}

var (
	fipsOn = regexp.MustCompile(`(?:^|\s)["']?fips=1(?:["']|\s|$)`)
	// fipsBoot matches where the integrity test finds the kernel. Source: dracut, 01fips; Ubuntu, initramfs hook of FIPS.
	fipsBoot = regexp.MustCompile(`(?:^|\s)["']?boot(?:dev)?=["']?([^\s"']+)`)
)

// fipsFault returns why the integrity test of FIPS stops the boot of a clone; empty if it does not, or if nothing on the disk tests. p is
// the directory of the modules of a kernel.
func fipsFault(t *tree.Tree, p string) string {
	boot := bootKernelOf(t)
	if path.Base(p) != boot.release || !fipsOn.MatchString(boot.options) {
		return ""
	}
	sums, _ := t.Glob("boot/.vmlinuz-*.hmac")
	if _, _, err := t.Resolve("usr/lib/dracut/modules.d/01fips"); err != nil && len(sums) == 0 {
		return ""
	}
	isUnified := slices.ContainsFunc(boot.initramfs, func(file string) bool { return path.Ext(file) == ".efi" })
	if _, _, err := t.Resolve("boot/.vmlinuz-" + boot.release + ".hmac"); err != nil && !isUnified {
		return fmt.Sprintf("boots with fips=1, and the checksum of its kernel, /boot/.vmlinuz-%s.hmac, does not exist. "+
			"Install the package of the kernel again", boot.release)
	}
	return bootFault(t, boot.options)
}

// bootFault returns why the integrity test does not find /boot by the parameters of the kernel.
func bootFault(t *tree.Tree, options string) string {
	named, own := fipsBoot.FindStringSubmatch(options), ""
	for _, dev := range devices("etc/fstab", []byte(text(t, "etc/fstab"))) {
		switch {
		case dev.point == "/" && own == "":
			own = dev.spec // A directory of the root has no boot=.
		case dev.point == "/boot" && named == nil:
			return fmt.Sprintf("boots with fips=1 and without boot=, and /boot is a file system of its own. "+
				"Add boot=%s to the kernel command line: grubby --update-kernel=ALL --args=boot=%[1]s", dev.spec)
		case dev.point == "/boot":
			own = dev.spec
		}
	}
	if named != nil && strings.HasPrefix(named[1], "UUID=") && strings.HasPrefix(own, "UUID=") && !strings.EqualFold(named[1], own) {
		return fmt.Sprintf("boots with fips=1 and boot=%s, and /boot is on %s. Set the right one: grubby --update-kernel=ALL --args=boot=%[2]s", named[1], own)
	}
	return ""
}
