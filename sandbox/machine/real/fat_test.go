//go:build machines

package real

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// onOwnKernel is PID 1 of a machine that only runs tests. The host's kernel may not know FAT.
const onOwnKernel = `#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin CI=true HOME=/root TMPDIR=/tmp
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev; mount -t tmpfs -o size=1500M tmp /tmp
for module in loop vfat nls_cp437 nls_iso8859-1 nls_ascii nls_utf8 xfs; do modprobe $module; done
grep -c vfat /proc/filesystems
cd /tmp && /agent.test -test.v -test.short -test.run 'TestCleanCopies|TestCopyOfAMountedDisk' 2>&1
echo "tests: exit code $?."
echo o >/proc/sysrq-trigger
sleep 60
`

// TestCopiesWithFAT runs the tests of copies on a kernel that mounts FAT, so that their EFI system partition is real: cleaned, its free space
// zeroed, and checked by fsck.vfat.
func TestCopiesWithFAT(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a virtual machine")
	}
	requireTools(t, programs)
	requireTools(t, bootPrograms)
	dir := t.TempDir()
	program := filepath.Join(dir, "agent.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-o", program, "./internal/agent")
	build.Dir, build.Env = "../../..", append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	root, image := filepath.Join(dir, "root"), filepath.Join(dir, "disk")
	run(t, "mkdir", root)
	run(t, "tar", "-xf", rootTarball(t, roundPackages), "-C", root)
	run(t, "install", "-m755", program, filepath.Join(root, "agent.test"))
	write(t, filepath.Join(root, "run-tests"), onOwnKernel, 0o755)
	run(t, "sh", "-c", `cp "$1"/boot/vmlinuz-* "$2/vmlinuz"; cp "$1"/boot/initrd.img-* "$2/initrd"`, "sh", root, dir)
	run(t, "truncate", "-s", "2G", image)
	run(t, "mkfs.ext4", "-q", "-d", root, image)
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}

	m := &machine{name: "workshop", image: image, ended: make(chan struct{})}
	m.spawn = exec.Command("qemu-system-x86_64", append(hardware{}.options(t, image), "-nic", "none", "-m", "3072", "-kernel", filepath.Join(dir, "vmlinuz"),
		"-initrd", filepath.Join(dir, "initrd"), "-append", "root=/dev/vda rw init=/run-tests console=ttyS0,115200 no_timer_check panic=-1")...)
	m.switchOn(t)
	await(t, "the tests to end", func() bool {
		select {
		case <-m.ended:
			return true
		default:
			return false
		}
	})
	console, err := os.ReadFile(image + ".console")
	if err != nil {
		t.Fatal(err)
	}
	if text := string(console); !strings.Contains(text, "tests: exit code 0.") || !regexp.MustCompile(`(?m)^1\s*$`).MatchString(text) ||
		strings.Count(text, "\n--- PASS: Test") != 2 || strings.Contains(text, "--- SKIP") {
		t.Errorf("the tests on a kernel with FAT:\n%s", text)
	}
	for _, line := range regexp.MustCompile(`(?m)^.*--- [A-Z]+: .*$`).FindAllString(string(console), -1) {
		t.Log(strings.TrimSpace(line))
	}
}
