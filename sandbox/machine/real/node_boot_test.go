//go:build machines

package real

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// firstProcess is PID 1 of a machine until systemd starts. The script prepares the container for a kubelet. The
// script is outside the disk and writes nothing to the disk. Without a user namespace, controllers of cgroups v1
// are mounted read-only; the root of the cgroup namespace is the machine's own cgroup. Settings of the host's
// kernel are covered by files in memory, so that the kubelet finds the right values.
const firstProcess = `#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
for controller in /sys/fs/cgroup/*; do
	[ -h "$controller" ] || mount -o remount,rw,bind "$controller" 2>/dev/null
done
mkdir -p /run/kernel-settings
while read -r setting value; do
	cover=/run/kernel-settings/$(echo "$setting" | tr / _)
	echo "$value" >"$cover" && mount --bind "$cover" "/proc/sys/$setting" || exit 1
done <<END
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
END
# A machine's firmware gives it a number; that of the host would be all machines'.
firmware=/sys/class/dmi/id/product_uuid
if [ -e "$firmware" ]; then
	cat /proc/sys/kernel/random/uuid >/run/kernel-settings/product_uuid
	mount --bind /run/kernel-settings/product_uuid "$firmware" || exit 1
fi
mount --make-rshared /
exec /lib/systemd/systemd "$@"
`

// intoGroups becomes systemd-nspawn in cgroups of the machine's own: the first arguments, up to "--".
const intoGroups = `while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs" || exit 1; shift; done; shift; exec systemd-nspawn "$@"`

// bootNode starts a machine for a kubelet. Pods need capabilities and system calls that systemd-nspawn denies by
// default, the kubelet reads kernel messages, and each machine's pod cgroups must be separate.
func (l *lab) bootNode(t *testing.T, name, image, userData string) *machine {
	t.Helper()
	m := l.switchOnNode(t, name, image, userData)
	m.awaitStarted(t)
	return m
}

// switchOnNode is bootNode without waiting.
func (l *lab) switchOnNode(t *testing.T, name, image, userData string) *machine {
	t.Helper()
	write(t, filepath.Join(l.media, "first-process"), firstProcess, 0o755)
	l.boots++
	groups := ownGroups(t, fmt.Sprintf("%s-%d-%d", name, os.Getpid(), l.boots))
	m, options := l.insert(t, name, image, userData)
	options = append(options, "--capability=all", "--system-call-filter=add_key keyctl request_key bpf", "--bind=/dev/kmsg",
		"/bin/sh", "/mnt/first-process", notForOnline)
	m.spawn = exec.Command("sh", slices.Concat([]string{"-c", intoGroups, "sh"}, groups, []string{"--"}, options)...)
	m.switchOn(t)
	return m
}

// ownGroups creates a cgroup in each hierarchy, below this process's cgroup, and removes these cgroups after the
// test, when machines are off. With cgroups v2 systemd-nspawn creates its own cgroup.
func ownGroups(t *testing.T, name string) (groups []string) {
	t.Helper()
	const mounted = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(mounted, "cgroup.controllers")); err == nil {
		return nil
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		hierarchy := strings.TrimPrefix(fields[1], "name=")
		if hierarchy == "" {
			hierarchy = "unified"
		}
		parent := filepath.Join(mounted, hierarchy, fields[2])
		if _, err := os.Stat(parent); err != nil {
			continue // Not mounted.
		}
		group := filepath.Join(parent, name)
		if err := os.Mkdir(group, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { removeGroup(t, group) })
		if hierarchy == "cpuset" { // A cpuset accepts no process before its CPUs and memory are set.
			for _, setting := range []string{"cpuset.cpus", "cpuset.mems"} {
				value, err := os.ReadFile(filepath.Join(parent, setting))
				if err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(group, setting), string(value), 0o644)
			}
			write(t, filepath.Join(group, "cgroup.clone_children"), "1", 0o644)
		}
		groups = append(groups, group)
	}
	return groups
}

// removeGroup removes a cgroup with its children, innermost first. The kernel removes killed processes from their
// cgroups after a delay.
func removeGroup(t *testing.T, group string) {
	t.Helper()
	await(t, group+" to be empty", func() bool {
		var dirs []string
		_ = filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // Whatever is gone is gone.
		})
		for _, dir := range slices.Backward(dirs) {
			_ = os.Remove(dir)
		}
		_, err := os.Stat(group)
		return os.IsNotExist(err)
	})
}
