//go:build machines

package real

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/generalize/disk"
)

// serverPackages are the packages that Ubuntu's server images have and a small Debian has not, with GRUB for both firmwares, and the other maker of an
// initramfs. gzip packs the initramfs, because zstd is not installed.
const serverPackages = packageList + ",initramfs-tools,linux-image-cloud-amd64,grub-pc,grub-efi-amd64-bin,cloud-guest-utils,xfsprogs,dracut-core,netplan.io,snapd,lvm2,mdadm,open-iscsi,nvme-cli,ssl-cert"

// TestFreshSystem generalizes systems as their packages install them, with a name and addresses. A fresh system must have
// no false finding, and no false report of a file that may hold an identity.
func TestFreshSystem(t *testing.T) {
	bin := agentProgram(t)
	for name, test := range map[string]struct {
		packages string
		// secrets and identities are the true findings before the run.
		secrets, identities []string
	}{
		"node": {packageList, []string{"/etc/ssh/ssh_host_*_key"}, nil},
		"server": {
			serverPackages, []string{"/etc/ssh/ssh_host_*_key", "/etc/ssl/private/ssl-cert-snakeoil.key"},
			[]string{"/etc/nvme/host*"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && test.packages == serverPackages {
				t.Skip("needs another system of 630 MiB")
			}
			root := filepath.Join(t.TempDir(), "root")
			freshSystem(t, root, test.packages)
			var found disk.SearchResult
			output, _ := exec.Command(bin, "verify", root, "-o", "json").Output()
			if err := json.Unmarshal(output, &found); err != nil {
				t.Fatalf("the report of verify: %v: %s", err, output)
			}
			var secrets []string
			for _, f := range found.Findings {
				secrets = append(secrets, f.Path)
			}
			t.Logf("before: %d files, %d findings, %d files that may hold an identity", found.Files, found.Count, found.Possible.Count)
			testTrueOnly(t, "findings", test.secrets, secrets)
			testTrueOnly(t, "files that may hold an identity", test.identities, found.Possible.First)

			generalized(t, bin, root, "--profile", "bootstrap")
			content, err := os.ReadFile(filepath.Join(root, generalize.ManifestPath))
			if err != nil {
				t.Fatal(err)
			}
			manifest, err := generalize.ParseManifest(content)
			if err != nil {
				t.Fatal(err)
			}
			after := manifest.Scan
			t.Logf("after: %d files, %d findings, %d files that may hold an identity", after.Files, after.Count, after.Possible.Count)
			if after.Files < 500 || after.Count > 0 || after.Possible.Count > 0 {
				t.Errorf("after the run: %+v, %q", after.Findings, after.Possible.First)
			}
			if test.packages == serverPackages {
				testDiskOfGRUB(t, root)
			}
		})
	}
}

// freshSystem unpacks a system, and gives it the values that a cloud gives to a machine.
func freshSystem(t *testing.T, root, packages string) {
	t.Helper()
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "tar", "-xf", rootTarball(t, packages), "-C", root)
	for file, content := range map[string]string{
		"etc/machine-id": "5b1d0e6f2a9c4b7d8e3f1a6c0d9b2e47\n", "etc/hostname": donorName + "\n",
		"etc/hosts": "127.0.0.1 localhost\n10.0.3.17 " + donorName + "\n", "etc/fstab": "UUID=0f1e2d3c-1b2a-4111-8111-1a2b3c4d5e6f / ext4 defaults 0 1\n",
	} {
		write(t, filepath.Join(root, file), content, 0o644)
	}
	if packages == serverPackages {
		setDiskOfGRUB(t, root, donorDisk)
	}
}

// testTrueOnly requires that each found path matches one of the patterns, and that each pattern was found.
func testTrueOnly(t *testing.T, what string, patterns, found []string) {
	t.Helper()
	matches := func(pattern string) func(path string) bool {
		return func(path string) bool {
			is, err := filepath.Match(pattern, path)
			return err == nil && is
		}
	}
	for _, path := range found {
		if !slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern)(path) }) {
			t.Errorf("%s: %s is a false one", what, path)
		}
	}
	for _, pattern := range patterns {
		if !slices.ContainsFunc(found, matches(pattern)) {
			t.Errorf("%s: %s is missing", what, pattern)
		}
	}
}

const donorDisk = "/dev/disk/by-id/scsi-36002248aabbccdd"

// setDiskOfGRUB answers the question of grub-pc as an installer or cloud-init does.
func setDiskOfGRUB(t *testing.T, root, disk string) {
	t.Helper()
	run(t, "chroot", root, "sh", "-c", fmt.Sprintf("echo grub-pc grub-pc/install_devices multiselect %s | debconf-set-selections", disk))
}

// testDiskOfGRUB runs the first boot without devices: programs of the test name the clone's disk.
func testDiskOfGRUB(t *testing.T, root string) {
	t.Helper()
	const database = "var/cache/debconf/config.dat"
	if content, err := os.ReadFile(filepath.Join(root, database)); err != nil || strings.Contains(string(content), donorDisk) {
		t.Errorf("debconf still names the donor's disk (%v)", err)
	}
	write(t, filepath.Join(root, "usr/local/sbin/findmnt"), "#!/bin/sh\necho /dev/sdx1\n", 0o755)
	write(t, filepath.Join(root, "usr/local/sbin/lsblk"), "#!/bin/sh\necho /dev/sdx1 part\necho /dev/sdx disk\n", 0o755)
	answer := func() string {
		run(t, "chroot", root, "env", "TMPDIR=/tmp", "PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "/bin/sh", "/etc/kamino/first-boot.sh")
		return strings.TrimSpace(run(t, "chroot", root, "sh", "-c", "echo GET grub-pc/install_devices | debconf-communicate"))
	}
	if got := answer(); got != "0 /dev/sdx" {
		t.Errorf("after the first boot debconf answers %q", got)
	}
	// Another boot changes nothing.
	write(t, filepath.Join(root, "usr/local/sbin/lsblk"), "#!/bin/sh\necho /dev/sdy disk\n", 0o755)
	if got := answer(); got != "0 /dev/sdx" {
		t.Errorf("after the second boot debconf answers %q", got)
	}
}

// agentProgram is the kamino-node of the tests.
func agentProgram(t *testing.T) string {
	t.Helper()
	kamino := os.Getenv("KAMINO_AGENT_BIN")
	if kamino == "" {
		t.Fatal("KAMINO_AGENT_BIN must name the kamino-node binary; `make test-machines` builds it and sets it")
	}
	return kamino
}
