//go:build machines

package real

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// makeInitramfs builds $out for the kernel $version. The first process of a donor does it on the donor's own hardware.
const makeInitramfs = `set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/tmp
version=$(basename /lib/modules/*)
initramfs_tools() {
	rm -rf /tmp/settings && cp -a /etc/initramfs-tools /tmp/settings
	sed -i "s/^MODULES=.*/MODULES=$1/" /tmp/settings/initramfs.conf
	shift && printf "%s\n" "$@" >/tmp/settings/modules
	mkinitramfs -d /tmp/settings -o "$out" "$version"
}
`

// kindsOfDonor are built on the donor, for the hardware that they find there, and the others in its root directory.
var (
	kindsOfDonor = map[string]string{
		"dep":               `initramfs_tools dep`,
		"dracut, host-only": `dracut --force --no-compress --hostonly "$out" "$version"`,
	}
	kindsAnywhere = map[string]string{
		"most":            `initramfs_tools most`,
		"dracut, generic": `dracut --quiet --force --no-compress --no-hostonly "$out" "$version"`,
	}
	kindsOfSCSI = map[string]string{"list": `initramfs_tools list virtio_pci virtio_scsi sd_mod ext4`}
)

// noRoot matches a boot that does not find its root.
var noRoot = regexp.MustCompile(`\(initramfs\)|mergency|Kernel panic`)

// TestMovedDisks boots disks on other hardware than that on which their initramfs was built. Told the hardware of a clone, Kamino refuses
// exactly the disks whose boot stops. Told nothing, it refuses each initramfs that was built for one hardware.
func TestMovedDisks(t *testing.T) {
	if testing.Short() {
		t.Skip("needs virtual machines")
	}
	requireTools(t, programs)
	requireTools(t, bootPrograms)
	m := movedDisks{kamino: agentProgram(t), dir: t.TempDir()}
	run(t, "mount", "-t", "tmpfs", "-o", "size=6G", "kamino-moved", m.dir)
	t.Cleanup(func() { run(t, "umount", m.dir) })
	m.base = bootDisk(t, filepath.Join(m.dir, "base"), "ext4", func(root string) {
		freshSystem(t, root, serverPackages)
		// A name in the initramfs of dracut is another reason to refuse the disk.
		run(t, "rm", filepath.Join(root, "etc/hostname"), filepath.Join(root, "etc/machine-id"), filepath.Join(root, "etc/hosts"))
	})
	t.Run("disk", func(t *testing.T) {
		t.Run("generic", func(t *testing.T) {
			t.Parallel()
			m.testClones(t, "", m.inRoot(t, "generic", kindsAnywhere))
		})
		for _, donor := range []diskDriver{onVirtio, onNVMe, onSCSI} {
			t.Run(string(donor), func(t *testing.T) {
				t.Parallel()
				built := m.onDonor(t, donor)
				if donor == onSCSI {
					maps.Copy(built, m.inRoot(t, "list", kindsOfSCSI))
				}
				m.testClones(t, donor, built)
			})
		}
	})
}

type movedDisks struct{ kamino, dir, base string }

// inRoot builds each kind in the root directory of a copy of the disk, and returns their files.
func (m *movedDisks) inRoot(t *testing.T, name string, scripts map[string]string) (built map[string]string) {
	t.Helper()
	image := copyDisk(t, m.base, filepath.Join(m.dir, name))
	defer discard(t, image)
	mounted(t, image, func(root string) {
		inRoot(t, root, func() {
			for kind, script := range scripts {
				run(t, "chroot", root, "env", "out=/var/tmp/"+fileOf(kind), "sh", "-c", makeInitramfs+script)
			}
		})
		built = m.keep(t, name, root, scripts)
	})
	return built
}

// onDonor boots the disk, and builds each kind there. The kernel's first process is the build.
func (m *movedDisks) onDonor(t *testing.T, donor diskDriver) (built map[string]string) {
	t.Helper()
	image := copyDisk(t, m.base, filepath.Join(m.dir, "donor-"+string(donor)))
	defer discard(t, image)
	mounted(t, image, func(root string) {
		script := "#!/bin/sh\nbuild() {\n" + makeInitramfs + "mount -o remount,rw /\n"
		for kind, build := range kindsOfDonor {
			script += "out=/var/tmp/" + fileOf(kind) + "\n" + build + "\n"
		}
		// The sync of SysRq does not wait for the disk.
		script += "}\n(build) && sync && echo the build has ended\nfor key in s u o; do echo $key >/proc/sysrq-trigger; done\nsleep infinity\n"
		write(t, filepath.Join(root, "usr/local/sbin/build"), script, 0o755)
		run(t, "sed", "-i", "s,root=UUID,init=/usr/local/sbin/build root=UUID,", filepath.Join(root, "boot/grub/grub.cfg"))
	})
	d := &machine{name: string(donor), image: image, ended: make(chan struct{})}
	d.spawn = exec.Command("qemu-system-x86_64", append(hardware{disk: donor}.options(t, image), "-nic", "none")...)
	d.switchOn(t)
	select {
	case <-d.ended:
	case <-time.After(3 * maxWait): // a busy host
		t.Fatalf("waited in vain for %s to build and to switch itself off", donor)
	}
	used := d.spawn.ProcessState
	t.Logf("built on %s in %.1f s, %.1f CPU s", donor, time.Since(d.begun).Seconds(), (used.UserTime() + used.SystemTime()).Seconds())
	if console, err := os.ReadFile(image + ".console"); err != nil || !strings.Contains(string(console), "the build has ended") {
		t.Fatalf("the build on %s failed: %v\n%s", donor, err, console)
	}
	mounted(t, image, func(root string) { built = m.keep(t, string(donor), root, kindsOfDonor) })
	return built
}

func fileOf(kind string) string { return strings.NewReplacer(" ", "-", ",", "").Replace(kind) }

// keep copies the built files out of a root directory.
func (m *movedDisks) keep(t *testing.T, name, root string, kinds map[string]string) map[string]string {
	t.Helper()
	kept := map[string]string{}
	for kind := range kinds {
		kept[kind] = filepath.Join(m.dir, name+"."+fileOf(kind))
		run(t, "cp", filepath.Join(root, "var/tmp", fileOf(kind)), kept[kind])
	}
	return kept
}

// testClones boots each kind on each hardware. A kind without a donor is for all hardware.
func (m *movedDisks) testClones(t *testing.T, donor diskDriver, built map[string]string) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(built)) {
		for _, clone := range []diskDriver{onVirtio, onNVMe, onSCSI} {
			t.Run(kind+" on "+string(clone), func(t *testing.T) {
				t.Parallel()
				m.test(t, clone, built[kind], donor != "")
			})
		}
	}
}

// test asks Kamino about a disk, and boots it: a clone, or the refused disk.
func (m *movedDisks) test(t *testing.T, clone diskDriver, initramfs string, ofOneHardware bool) {
	t.Helper()
	image := copyDisk(t, m.base, filepath.Join(m.dir, filepath.Base(initramfs)+"-"+string(clone)))
	defer discard(t, image)
	refusal := ""
	mounted(t, image, func(root string) {
		run(t, "sh", "-euc", `cp "$1" "$2"/boot/initrd.img-*; sed -i "s,root=UUID,rd.retry=30 root=UUID," "$2/boot/grub/grub.cfg"`, "sh", initramfs, root)
		ask := []string{"inspect", "--root", root, "--profile", "bootstrap"}
		if code, output := kaminoOn(t, m.kamino, ask...); (code == 3) != ofOneHardware {
			t.Errorf("for unknown machines the look ends with %d: %s", code, output)
		}
		if code, output := kaminoOn(t, m.kamino, append(ask, "--root-disks", string(clone))...); code == 3 {
			refusal = string(output)
			return
		}
		run(t, m.kamino, "generalize", "--root", root, "--profile", "bootstrap", "--root-disks", string(clone))
	})
	fate := brokenDisk{hardware: hardware{disk: clone}}.fate(t, image)
	t.Logf("refusal %q; the boot came to %q", refusal, fate)
	if stops := noRoot.MatchString(fate); stops != (refusal != "") || stops != strings.Contains(refusal, "lacks the driver") {
		t.Errorf("the boot came to %q, and Kamino says %q", fate, refusal)
	}
}
