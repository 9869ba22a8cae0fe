//go:build machines

package real

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// bootPrograms are the further programs of the host for machines that boot by firmware.
var bootPrograms = map[string]string{
	"qemu-system-x86_64": "qemu-system-x86", "sfdisk": "fdisk", "mkfs.vfat": "dosfstools", "mcopy": "mtools", "mkfs.xfs": "xfsprogs", "ssh": "openssh-client", "ssh-keygen": "openssh-client",
}

// ovmf is the firmware of Debian's package ovmf: its code, and its variables. Those for Secure Boot have Microsoft's keys.
var (
	ovmf       = [2]string{"/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"}
	ovmfSecure = [2]string{"/usr/share/OVMF/OVMF_CODE_4M.ms.fd", "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"}
)

// TestBootChain boots machines as a cloud does: firmware, GRUB, kernel, initramfs, systemd. The donor is generalized while it runs,
// and switches itself off. Its disk boots on other hardware than its own.
func TestBootChain(t *testing.T) {
	if testing.Short() {
		t.Skip("needs virtual machines")
	}
	l := newVMLab(t)
	recipe := disk.CustomData(disk.Static)
	l.publish(t, "1.0")
	image := bootDisk(t, l.imageOf("donor"), "ext4", func(root string) {
		installPlatform(t, root, serverPackages, disk.Static)
		for _, pulled := range disk.BaseImages {
			if err := disk.AddImage(root, pulled); err != nil {
				t.Fatal(err)
			}
		}
		// Half of the processor time of a boot, and no part of its chain.
		run(t, "chroot", root, "systemctl", "--quiet", "mask", "snapd.service", "snapd.socket", "snapd.seeded.service", "apparmor.service", "e2scrub_reap.service")
		write(t, filepath.Join(root, "etc/apt/sources.list"), "deb [trusted=yes] "+l.mediaURL+"/repo ./\n", 0o644)
	})
	l.lap("the disk is made")

	donor := l.bootVM(t, "donor", image, recipe, hardware{})
	l.lap("the donor has become a node")
	bootID := donor.sh(t, "cat /proc/sys/kernel/random/boot_id")
	was := l.readIdentity(t, donor, "")
	needles := machineID(t, was.MachineID)
	for what, needle := range map[string]string{"history": "needle-history-" + rand.Text(), "journal": "needle-journal-" + rand.Text()} {
		needles[what] = []byte(needle)
	}
	donor.sh(t, fmt.Sprintf("echo %s >>/root/.bash_history; logger %s; journalctl --sync; sync", needles["history"], needles["journal"]))
	lived := copyDisk(t, image, l.imageOf("lived"))
	mounted(t, lived, func(root string) {
		was.readFiles(t, root)
		was.Seed = was.Files["var/lib/systemd/random-seed"]
		for path, secret := range secrets(t, root, append(slices.Concat(secretsOfMachine, secretsOfStatic), "var/lib/waagent/provisioned")...) {
			needles[path] = secret
		}
		seed, err := os.ReadFile(filepath.Join(root, "var/lib/systemd/random-seed"))
		if err != nil {
			t.Fatal(err)
		}
		needles["random seed"] = seed[:32]
	})
	if err := was.complete(); err != nil {
		t.Fatal(err)
	}
	if found := secretsOnDisk(t, lived, needles); len(found) != len(needles) {
		t.Errorf("of %d values of the donor the search finds only %v on its disk", len(needles), found)
	}
	discard(t, lived)

	l.api.order(t, donor.name, v1alpha1.ProfileStatic, bootID)
	out, err := l.live(t, donor, "static", bootID)
	t.Logf("kamino-node generalize --live: %v\n%s", err, out)
	testTrimmed(t, out)
	await(t, "the donor to switch itself off", func() bool {
		select {
		case <-donor.ended:
			return true
		default:
			return false
		}
	})
	if code := donor.spawn.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the donor ended with %d", code)
	}
	l.lap("the donor is generalized, and has switched itself off")
	l.testProof(t, image, bootID)
	if found := secretsOnDisk(t, image, needles); len(found) > 0 {
		t.Errorf("of %d values of the donor there are still on its disk: %v", len(needles), found)
	}
	mounted(t, image, func(root string) { l.verify(t, 0, root) })
	l.lap(fmt.Sprintf("the raw disk is searched for %d values of the donor", len(needles)))

	ids := l.vmClones(t, image, recipe)
	testClones(t, expectation{donor: was, provisioned: []string{"donor"}, upgraded: "1.0", ran: identityModules, idle: recipeModules}, ids, nil)
	l.lap("two clones have booted")
}

// vmClones boots two machines of one disk at once: one as the donor was, and one with UEFI and an NVMe disk that is larger.
func (l *lab) vmClones(t *testing.T, image, recipe string) (ids [2]identity) {
	t.Helper()
	var on [2]*machine
	for i, h := range []hardware{{}, {uefi: true, disk: onNVMe}} {
		clone := fmt.Sprintf("clone%d", i+1)
		copied := copyDisk(t, image, l.imageOf(clone))
		ids[i].Seed = seedOf(t, copied)
		if h.disk == onNVMe {
			run(t, "truncate", "-s", "4G", copied)
		}
		on[i] = l.startVM(t, clone, copied, recipe, h)
	}
	for i, m := range on {
		m.awaitVM(t, l)
		ids[i] = l.readIdentity(t, m, ids[i].Seed)
		want := [][]string{{"/dev/vda1", "3", "BIOS", "/dev/vda"}, {"/dev/nvme0n1p1", "4", "UEFI", "/dev/nvme0n1"}}[i]
		got := strings.Fields(m.sh(t, `findmnt -no SOURCE /; df --output=size -B1G / | tail -1; test -d /sys/firmware/efi && echo UEFI || echo BIOS
			readlink -f "$(echo GET grub-pc/install_devices | debconf-communicate 2>/dev/null | cut -d" " -f2)"`))
		if !slices.Equal(got, want) {
			t.Errorf("%s has the root file system, its size in GiB, the firmware, and GRUB's disk %v, want %v", m.name, got, want)
		}
		m.sh(t, "findmnt --verify && test \"$(cat /etc/machine-id)\" = \"$(cat /var/lib/dbus/machine-id)\"")
	}
	for i, m := range on {
		m.powerOff(t)
		mounted(t, m.image, func(root string) { ids[i].readFiles(t, root) })
	}
	return ids
}

// hardware of a virtual machine. The zero value is BIOS, with a disk on virtio.
type hardware struct {
	uefi bool
	disk diskDriver
	// secure switches Secure Boot on, with UEFI.
	secure bool
}

// diskDriver is Linux's driver for the disk of a machine.
type diskDriver string

const (
	onVirtio diskDriver = "virtio_blk"
	onNVMe   diskDriver = "nvme"
	onSCSI   diskDriver = "virtio_scsi"
)

// newVMLab has a lab whose media are also served over HTTP, as a cloud serves the values for its machines.
func newVMLab(t *testing.T) *lab {
	t.Helper()
	requireTools(t, bootPrograms)
	if _, err := os.Stat(ovmf[0]); err != nil {
		t.Fatalf("no firmware for UEFI; on Debian or Ubuntu: apt-get install ovmf: %v", err)
	}
	l := newLab(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(l.address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.FileServer(http.Dir(l.media)))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	l.mediaURL = server.URL
	run(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(l.dir, "key"))
	return l
}

// bootVM starts a virtual machine, and waits until systemd has started all units.
func (l *lab) bootVM(t *testing.T, name, image, userData string, h hardware) *machine {
	t.Helper()
	m := l.startVM(t, name, image, userData, h)
	m.awaitVM(t, l)
	return m
}

// startVM starts a virtual machine from a raw disk. cloud-init finds the values from the cloud by the serial number of the machine, and
// lets the test in.
func (l *lab) startVM(t *testing.T, name, image, userData string, h hardware) *machine {
	t.Helper()
	seed := l.writeSeed(t, name, userData)
	key, err := os.ReadFile(filepath.Join(l.dir, "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(seed, "vendor-data"), fmt.Sprintf("#cloud-config\ndisable_root: false\nssh_authorized_keys: [%q]\n", strings.TrimSpace(string(key))), 0o600)
	l.boots++
	m := &machine{name: name, image: image, media: l.mediaURL, ended: make(chan struct{}), mac: fmt.Sprintf("52:54:00:%02x:00:%02x", l.number, l.boots)}
	tap := fmt.Sprintf("kmtap%d-%d", l.number, l.boots)
	run(t, "ip", "tuntap", "add", "dev", tap, "mode", "tap")
	t.Cleanup(func() { run(t, "ip", "link", "del", tap) })
	run(t, "ip", "link", "set", tap, "master", l.bridge, "up")
	m.spawn = exec.Command("qemu-system-x86_64", append(h.options(t, image),
		"-netdev", "tap,id=net,script=no,downscript=no,ifname="+tap, "-device", "virtio-net-pci,netdev=net,mac="+m.mac,
		"-smbios", fmt.Sprintf("type=1,serial=ds=nocloud-net;s=%s/%s/", l.mediaURL, filepath.Base(seed)))...)
	m.switchOn(t)
	return m
}

// options of QEMU for a machine with one disk, and its console as output.
func (h hardware) options(t *testing.T, image string) []string {
	t.Helper()
	options := []string{
		"-accel", "tcg", "-machine", "q35", "-m", "1024", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-uuid", string(uuid.NewUUID()), "-device", "virtio-rng-pci", "-drive", "file=" + image + ",format=raw,if=none,id=disk,cache=unsafe,discard=unmap",
	}
	device := map[diskDriver]string{onNVMe: "nvme", onSCSI: "scsi-hd"}[h.disk]
	if h.disk == onSCSI {
		options = append(options, "-device", "virtio-scsi-pci")
	}
	options = append(options, "-device", cmp.Or(device, "virtio-blk-pci")+",drive=disk,serial="+rand.Text()[:13])
	firmware := ovmf
	if h.secure {
		firmware = ovmfSecure
		options = append(options, "-machine", "smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on")
	}
	if h.uefi || h.secure {
		run(t, "cp", firmware[1], image+".vars")
		options = append(options, "-drive", "if=pflash,format=raw,readonly=on,file="+firmware[0], "-drive", "if=pflash,format=raw,file="+image+".vars")
	}
	return options
}

// awaitVM logs in to a virtual machine, and waits until systemd has started all units.
func (m *machine) awaitVM(t *testing.T, l *lab) {
	t.Helper()
	key := []string{"-i", filepath.Join(l.dir, "key"), "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "LogLevel=ERROR", "-o", "ServerAliveInterval=5", "-S", m.image + ".ssh"}
	deadline := time.Now().Add(2 * maxWait)
	for {
		if m.shell == nil {
			m.shell = m.connect(l, key)
		}
		if m.shell != nil && m.hasStarted() {
			l.lap(m.name + " has started: " + m.spent(t))
			return
		}
		select {
		case <-m.ended:
			t.Fatalf("%s ended while it started", m.name)
		case <-time.After(250 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s to start", m.name)
		}
	}
}

// connect opens one connection for all commands, and returns the command before a shell command; nil before the machine answers.
func (m *machine) connect(l *lab, key []string) []string {
	l.dhcp.mu.Lock()
	address := l.dhcp.leases[m.mac].Address
	l.dhcp.mu.Unlock()
	if address == "" {
		return nil
	}
	shell := append([]string{"ssh", "root@" + address}, key...)
	if _, err := attempt(shell[0], append(slices.Clone(shell[1:]), "true")...); err != nil {
		return nil
	}
	// The connection ends with the machine.
	_ = exec.Command("ssh", append(shell[1:], "-M", "-N")...).Start()
	return shell
}

// spent are the seconds since a virtual machine's start, and the CPU seconds of all of them.
func (m *machine) spent(t *testing.T) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.spawn.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var user, system int
	after := string(stat)[strings.LastIndex(string(stat), ")")+1:]
	fields := strings.Fields(after)
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	// Linux shows processes hundredths of a second.
	return fmt.Sprintf("%.1f s, %.1f CPU s", time.Since(m.begun).Seconds(), float64(user+system)/100)
}

// fetchMedia copies the media into a virtual machine. A container has them.
func (m *machine) fetchMedia(t *testing.T) {
	t.Helper()
	if m.media == "" {
		return
	}
	m.sh(t, `mountpoint -q /mnt || mount -t tmpfs media /mnt; cd /mnt; python3 -c 'import sys, urllib.request
for name in sys.argv[2:]: urllib.request.urlretrieve(sys.argv[1] + "/" + name, name)' `+m.media+` kamino-node pod.sh token key pod-uid ca.crt; chmod 755 kamino-node`)
}

// kernel says whether the machine has a kernel of its own, or the host's.
func (m *machine) kernel() string {
	if m.media == "" {
		return "shared"
	}
	return "own"
}

// installPlatform unpacks Debian without identity, and adds the software of a node before its join.
func installPlatform(t *testing.T, root, packageList string, profile disk.Profile) {
	t.Helper()
	run(t, "tar", "-xf", rootTarball(t, packageList), "-C", root)
	removeBuildTraces(t, root)
	installSoftware(t, root, profile)
}

// writeSeed writes the values from the cloud, and returns their directory.
func (l *lab) writeSeed(t *testing.T, name, userData string) string {
	t.Helper()
	seed := filepath.Join(l.media, "seed-"+name)
	write(t, filepath.Join(seed, "meta-data"), "instance-id: i-"+name+"\nlocal-hostname: "+name+"\n", 0o600)
	write(t, filepath.Join(seed, "user-data"), userData, 0o600)
	return seed
}

// hasStarted waits for all units of the machine, as long as one command may take.
func (m *machine) hasStarted() bool {
	out, _ := m.try("systemctl is-system-running --wait")
	state := strings.TrimSpace(out)
	return state == "running" || state == "degraded"
}

// eject unmounts a container's disk.
func (m *machine) eject(t *testing.T) {
	t.Helper()
	if m.root != "" {
		detach(t, m.image, m.root)
	}
}

// testProof requires the proof of a run in a boot, and that the manifest on the disk is the manifest of the proof.
func (l *lab) testProof(t *testing.T, image, bootID string) {
	t.Helper()
	proof := l.api.proof(t)
	if !proof.Holds(prototypeUID, bootID) {
		t.Fatalf("the proof %+v does not hold for boot %s", proof, bootID)
	}
	mounted(t, image, func(root string) {
		if sum := "sha256:" + files(t, filepath.Join(root, filepath.Dir(generalize.ManifestPath)))["generalize.json"]; sum != proof.ManifestDigest {
			t.Errorf("the manifest on the disk is %s, the proof is of %s", sum, proof.ManifestDigest)
		}
	})
}

// readFiles reads what is on a machine's disk.
func (id *identity) readFiles(t *testing.T, root string) {
	t.Helper()
	id.Files = files(t, root)
	id.Agent = id.Files["var/lib/waagent/TransportPrivate.pem"]
	if own, err := os.Readlink(filepath.Join(root, "var/lib/kubelet/pki/kubelet-client-current.pem")); err == nil {
		id.Own, id.Serving = id.Files["var/lib/kubelet/pki/"+filepath.Base(own)], id.Files["var/lib/kubelet/pki/kubelet.key"]
		return
	}
	id.Cluster, id.Serving = id.Files["etc/kubernetes/certs/client.key"], id.Files["etc/kubernetes/certs/kubeletserver.key"]
}
