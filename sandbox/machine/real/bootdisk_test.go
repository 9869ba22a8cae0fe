//go:build machines

package real

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// partitions are those of Debian's cloud images: a place for GRUB, the EFI system partition, and the root file system.
const partitions = `label: gpt
start=131072, type=linux
start=2048, size=6144, type=21686148-6449-6E6F-744E-656564454649
start=8192, size=122880, type=uefi
`

// rootOffset returns where the root file system of a disk begins, in bytes.
func rootOffset(t *testing.T, image string) int64 {
	t.Helper()
	f, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head := make([]byte, 8)
	if _, err := f.ReadAt(head, 512); err == nil && string(head) == "EFI PART" {
		return 131072 * 512
	}
	return 0
}

// bootDisk makes a disk that boots by BIOS and by UEFI. Install fills its root file system.
func bootDisk(t *testing.T, image, fileSystem string, install func(root string)) string {
	t.Helper()
	run(t, "truncate", "-s", "3G", image)
	run(t, "sh", "-c", `printf '%s' "$1" | sfdisk --quiet "$2"`, "sh", partitions, image)
	loop := strings.TrimSpace(run(t, "losetup", "--find", "--show", "--partscan", image))
	root := image + ".tree"
	defer run(t, "losetup", "--detach", loop)
	// A kernel may not know GPT, and a /dev without devtmpfs has no partitions.
	run(t, "sh", "-c", `partx --update "$1"; for n in 1 2 3; do [ -b "$1p$n" ] || mknod "$1p$n" b $(tr : " " <"/sys/class/block/${1##*/}p$n/dev"); done`, "sh", loop)
	defer run(t, "sh", "-c", `grep -q " /dev devtmpfs " /proc/mounts || rm "$1"p?`, "sh", loop)
	run(t, "mkfs."+fileSystem, "-q", "-L", "root", loop+"p1")
	run(t, "mkfs.vfat", "-n", "EFI", loop+"p3")
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "mount", loop+"p1", root)
	defer run(t, "umount", "--recursive", root)
	install(root)
	if err := os.MkdirAll(filepath.Join(root, "boot/efi"), 0o755); err != nil {
		t.Fatal(err)
	}
	id := func(device string) string {
		return strings.TrimSpace(run(t, "blkid", "-p", "-s", "UUID", "-o", "value", device))
	}
	write(t, filepath.Join(root, "etc/fstab"), fmt.Sprintf("UUID=%s / %s defaults 0 1\nUUID=%s /boot/efi vfat umask=0077 0 1\n", id(loop+"p1"), fileSystem, id(loop+"p3")), 0o644)
	// On a busy host devices come late, and so does the timer that the kernel checks.
	write(t, filepath.Join(root, "etc/systemd/system.conf.d/busy.conf"), "[Manager]\nDefaultDeviceTimeoutSec=9min\n", 0o644)
	write(t, filepath.Join(root, "etc/default/grub"), "GRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX=\"console=ttyS0,115200 no_timer_check\"\nGRUB_TERMINAL=console\n", 0o644)
	inRoot(t, root, func() {
		run(t, "chroot", root, "grub-install", "--target=i386-pc", "--no-floppy", loop)
		// The host's kernel may not know FAT: grub-install for EFI would need the mounted partition.
		write(t, filepath.Join(root, "tmp/efi.cfg"), fmt.Sprintf("search.fs_uuid %s root\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n", id(loop+"p1")), 0o644)
		run(t, "chroot", root, "grub-mkimage", "--format=x86_64-efi", "--output=/tmp/efi", "--prefix=/boot/grub", "--config=/tmp/efi.cfg",
			"part_gpt", "ext2", "xfs", "search", "search_fs_uuid", "normal", "configfile", "linux", "terminal", "echo", "test", "loadenv", "all_video", "gzio")
		run(t, "mmd", "-i", loop+"p3", "::EFI", "::EFI/BOOT")
		run(t, "mcopy", "-i", loop+"p3", filepath.Join(root, "tmp/efi"), "::EFI/BOOT/BOOTX64.EFI")
		run(t, "rm", filepath.Join(root, "tmp/efi"), filepath.Join(root, "tmp/efi.cfg"))
		run(t, "chroot", root, "update-grub")
	})
	// The device of this build is no disk of a machine.
	run(t, "sed", "-i", fmt.Sprintf("s,root=%sp1 ,root=UUID=%s ,", loop, id(loop+"p1")), filepath.Join(root, "boot/grub/grub.cfg"))
	return image
}

// donorName is the name of the machine that lived on the disks.
const donorName = "ip-10-0-3-17"

// What a console shows when systemd of the root file system begins, and when a boot has come to its end, lacks a disk, or has the
// donor's name or ID.
const (
	begun   = `Welcome to [^\n]*\(bookworm\)\S*!(?s:.*?)(?:Hostname set to <[^>]*>|Reached target)`
	trouble = `\(initramfs\)|Kernel panic|FIPS integrity test failed|[Ee]mergency [Mm]ode|Dependency failed for [^\n]*(?:local-fs|swap)\.target|Gave up waiting for suspend|Hostname set to <` + donorName + `>|systemd\.machine_id=\w`
)

// brokenDisk is a disk that was broken as real disks are. A copy that was cleaned without Kamino has its fate; Kamino refuses the disk
// with the remedy, or its clone boots. No control means a good disk.
type brokenDisk struct {
	script          string
	hardware        hardware
	control, remedy string
	// xfs is the root file system.
	xfs bool
	// target is what systemd must reach; empty if its start is enough.
	target string
}

// lost is the fate of a boot that lacks a mount or a swap space, and missing the UUID of a disk that is not there.
const (
	lost    = "Dependency failed|mergency"
	missing = "11111111-2222-4333-8444-555555555555"
)

// fips boots with the integrity test of dracut. Debian has no sha512hmac, so openssl computes what that of other systems does.
const fips = `cat >/usr/bin/sha512hmac <<"END"
#!/bin/sh
[ "$1" != -c ] || { shift; read -r sum file <"$1"; set -- "$file"; }
is=$(openssl dgst -sha512 -hmac orboDeJITITejsirpADONivirpUkvarP "$1"); is=${is##* }
[ -z "$sum" ] || { [ "$sum" = "$is" ]; exit; }
echo "$is  $1"
END
	chmod 755 /usr/bin/sha512hmac; dracut --quiet --force --no-hostonly --add fips --install openssl /boot/initrd.img-$version $version
	sed -i "s,root=UUID,fips=1 root=UUID," /boot/grub/grub.cfg; cd /boot; name=vmlinuz-$version
	`

// foreignModule replaces the driver of the root disk by one from outside the kernel, without a signature.
const foreignModule = `mkdir -p /lib/modules/$version/updates; python3 - $version <<"END"
import sys
modules, end = "/lib/modules/" + sys.argv[1], b"~Module signature appended~\n"
with open(modules + "/kernel/drivers/block/virtio_blk.ko", "rb") as f: module = f.read()
assert module.endswith(end) and b"intree=Y" in module
size = int.from_bytes(module[-len(end) - 4:-len(end)], "big") + 12 + len(end)
with open(modules + "/updates/virtio_blk.ko", "wb") as f: f.write(module[:-size].replace(b"intree=Y", b"xntree=Y"))
END
	depmod $version; update-initramfs -u -k $version`

// brokenDisks by name. A script runs in the root directory, and knows the version of the kernel.
var brokenDisks = map[string]brokenDisk{
	"BIOS":                {target: "local-fs"},
	"XFS, UEFI, NVMe":     {xfs: true, hardware: hardware{uefi: true, disk: onNVMe}},
	"root by its label":   {script: `sed -i "s,root=UUID=[^ ]*,root=LABEL=root," /boot/grub/grub.cfg`, hardware: hardware{disk: onNVMe}},
	"root's name, fstab":  {script: `sed -i "s,^UUID=[^ ]* / ,/dev/vda1 / ," /etc/fstab`, hardware: hardware{disk: onNVMe}, target: "local-fs"},
	"root's name, kernel": {script: `sed -i "s,root=UUID=[^ ]*,root=/dev/vda1," /boot/grub/grub.cfg`, hardware: hardware{disk: onNVMe}, control: `\(initramfs\)`, remedy: "Name it by the UUID="},
	"root's name, NVMe":   {script: `sed -i "s,root=UUID=[^ ]*,root=/dev/nvme0n1p1," /boot/grub/grub.cfg`, hardware: hardware{disk: onSCSI}, control: `\(initramfs\)`, remedy: "Name it by the UUID="},
	"root's name, SCSI":   {script: `sed -i "s,root=UUID=[^ ]*,root=/dev/sda1," /boot/grub/grub.cfg`, control: `\(initramfs\)`, remedy: "Name it by the UUID="},
	"root's serial":       {script: `sed -i "s,root=UUID=[^ ]*,root=/dev/disk/by-id/virtio-0123456789-part1," /boot/grub/grub.cfg`, control: `\(initramfs\)`, remedy: "Use UUID= or LABEL="},
	"EFI's name":          {script: `sed -i "s,^UUID=[^ ]* /boot/efi .*,/dev/vda3 /boot/efi vfat x-systemd.device-timeout=5," /etc/fstab`, hardware: hardware{disk: onNVMe}, control: lost, remedy: "Name it by the UUID=", target: "local-fs"},
	"data disk":           {script: `echo "UUID=` + missing + ` /data ext4 x-systemd.device-timeout=5" >>/etc/fstab`, control: lost, remedy: "Add nofail", target: "local-fs"},
	"data disk of a unit": {
		script: `printf "[Unit]\nBefore=local-fs.target\n[Mount]\nWhat=/dev/disk/by-uuid/` + missing + `\nWhere=/data\n[Install]\nRequiredBy=local-fs.target\n" >/etc/systemd/system/data.mount
			systemctl -q enable data.mount; d="/etc/systemd/system/$(systemd-escape --path --suffix=device /dev/disk/by-uuid/` + missing + `).d"
			mkdir "$d"; printf "[Unit]\nJobRunningTimeoutSec=5\n" >"$d/5.conf"`,
		control: lost, remedy: "Add nofail", target: "local-fs",
	},
	"swap disk": {script: `echo "UUID=` + missing + ` none swap sw,x-systemd.device-timeout=5" >>/etc/fstab`, control: lost, target: "swap"},
	"resume=":   {script: `sed -i "s,root=UUID,resume=UUID=` + missing + ` root=UUID," /boot/grub/grub.cfg`, control: "Gave up", remedy: "Remove the parameter"},
	"RESUME=":   {script: `echo RESUME=UUID=` + missing + ` >/etc/initramfs-tools/conf.d/resume; update-initramfs -u`, control: "Gave up", remedy: "RESUME=none"},
	"dracut, host-only": {
		script:  `dracut --quiet --force --hostonly --add-drivers "virtio_pci virtio_blk ext4" /boot/initrd.img-$version $version`,
		control: donorName, remedy: "/boot/initrd.img",
	},
	"machine ID, kernel": {script: `sed -i "s,root=UUID,systemd.machine_id=$(cat /etc/machine-id) root=UUID," /boot/grub/grub.cfg`, control: "machine_id", remedy: "Remove systemd.machine_id="},
	"host name, kernel":  {script: `sed -i "s,root=UUID,systemd.hostname=$(cat /etc/hostname) root=UUID," /boot/grub/grub.cfg`, control: donorName, remedy: "update-grub"},
	"FIPS":               {script: fips + `sha512hmac $name >.$name.hmac`, hardware: hardware{disk: onNVMe}},
	"FIPS, no checksum":  {script: fips, control: "FIPS integrity test failed", remedy: "Install the package of the kernel again"},
	"FIPS, EFI's checksum": {
		script:  fips + `sha512hmac $name >.$name.hmac; efi=$(sed -n "s,^\(UUID=[^ ]*\) /boot/efi .*,\1,p" /etc/fstab); sed -i "s,fips=1,fips=1 boot=$efi," grub/grub.cfg`,
		control: "FIPS integrity test failed", remedy: "--args=boot=UUID=",
	},
	"Secure Boot": {hardware: hardware{secure: true}},
	"Secure Boot, foreign module": {
		script: foreignModule, hardware: hardware{secure: true}, control: `\(initramfs\)`, remedy: "switch Secure Boot off in the recipe",
	},
	"foreign module, no Secure Boot": {script: foreignModule},
	"kernel without its initramfs": {
		script:  `cp /boot/vmlinuz-$version /boot/vmlinuz-9.9.9-cloud-amd64; sed -i "s,vmlinuz-$version,vmlinuz-9.9.9-cloud-amd64,; /^\sinitrd/d" /boot/grub/grub.cfg`,
		control: "Kernel panic", remedy: "update-initramfs",
	},
}

// TestBrokenDisks boots disks up to the start of systemd: copies without Kamino, as a control, and clones.
func TestBrokenDisks(t *testing.T) {
	if testing.Short() {
		t.Skip("needs virtual machines")
	}
	requireTools(t, programs)
	requireTools(t, bootPrograms)
	kamino := agentProgram(t)
	dir := t.TempDir()
	// In memory, because the host's kernel writes a disk out at each unmount.
	run(t, "mount", "-t", "tmpfs", "-o", "size=6G", "kamino-disks", dir)
	t.Cleanup(func() { run(t, "umount", dir) })
	base := func(fileSystem string) string {
		return bootDisk(t, filepath.Join(dir, fileSystem), fileSystem, func(root string) { freshSystem(t, root, serverPackages) })
	}
	ext4 := base("ext4")
	// The group ends after its last disk, so that the time of the test is that of all disks.
	t.Run("disk", func(t *testing.T) {
		for name, d := range brokenDisks {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				image := filepath.Join(dir, strings.NewReplacer(" ", "-", ",", "").Replace(name))
				if d.xfs {
					image = base("xfs")
				} else {
					copyDisk(t, ext4, image)
				}
				d.test(t, kamino, image)
			})
		}
	})
}

// test breaks a disk, and compares the fates of a copy without Kamino and of a clone.
func (d brokenDisk) test(t *testing.T, kamino, image string) {
	t.Helper()
	defer discard(t, image)
	mounted(t, image, func(root string) {
		inRoot(t, root, func() {
			run(t, "chroot", root, "env", "TMPDIR=/tmp", "sh", "-euc", "version=$(basename /lib/modules/*); "+d.script)
		})
		if d.control != "" {
			// A copy without name and machine ID, as guides for golden images say.
			run(t, "sh", "-c", `cd "$1" && cp -a hostname hostname.donor && cp -a machine-id machine-id.donor && : >hostname && : >machine-id`, "sh", filepath.Join(root, "etc"))
		}
	})
	if d.hardware.secure {
		d.signed(t, image)
	}
	control := ""
	if d.control != "" {
		control = d.fate(t, image)
	}
	refusal := d.generalize(t, kamino, image)
	clone := ""
	if refusal == "" {
		clone = d.fate(t, image)
	}
	t.Logf("without Kamino %q; refusal %q; clone %q", control, refusal, clone)
	d.judge(t, control, refusal, clone)
}

// signed gives a disk the boot chain that Debian and Microsoft have signed: shim, and GRUB.
func (d brokenDisk) signed(t *testing.T, image string) {
	t.Helper()
	const packages = "shim-signed,grub-efi-amd64-signed"
	from := t.TempDir()
	run(t, "tar", "-C", from, "-xf", cached(t, "signed", packages, func(tarball string) {
		run(t, "mmdebstrap", "--quiet", "--mode=root", "--variant=extract", "--include="+packages, suite, tarball)
	}))
	menu := ""
	mounted(t, image, func(root string) {
		content, err := os.ReadFile(filepath.Join(root, "boot/grub/grub.cfg"))
		if err != nil {
			t.Fatal(err)
		}
		id := regexp.MustCompile(`root=UUID=(\S+)`).FindSubmatch(content)
		menu = fmt.Sprintf("search.fs_uuid %s root\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n", id[1])
	})
	write(t, filepath.Join(from, "grub.cfg"), menu, 0o644)
	partition := fmt.Sprintf("%s@@%d", image, 8192*512)
	run(t, "mmd", "-i", partition, "::EFI/debian")
	for source, target := range map[string]string{
		"usr/lib/shim/shimx64.efi.signed":                   "BOOT/BOOTX64.EFI",
		"usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed": "BOOT/grubx64.efi",
		"grub.cfg": "debian/grub.cfg",
	} {
		run(t, "mcopy", "-o", "-i", partition, filepath.Join(from, source), "::EFI/"+target)
	}
}

// firmwareOf shows a look at a directory what the firmware of its machine says about Secure Boot.
func (d brokenDisk) firmwareOf(t *testing.T, root string, look func()) {
	t.Helper()
	if d.hardware.secure {
		write(t, filepath.Join(root, "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"), "\x06\x00\x00\x00\x01", 0o644)
		defer run(t, "rm", "-r", filepath.Join(root, "sys/firmware"))
	}
	look()
}

// generalize generalizes a disk after the control, unless Kamino refuses the disk.
func (d brokenDisk) generalize(t *testing.T, kamino, image string) (refusal string) {
	t.Helper()
	mounted(t, image, func(root string) {
		if d.control != "" {
			run(t, "sh", "-c", `cd "$1" && mv hostname.donor hostname && mv machine-id.donor machine-id`, "sh", filepath.Join(root, "etc"))
		}
		d.firmwareOf(t, root, func() {
			if code, output := kaminoOn(t, kamino, "inspect", "--root", root, "--profile", "bootstrap"); code == 3 {
				refusal = string(output)
			}
		})
		if refusal == "" {
			run(t, kamino, "generalize", "--root", root, "--profile", "bootstrap")
		}
	})
	return refusal
}

func (d brokenDisk) judge(t *testing.T, control, refusal, clone string) {
	t.Helper()
	broken := func(fate string) bool { return fate != "" && regexp.MustCompile(d.control).MatchString(fate) }
	if d.control != "" && !broken(control) {
		t.Errorf("a copy without Kamino came to %q, want %q", control, d.control)
	}
	switch {
	case d.remedy != "" && !strings.Contains(refusal, d.remedy):
		t.Errorf("refused with %q, want %q", refusal, d.remedy)
	case d.remedy == "" && (refusal != "" || regexp.MustCompile(trouble).MatchString(clone)):
		t.Errorf("refused with %q; the clone came to %q", refusal, clone)
	}
}

// fate boots a disk without a network, until the console shows trouble or a good boot. The disk stays as it is.
func (d brokenDisk) fate(t *testing.T, image string) (found string) {
	t.Helper()
	end := trouble + "|" + begun
	if d.target != "" {
		end = trouble + `|Reached target [^\n]*` + d.target + `\.target`
	}
	const secured = "secureboot: Secure boot enabled"
	m := &machine{name: filepath.Base(image), image: image, ended: make(chan struct{})}
	m.spawn = exec.Command("qemu-system-x86_64", append(d.hardware.options(t, image), "-nic", "none", "-snapshot")...)
	m.switchOn(t)
	await(t, m.name+" to boot, or to fail", func() bool {
		console, err := os.ReadFile(image + ".console")
		found = regexp.MustCompile(end).FindString(string(console))
		if found != "" && d.hardware.secure && !strings.Contains(string(console), secured) {
			t.Errorf("the console does not say %q", secured)
		}
		return err != nil || found != ""
	})
	found = found[max(0, len(found)-80):]
	t.Logf("%q: %s", found, m.spent(t))
	m.cutPower(t)
	return found
}
