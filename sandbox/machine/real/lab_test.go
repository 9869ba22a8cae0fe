//go:build machines

package real

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// maxWait limits one command. The limit only ends a test that hangs.
const maxWait = 10 * time.Minute

// programs maps each program to its package in Debian and Ubuntu.
var programs = map[string]string{
	"systemd-nspawn": "systemd-container", "mmdebstrap": "mmdebstrap", "apt-ftparchive": "apt-utils",
	"dpkg-deb": "dpkg", "mkfs.ext4": "e2fsprogs", "e2fsck": "e2fsprogs", "losetup": "mount", "mount": "mount",
	"fstrim": "util-linux", "fsfreeze": "util-linux", "nsenter": "util-linux", "ip": "iproute2",
	"containerd": "containerd", "dockerd": "docker.io", "podman": "podman", "runc": "runc",
}

// The tests of orders for patches need more programs. The core of these tests runs without them.
var (
	aptPrograms = map[string]string{"gpg": "gpg", "gpgconf": "gpg"}
	dnfPrograms = map[string]string{"dnf": "dnf", "createrepo_c": "createrepo-c", "rpmbuild": "rpm"}
)

// lab is an environment for machines: a directory for disks, memory for media, and a network with a DHCP server and
// an API server.
type lab struct {
	// dir holds disk images. media is mounted read-only at /mnt of every machine, with packages, binary and token.
	dir, media string
	// bridge is the network of all machines. address is the host's own address on the bridge. number is part of all names on the
	// host, and no other lab on the host has it.
	bridge, address string
	number          int
	dhcp            *dhcpServer
	api             *apiServer
	// mediaURL is where virtual machines find the media.
	mediaURL string
	kamino   string
	// boots of nodes, which have their own cgroups, and of virtual machines, which have their own network card.
	boots int
	// times of all timed boots. lap reports the progress of the test.
	times []bootTime
	lap   func(what string)
}

func newLab(t *testing.T) *lab {
	t.Helper()
	requireTools(t, programs)
	kamino := agentProgram(t)
	dir := t.TempDir()
	requireSpace(t, dir)
	begun := time.Now()
	l := &lab{
		dir: dir, media: filepath.Join(dir, "media"), kamino: kamino,
		lap: func(what string) { t.Logf("[%3.0f s] %s", time.Since(begun).Seconds(), what) },
	}
	t.Cleanup(watchSpace(t, dir))
	l.mountMedia(t)
	l.addBridge(t)
	l.dhcp = serveDHCP(t, l.bridge, l.address)
	l.api = serveAPI(t, l.address)
	return l
}

// addBridge creates the first of 250 bridges that no other lab on the host has.
func (l *lab) addBridge(t *testing.T) {
	t.Helper()
	for l.number = 1; ; l.number++ {
		l.bridge, l.address = fmt.Sprintf("kmbr%d", l.number), fmt.Sprintf("198.18.%d.1", l.number)
		out, err := attempt("ip", "link", "add", l.bridge, "type", "bridge")
		if err == nil {
			break
		}
		if !strings.Contains(out, "File exists") || l.number == 250 {
			t.Fatalf("bridge %s: %v: %s", l.bridge, err, out)
		}
	}
	t.Cleanup(func() { run(t, "ip", "link", "del", l.bridge) })
	run(t, "ip", "addr", "add", l.address+"/24", "dev", l.bridge)
	run(t, "ip", "link", "set", l.bridge, "up")
}

// mountMedia creates a file system in memory. A machine trims every visible disk, so the host's disk must not be
// visible.
func (l *lab) mountMedia(t *testing.T) {
	t.Helper()
	if err := os.Mkdir(l.media, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "mount", "-t", "tmpfs", "-o", "mode=0755", "kamino-media", l.media)
	t.Cleanup(func() {
		run(t, "umount", l.media)
		if err := os.Remove(l.media); err != nil {
			t.Error(err)
		}
	})
	binary, err := os.ReadFile(l.kamino)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(l.media, "kamino-node"), string(binary), 0o755)
}

func requireTools(t *testing.T, programs map[string]string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("machines need root, to mount disks and to boot them: run `sudo make test-machines`")
	}
	var missing, from []string
	for program, source := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing, from = append(missing, program), append(from, source)
		}
	}
	if len(missing) > 0 {
		t.Fatalf("not installed: %s; on Debian or Ubuntu: apt-get install %s", strings.Join(missing, ", "), strings.Join(from, " "))
	}
}

// run runs a program of the host and returns its output. A failure ends the test.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := attempt(name, args...)
	if err != nil {
		// Errorf, because cleanups also call run, and FailNow would skip the remaining cleanups.
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		if !t.Skipped() && t.Context().Err() == nil {
			t.FailNow()
		}
	}
	return out
}

func attempt(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		err = errors.Join(err, fmt.Errorf("not done within %v", maxWait))
	}
	return out.String(), err
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// mounted calls do with the tree of a disk of a stopped machine.
func mounted(t *testing.T, image string, do func(root string)) {
	t.Helper()
	root := image + ".tree"
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "mount", "-o", fmt.Sprintf("loop,offset=%d", rootOffset(t, image)), image, root)
	defer detach(t, image, root)
	do(root)
}

// detach unmounts a disk, and waits for its last user. A process with a copy of the host's mounts keeps the disk
// mounted. Only after the end of this process all data is in the image. An earlier copy would be damaged.
func detach(t *testing.T, image, root string) {
	t.Helper()
	await(t, root+" to be unmounted", func() bool {
		_, err := attempt("umount", root)
		return err == nil
	})
	await(t, "the loop device of "+image+" to go", func() bool {
		out, err := attempt("losetup", "-j", image)
		return err == nil && strings.TrimSpace(out) == ""
	})
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(maxWait); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
