//go:build machines

package real

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// putToUse creates files of agents, people and pods on a running node, and returns their paths.
func putToUse(t *testing.T, m *machine) []string {
	t.Helper()
	before := files(t, m.root)
	facts := disk.TemplateValues{Hostname: m.name, MAC: m.mac, MachineID: m.sh(t, "cat /etc/machine-id")}
	steps := []func() error{
		func() error { return disk.Agents(m.root, facts) },
		func() error { return disk.Traces(m.root, facts) },
		func() error {
			return disk.RecordExtension(m.root, "Microsoft.Azure.Extensions.CustomScript", "vmssCSE")
		},
		func() error {
			return disk.AddPod(m.root, disk.PodRecord{UID: "0b9c1a52-pod", Namespace: "default", Name: "web-0", IP: "10.244.0.7"})
		},
	}
	for _, image := range disk.BaseImages {
		steps = append(steps, func() error { return disk.AddImage(m.root, image) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	// systemd's own unit for the random seed skips containers.
	m.sh(t, "/lib/systemd/systemd-random-seed save")
	planted := []string{"var/lib/systemd/random-seed"}
	for path := range files(t, m.root) {
		if _, there := before[path]; !there {
			planted = append(planted, path)
		}
	}
	return planted
}

// files returns the SHA-256 of every non-empty file of a disk.
func files(t *testing.T, root string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil && os.IsNotExist(err) {
			return nil // A running machine removes files.
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if content, err := os.ReadFile(path); err == nil && len(content) > 0 {
			sum := sha256.Sum256(content)
			sums[strings.TrimPrefix(path, root+"/")] = hex.EncodeToString(sum[:])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// patch upgrades the machine with its own package manager, and reboots the machine: off, and on again by boot.
func (l *lab) patch(t *testing.T, m *machine, boot func() *machine) *machine {
	t.Helper()
	l.publish(t, "2.0")
	m.sh(t, "apt-get update -q")
	out := m.sh(t, "unattended-upgrade -v")
	if version := m.sh(t, "dpkg-query -W -f '${Version}' "+tools); version != "2.0" {
		t.Fatalf("unattended-upgrade left %s at %s:\n%s", tools, version, out)
	}
	if wants := m.sh(t, "cat /run/reboot-required.pkgs"); wants != tools {
		t.Errorf("a reboot is wanted by %q, not by %s", wants, tools)
	}
	m.powerOff(t)
	again := boot()
	if _, err := again.try("test ! -e /run/reboot-required"); err != nil {
		t.Error("after its reboot the machine still wants one")
	}
	return again
}

// pod is the container of the generalize pod. The machine's root is at /host, in separate mounts.
//
// A container shares its kernel with the host, so the trigger for the power-off would turn off the host. A pipe
// without a reader covers the trigger, so that a non-blocking open for writing fails (ENXIO). Without the cover the
// script stops. The run trims all disks that are visible, so only the machine's disk may be visible. A virtual machine has a
// kernel and disks of its own.
const pod = `set -eu
host=/run/kamino-pod/host
mkdir -p "$host"
mount --make-rprivate /
mount --rbind / "$host"
# Twice, because some of these mounts are hidden below others of them.
for round in 1 2; do
	for at in $(awk -v at="$host/run/host" 'index($5, at) == 1 { print $5 }' /proc/self/mountinfo | tac); do
		umount -l "$at" 2>/dev/null || true
	done
done
# A pod sees the volumes of other pods below $host only; a second mount of them could not be taken away. The volumes of a pod that ends disappear meanwhile.
for at in $(awk 'index($5, "/var/lib/kubelet/") == 1 { print $5 }' /proc/self/mountinfo | tac); do
	umount -l "$at" 2>/dev/null || ! mountpoint -q "$at" || { echo "$at is not taken away" >&2; exit 96; }
done
trigger="$host/proc/sysrq-trigger"
if [ -e "$trigger" ] && [ "$KERNEL" != own ]; then
	mkfifo -m 0600 /run/kamino-pod/trigger
	mount --bind /run/kamino-pod/trigger "$trigger"
	[ -p "$trigger" ] || { echo "the trigger of the host is not covered" >&2; exit 97; }
fi
disk=$(stat -c %d "$host")
[ "$KERNEL" = own ] || for at in $(awk -v host="$host/" 'index($5, host) == 1 && /- [^ ]+ \/dev\//{ print $5 }' /proc/self/mountinfo); do
	[ "$(stat -c %d "$at")" = "$disk" ] || { echo "a disk that is not the machine's is seen at $at" >&2; exit 98; }
done
if [ "$KERNEL" != own ]; then
	# A node's pod sees all of the kernel's settings, which systemd-nspawn hides from machines.
	mount -t sysfs settings "$host/sys"
	mount -o remount,rw "$host/sys"
	[ ! -d /run/firmware ] || mount --bind /run/firmware "$host/sys/class"
	mount -o remount,bind,rw "$host/proc/sys"
fi
exec /mnt/kamino-node generalize --root "$host" --live --profile "$PROFILE" --prototype "$PROTOTYPE" --uid "$OWNER" --boot-id "$BOOT" --order "$ORDER" --order-uid "$ORDER_UID" --key-file /mnt/key --pod-uid-file /mnt/pod-uid --token-file /mnt/token --ca-file /mnt/ca.crt $EXTRA
`

// live runs kamino-node generalize on the machine as the generalize pod does.
func (l *lab) live(t *testing.T, m *machine, profile, bootID string, extra ...string) (string, error) {
	t.Helper()
	write(t, filepath.Join(l.media, "pod.sh"), pod, 0o755)
	write(t, filepath.Join(l.media, "token"), l.api.token, 0o600)
	write(t, filepath.Join(l.media, "key"), string(l.api.signer), 0o600)
	write(t, filepath.Join(l.media, "pod-uid"), podUID, 0o644)
	write(t, filepath.Join(l.media, "ca.crt"), string(l.api.ca), 0o644)
	env := strings.Join([]string{
		"KERNEL=" + m.kernel(), "PROFILE=" + profile, "PROTOTYPE=" + prototype, "OWNER=" + string(prototypeUID), "BOOT=" + bootID,
		"ORDER=" + v1alpha1.DefaultNamespace + "/" + orderName, "ORDER_UID=" + string(orderUID),
		"KUBERNETES_SERVICE_HOST=" + l.address, "KUBERNETES_SERVICE_PORT=" + l.api.port,
		"EXTRA='" + strings.Join(extra, " ") + "'",
	}, " ")
	m.fetchMedia(t)
	return m.try("exec env " + env + " unshare --mount sh /mnt/pod.sh")
}

// testTrimmed requires that a run trimmed all free blocks without an error.
func testTrimmed(t *testing.T, out string) {
	t.Helper()
	if strings.Contains(out, "set aside") || strings.Contains(out, "may not be trimmed") || !strings.Contains(out, "trimmed /:") {
		t.Error("not all that is free was trimmed")
	}
}

// generalizeLive generalizes the machine from the inside, like a capture, and cuts its power.
func (l *lab) generalizeLive(t *testing.T, m *machine, extra ...string) {
	t.Helper()
	bootID := m.sh(t, "cat /proc/sys/kernel/random/boot_id")
	l.api.order(t, m.name, v1alpha1.ProfileStatic, bootID)
	if out, err := l.live(t, m, "static", "11111111-2222-4333-8444-555555555555"); err == nil || !strings.Contains(out, "nothing was changed") {
		t.Fatalf("an order for another boot was not refused: %v\n%s", err, out)
	}
	if out, err := l.live(t, m, "bootstrap", bootID); err == nil || !strings.Contains(out, "nothing was changed") {
		t.Fatalf("the bootstrap profile was not refused on a running donor: %v\n%s", err, out)
	}
	begun := time.Now()
	out, err := l.live(t, m, "static", bootID, extra...)
	t.Logf("kamino-node generalize --live, %.1f s:\n%s", time.Since(begun).Seconds(), out)
	// The power is ours to cut; all else must have been done.
	if err == nil || !strings.Contains(out, "the host cannot be powered off") || !strings.Contains(out, "reported the proof") {
		t.Fatalf("the run ended otherwise than at the power-off: %v", err)
	}
	testTrimmed(t, out)
	m.cutPower(t)
	run(t, "e2fsck", "-fn", m.image)
	l.testProof(t, m.image, bootID)
}
