package apt

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/machine/chroot"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// TestAptOnADisk: real apt and dpkg of this host patch a disk, with scripts in the root of the disk, and leave the host alone.
func TestAptOnADisk(t *testing.T) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip("this host has no apt: the test needs Debian or Ubuntu")
	}
	root := filepath.Join(t.TempDir(), "disk")
	if _, err := disk.UsedNode(root, disk.Static, disk.TemplateValues{}); err != nil {
		t.Fatal(err)
	}
	r, err := Serve(filepath.Join(t.TempDir(), "repository"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if err := r.Install(root); err != nil {
		t.Fatal(err)
	}
	run := func(words ...string) (string, error) {
		command := chroot.In(root, words...)
		c := exec.CommandContext(t.Context(), command[0], command[1:]...)
		c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"}
		out, err := c.CombinedOutput()
		return string(out), err
	}
	must := func(words ...string) string {
		t.Helper()
		out, err := run(words...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", words, err, out)
		}
		return out
	}
	if out := must("/usr/bin/dpkg", "--audit"); out != "" {
		t.Errorf("dpkg --audit: %s", out)
	}
	publish := func(p Package) {
		t.Helper()
		if err := r.Publish(p); err != nil {
			t.Fatal(err)
		}
		if out := must("/usr/bin/apt-get", "-o", "APT::Update::Error-Mode=any", "update"); strings.Contains(out, "W:") {
			t.Errorf("apt-get update: %s", out)
		}
	}
	publish(Package{Name: "openssl", Before: "3.0.2-0ubuntu1.15", Version: "3.0.2-0ubuntu1.16", Size: 100_000, Postinst: RequestReboot})
	before := r.Traffic()
	must("/usr/bin/apt-get", "-y", "install", "--only-upgrade", "openssl")
	if sent := r.Traffic().Since(before); sent.Requests != 1 || sent.Bytes < 100_000 {
		t.Errorf("the repository sent %+v", sent)
	}
	packages, err := disk.Packages(root)
	if err != nil || packages["openssl"] != "3.0.2-0ubuntu1.16" {
		t.Errorf("openssl is %s, %v", packages["openssl"], err)
	}
	for path, want := range map[string]string{"run/reboot-required.pkgs": "openssl\n", "var/log/apt/history.log": "Commandline: /usr/bin/apt-get -y install"} {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v", path, text, err)
		}
	}
	publish(Package{Name: "curl", Version: "7.81.0-1ubuntu1.17", Postinst: "exit 1\n"})
	if out, err := run("/usr/bin/apt-get", "-y", "install", "--only-upgrade", "curl"); err == nil ||
		!strings.Contains(out, "installed curl package post-installation script subprocess returned error exit status 1") {
		t.Errorf("a failed script: %v\n%s", err, out)
	}
	// The mounts are gone with the command.
	for _, dir := range []string{"run/host", "dev"} {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil || len(entries) > 0 {
			t.Errorf("%s has %v, %v", dir, entries, err)
		}
	}
}
