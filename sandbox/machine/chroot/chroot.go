// Package chroot lets a sandbox machine run apt and dpkg of this host in the root of the machine's disk.
//
// The disk has links to the programs instead of copies. The links lead to a directory in /run, where Command mounts /usr
// of this host in a private mount namespace. A user namespace makes root unnecessary. Linux only.
package chroot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// host is where /usr of this host is mounted, on the machine.
const host = "run/host"

// programs that apt, dpkg and scripts of packages need.
var programs = map[string][]string{
	"usr/bin": {
		"apt-get", "apt-cache", "apt-config", "apt-key", "dpkg", "dpkg-deb", "dpkg-query", "dpkg-split", "gpgv",
		"sqv", "tar", "gzip", "xz", "zstd", "sh", "dash", "[", "basename", "cat", "chmod", "chown", "cmp", "cp",
		"cut", "diff", "dirname", "echo", "env", "expr", "false", "find", "grep", "head", "id", "ln", "ls", "mkdir",
		"mktemp", "mv", "od", "printf", "readlink", "rm", "rmdir", "sed", "sort", "stat", "tail", "test", "touch",
		"tr", "true", "uname", "wc", "xargs",
	},
	"usr/sbin":  {"ldconfig", "start-stop-daemon"},
	"usr/lib":   {"apt"},
	"usr/share": {"dpkg"},
}

// Link writes the links. A program of the disk itself stays.
func Link(root string) error {
	links := map[string]string{"lib64": "lib64"}
	for dir, names := range programs {
		for _, name := range names {
			links[dir+"/"+name] = strings.TrimPrefix(dir, "usr/") + "/" + name
		}
	}
	libraries, err := filepath.Glob("/usr/lib/*-linux-gnu*")
	if err != nil {
		return err
	}
	for _, path := range libraries {
		name := "lib/" + filepath.Base(path)
		links[name], links["usr/"+name] = name, name
	}
	for path, target := range links {
		if _, err := os.Stat(filepath.Join("/usr", target)); err != nil {
			if strings.HasSuffix(target, "/apt-get") || strings.HasSuffix(target, "/dpkg") {
				return fmt.Errorf("machines with apt need apt and dpkg of this host (install Debian's packages apt and dpkg): %w", err)
			}
			continue
		}
		link := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("/"+host+"/"+target, link); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// Linked reports whether the disk has the links.
func Linked(root string) bool {
	target, err := os.Readlink(filepath.Join(root, "usr/bin/dpkg"))
	return err == nil && strings.HasPrefix(target, "/"+host+"/")
}

// enter mounts, and then becomes the command.
const enter = `root=$1; shift
mkdir -p "$root/` + host + `" && mount --rbind /usr "$root/` + host + `" && mount --rbind /dev "$root/dev" && exec "$@"`

// Command is a command with the mounts of the disk at root. The command itself runs in the root of this host.
func Command(root string, command ...string) []string {
	namespace := []string{"unshare", "--mount"}
	if os.Geteuid() != 0 {
		namespace = append(namespace, "--user", "--map-root-user")
	}
	return slices.Concat(namespace, []string{"sh", "-c", enter, "sh", root}, command)
}

// Check returns why this host cannot run commands on disks.
func Check() error {
	root, err := os.MkdirTemp("", "chroot-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if err := os.Mkdir(filepath.Join(root, "dev"), 0o755); err != nil {
		return err
	}
	command := Command(root, "true")
	out, err := exec.CommandContext(context.Background(), command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("this host cannot mount in a namespace: %w: %s: run as root, or allow user namespaces (on Ubuntu: `sysctl kernel.apparmor_restrict_unprivileged_userns=0`)",
			err, strings.TrimSpace(string(out)))
	}
	return nil
}

// In is a command in the root of the disk.
func In(root string, command ...string) []string {
	return Command(root, slices.Concat([]string{"chroot", root}, command)...)
}
