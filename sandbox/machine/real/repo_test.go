//go:build machines

package real

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// tools is the upgraded package. Its second version requests a reboot, like a kernel.
const tools = "kamino-node-tools"

// publish puts a version of the package into the machines' apt repository.
func (l *lab) publish(t *testing.T, version string) {
	t.Helper()
	repo := filepath.Join(l.media, "repo")
	dir := filepath.Join(l.dir, "package-"+version)
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: Example <packages@example.com>\nDescription: stands for what a node is patched with\n", tools, version)
	write(t, filepath.Join(dir, "DEBIAN/control"), control, 0o644)
	write(t, filepath.Join(dir, "usr/share/kamino-node-tools/version"), version+"\n", 0o644)
	write(t, filepath.Join(dir, "DEBIAN/postinst"), postinst, 0o755)
	if err := os.MkdirAll(repo, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "dpkg-deb", "--root-owner-group", "-b", dir, filepath.Join(repo, tools+"_"+version+".deb"))
	list := run(t, "sh", "-c", `cd "$1" && apt-ftparchive packages .`, "sh", repo)
	write(t, filepath.Join(repo, "Packages"), list, 0o644)
	if err := os.Remove(filepath.Join(repo, "Release")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	release := run(t, "apt-ftparchive", "-o", "APT::FTPArchive::Release::Origin=kamino-test", "-o", "APT::FTPArchive::Release::Suite=stable", "release", repo)
	write(t, filepath.Join(repo, "Release"), release, 0o644)
}

// postinst requests a reboot in the way of kernels.
const postinst = `#!/bin/sh
set -e
if [ "$1" = configure ] && [ -n "$2" ] && [ -x /etc/kernel/postinst.d/unattended-upgrades ]; then
	/etc/kernel/postinst.d/unattended-upgrades
fi
`
