//go:build machines

package real

import (
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/kamino-dev/kamino/internal/agent/quiesce"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// roundPackages make a node that boots by firmware, and has the programs of its writers and of tests on its own kernel.
const roundPackages = packageList + ",containerd,initramfs-tools,linux-image-cloud-amd64,grub-pc,grub-efi-amd64-bin,cloud-guest-utils,xfsprogs,fdisk,dosfstools"

const (
	// roundsOfEach is the number of rounds on each file system.
	roundsOfEach = 10
	// maxCopies is how often a capture takes a fresh copy.
	maxCopies = 3
)

// TestCopyRounds copies the disk of a booted machine while dpkg, containerd, journald and others write to it, and cleans each copy on a
// device. What counts is the state of the copies, and of the machine. The last copy of each file system boots under QEMU.
func TestCopyRounds(t *testing.T) {
	if testing.Short() {
		t.Skip("needs virtual machines")
	}
	l := newVMLab(t)
	pool := l.mountPool(t)
	l.publish(t, "1.0")
	images := l.addSite(t)
	var machines []identity
	for kind, h := range map[string]hardware{"ext4": {}, "xfs": {uefi: true, disk: onNVMe}} {
		t.Run(kind, func(t *testing.T) {
			d := l.copyDonor(t, filepath.Join(pool, kind+".img"), kind, images)
			t.Run("controls", d.testControls)
			d.startWriters(t)
			for round := range roundsOfEach {
				t.Run(fmt.Sprint(round), func(t *testing.T) { d.testRound(t, round) })
			}
			d.testUnharmed(t)
			t.Run("boot", func(t *testing.T) { machines = d.testBoot(t, h, append(machines, d.was)) })
		})
	}
}

// mountPool mounts a directory for disks, in memory, whose file system copies a file at one moment, as a cloud copies a disk. A copy has
// what had reached the disk, and nothing of what the machine's kernel still holds in memory.
func (l *lab) mountPool(t *testing.T) string {
	t.Helper()
	memory, pool := filepath.Join(l.dir, "memory"), filepath.Join(l.dir, "pool")
	file := filepath.Join(memory, "pool")
	run(t, "mkdir", memory, pool)
	run(t, "mount", "-t", "tmpfs", "-o", "size=8G", "kamino-pool", memory)
	t.Cleanup(func() { run(t, "umount", memory) })
	run(t, "truncate", "-s", "30G", file)
	run(t, "mkfs.xfs", "-q", "-m", "reflink=1", file)
	run(t, "mount", "-o", "loop,discard", file, pool)
	t.Cleanup(func() { detach(t, file, pool) })
	return pool
}

// snapshotOf copies a disk of the pool at one moment, and returns how long that took.
func snapshotOf(t *testing.T, from, to string) time.Duration {
	t.Helper()
	source, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	made, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	begun := time.Now()
	if err := unix.IoctlFileClone(int(made.Fd()), int(source.Fd())); err != nil {
		t.Fatalf("copy the disk at one moment: %v", err)
	}
	return time.Since(begun)
}

// copyDonor is a machine that is copied while it runs.
type copyDonor struct {
	*lab
	m *machine
	// kind is the root's file system. pristine is the disk of another machine with the same UUIDs: before the boot.
	kind, pristine, rootUUID string
	was                      identity
	// needles must be on each copy before the cleaning, and on none afterwards.
	needles map[string][]byte
	images  []string
	// cleaned is the last cleaned copy.
	cleaned string
	// again counts the fresh copies, by the reason.
	again map[string]int
}

// copyDonor boots a machine that becomes a node, and plants secrets.
func (l *lab) copyDonor(t *testing.T, image, kind string, images []string) *copyDonor {
	t.Helper()
	bootDisk(t, image, kind, func(root string) {
		installPlatform(t, root, roundPackages, disk.Static)
		// The host may forbid a lower score.
		write(t, filepath.Join(root, "etc/systemd/system/containerd.service.d/score.conf"), "[Service]\nOOMScoreAdjust=0\n", 0o644)
	})
	if known, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(known), "\tvfat\n") {
		// TestCopiesWithFAT has a kernel for the EFI system partition.
		mounted(t, image, func(root string) { run(t, "sed", "-i", "/ vfat /d", filepath.Join(root, "etc/fstab")) })
	}
	d := &copyDonor{lab: l, kind: kind, pristine: image + ".pristine", images: images, again: map[string]int{}}
	snapshotOf(t, image, d.pristine)
	d.rootUUID = strings.TrimSpace(run(t, "blkid", "-p", "--offset", fmt.Sprint(rootOffset(t, image)), "-s", "UUID", "-o", "value", image))
	on, options := l.insert(t, "donor", image, disk.CustomData(disk.Static))
	d.m = on
	on.spawn = exec.Command("systemd-nspawn", append(options, "--capability=CAP_IPC_LOCK", "--boot", notForOnline)...)
	on.start(t)
	on.sh(t, aDisk)
	on.sh(t, "systemctl reset-failed systemd-remount-fs.service") // a container has no disks by UUID
	on.startWriters(t)
	d.pull(t, d.baseImage())
	d.was = l.readIdentity(t, on, "")
	d.needles = machineID(t, d.was.MachineID)
	maps.Copy(d.needles, writtenNeedles)
	maps.Copy(d.needles, secrets(t, on.root, append(slices.Concat(secretsOfMachine, secretsOfStatic), "var/lib/waagent/provisioned")...))
	on.sh(t, "sync -f /")
	l.lap("the donor with " + kind + " has become a node")
	return d
}

// baseImage is pulled once, and stays.
func (d *copyDonor) baseImage() string { return d.images[len(d.images)-1] }

func (d *copyDonor) pull(t *testing.T, image string) {
	t.Helper()
	d.m.sh(t, "ctr -n k8s.io images pull --plain-http "+image)
}

// aCopy is the copy of a running disk, and what is known of its moment. late is why it is of no use.
type aCopy struct {
	path                     string
	uid, nonce               string
	machineID, rootUUID      string
	acknowledged             int
	frozen                   bool
	frozenFor, late, details string
}

func (d *copyDonor) newCopy() *aCopy {
	return &aCopy{
		path: filepath.Join(filepath.Dir(d.m.image), "copy-"+rand.Text()[:8]), uid: string(uuid.NewUUID()), nonce: sumOf([]byte(rand.Text())),
		machineID: d.was.MachineID, rootUUID: d.rootUUID,
	}
}

// testRound takes a copy in service, as often as a capture does, and judges it before and after the cleaning.
func (d *copyDonor) testRound(t *testing.T, round int) {
	// Both ways to the moment of a copy.
	freeze := []string{"Auto", "Never"}[round%2]
	begun := time.Now()
	needle := "needle-round-" + rand.Text()
	d.m.sh(t, "echo "+needle+" >>/root/.bash_history")
	d.needles["the history"] = []byte(needle)
	for copies := 1; ; copies++ {
		c := d.copyInService(t, freeze)
		if took, ok := writes(d.m); !ok {
			t.Fatalf("the donor's disk is not writable for %v", took)
		}
		if c.acknowledged == 0 {
			t.Fatal("nothing is acknowledged")
		}
		why := c.late
		if why == "" {
			why = d.cleanAndJudge(t, c)
		}
		if why == "" {
			t.Logf("%s, copy %d, frozen for %s; %s; %.1f s in all", freeze, copies, c.frozenFor, c.details, time.Since(begun).Seconds())
			return
		}
		d.again[why]++
		discard(t, c.path)
		if copies == maxCopies {
			t.Fatalf("no copy of %d is of use: %v", copies, d.again)
		}
	}
}

// copyInService is what Kamino does on a donor: quiesce, copy, thaw.
func (d *copyDonor) copyInService(t *testing.T, freeze string) *aCopy {
	t.Helper()
	c := d.newCopy()
	run(t, "sync", "-f", filepath.Dir(d.m.image)) // a cloud's disk has nothing to write down first
	begun := time.Now()
	q := startQuiesce(t, d.m, "--freeze", freeze)
	defer q.end()
	c.uid, c.nonce = q.uid, q.nonce
	now := q.await(t, "Now")
	if now["rootFrozen"] != (freeze == "Auto") {
		t.Fatalf("%v\n%s", now, q.stderr.String())
	}
	waited := time.Since(begun)
	c.acknowledged = d.acknowledged(t)
	took := snapshotOf(t, d.m.image, c.path)
	_, _ = io.WriteString(q.in, "accepted\n")
	thawed := q.await(t, "Thawed")
	if err := q.cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, q.stderr.String())
	}
	c.frozen = thawed["rootFrozen"] == true
	c.frozenFor, c.machineID, c.rootUUID = fmt.Sprint(thawed["frozenFor"]), fmt.Sprint(thawed["machineID"]), fmt.Sprint(thawed["rootUUID"])
	if thawed["inTime"] != true {
		c.late = fmt.Sprint("late: ", thawed["late"])
	}
	c.details = fmt.Sprintf("waited %.1f s, copied in %.2f s", waited.Seconds(), took.Seconds())
	return c
}

// acknowledged is the last line that the writer's disk has acknowledged; 0 before the writer begins. It is read past the frozen disk.
func (d *copyDonor) acknowledged(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/run/acknowledged", d.m.leader))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Errorf("acknowledged is %q: %v", text, err)
	}
	return n
}

// clean runs Kamino on the copy as a device, and returns its exit code and output.
func (d *copyDonor) clean(t *testing.T, c *aCopy) (int, string) {
	t.Helper()
	loop := strings.TrimSpace(run(t, "losetup", "--find", "--show", c.path))
	defer run(t, "losetup", "--detach", loop)
	_, _ = attempt("partx", "--delete", loop) // of an earlier file
	run(t, "partx", "--add", loop)
	defer run(t, "partx", "--delete", loop)
	out, err := attempt(d.kamino, "generalize", "--device", loop, "--machine-id", c.machineID, "--root-uuid", c.rootUUID, "--nonce-name", c.uid,
		"--nonce", c.nonce, "--profile", "static")
	return code(err), out
}

// incomplete is what Kamino says of a copy from the middle of a transaction.
const incomplete = "take a fresh copy while no package manager runs"

// cleanAndJudge returns why a fresh copy is needed; empty for a good copy.
func (d *copyDonor) cleanAndJudge(t *testing.T, c *aCopy) (why string) {
	t.Helper()
	before := maps.Clone(d.needles)
	before["the nonce"] = []byte(c.nonce)
	if found := secretsOnDisk(t, c.path, before); len(found) != len(before) {
		t.Errorf("of %d values of the donor the raw copy has only %q", len(before), found)
	}
	begun := time.Now()
	exit, out := d.clean(t, c)
	c.details += fmt.Sprintf(", cleaned in %.1f s", time.Since(begun).Seconds())
	if exit == 4 && strings.Contains(out, incomplete) {
		return "packages are incomplete"
	}
	if exit != 0 {
		t.Fatalf("exit code %d\n%s", exit, out)
	}
	if removed := strings.Count(out, "Removed the damaged image"); removed > 0 {
		c.details += fmt.Sprintf(", removed %d damaged images", removed)
		if c.frozen {
			t.Errorf("a frozen copy has damaged images:\n%s", out)
		}
	}
	if found := secretsOnDisk(t, c.path, before); len(found) > 0 {
		t.Errorf("on the raw copy after the cleaning: %q\n%s", found, out)
	}
	d.judge(t, c)
	if d.cleaned != "" {
		discard(t, d.cleaned)
	}
	d.cleaned = c.path
	return ""
}

// testUnharmed: the donor works on, its writers have never failed, and its disk is whole.
func (d *copyDonor) testUnharmed(t *testing.T) {
	t.Helper()
	for name := range siteWriters {
		d.m.sh(t, "systemctl is-active "+name)
	}
	// dpkg and containerd come to an end.
	d.m.sh(t, "touch /run/enough")
	await(t, "the writers to end", func() bool {
		_, err := d.m.try("! systemctl is-active site-dpkg site-pull")
		return err == nil
	})
	d.m.sh(t, "systemctl stop site-sync site-log")
	if failed := d.m.sh(t, "systemctl --failed --plain --no-legend; dpkg --audit"); failed != "" {
		t.Errorf("on the donor: %s", failed)
	}
	if id := d.readIdentity(t, d.m, ""); id.MachineID != d.was.MachineID || !slices.Equal(id.SSH, d.was.SSH) || id.Serving != d.was.Serving || id.Agent != d.was.Agent {
		t.Errorf("the donor has changed: %+v, was %+v", id, d.was)
	}
	t.Logf("written meanwhile: %s", strings.Join(strings.Fields(d.m.sh(t, "cat /run/rounds-of-* /run/acknowledged")), ", "))
	t.Logf("fresh copies: %v", d.again)
	d.m.powerOff(t)
	checkFileSystem(t, d.kind, d.m.image)
	if found := secretsOnDisk(t, d.m.image, d.needles); len(found) != len(d.needles) {
		t.Errorf("the donor's disk has only %q", found)
	}
	discard(t, d.m.image)
	d.lap("the donor with " + d.kind + " is unharmed")
}

// checkFileSystem checks the unmounted root of a disk.
func checkFileSystem(t *testing.T, kind, image string) {
	t.Helper()
	loop := strings.TrimSpace(run(t, "losetup", "--find", "--show", "--offset", fmt.Sprint(rootOffset(t, image)), image))
	defer run(t, "losetup", "--detach", loop)
	if kind == "xfs" {
		run(t, "xfs_repair", "-n", loop)
	} else {
		run(t, "e2fsck", "-n", "-f", loop)
	}
}

// testBoot boots the last cleaned copy by firmware. It becomes a machine of its own, with the donor's packages and images, and shares nothing with
// the other machines.
func (d *copyDonor) testBoot(t *testing.T, h hardware, others []identity) []identity {
	if d.cleaned == "" {
		t.Fatal("there is no cleaned copy")
	}
	m := d.bootVM(t, "clone-"+d.kind, d.cleaned, disk.CustomData(disk.Static), h)
	m.sh(t, "systemctl is-active multi-user.target && systemctl is-active containerd.service")
	id := d.readIdentity(t, m, "")
	if len(id.MachineID) != 32 || id.Hostname != m.name {
		t.Errorf("%s has no identity of its own: %+v", m.name, id)
	}
	for _, other := range others {
		if same := shared(other, id); len(same) > 0 {
			t.Errorf("%s has %q of %s", m.name, same, other.Hostname)
		}
	}
	if bad := m.sh(t, "systemctl --failed --plain --no-legend; dpkg --audit; ls -d /var/lib/kamino/quiesce 2>/dev/null || true"); bad != "" {
		t.Errorf("%s: %s", m.name, bad)
	}
	if complete := m.sh(t, "ctr -n k8s.io images check"); !regexp.MustCompile(regexp.QuoteMeta(d.baseImage()) + `.*\scomplete\s.*true`).MatchString(complete) {
		t.Errorf("%s has not the image %s:\n%s", m.name, d.baseImage(), complete)
	}
	m.cutPower(t)
	return append(others, id)
}

// testControls takes copies that are of no use, before the writers begin. Each must be found out.
func (d *copyDonor) testControls(t *testing.T) {
	t.Run("before the flush", func(t *testing.T) {
		early := d.newCopy()
		snapshotOf(t, d.m.image, early.path)
		c := d.copyInService(t, "Auto")
		discard(t, c.path)
		c.path = early.path
		d.mustDiscard(t, c, "does not hold the donor's last flush")
	})
	t.Run("without a flush", func(t *testing.T) {
		d.untilSeen(t, func(c *aCopy) string {
			d.m.sh(t, d.nonce(c))
			snapshotOf(t, d.m.image, c.path)
			return "does not hold the donor's last flush"
		})
	})
	t.Run("another disk", func(t *testing.T) {
		c := d.newCopy()
		snapshotOf(t, d.pristine, c.path)
		d.mustDiscard(t, c, "the copy has the machine ID")
	})
	t.Run("in a transaction", d.testTransaction)
	t.Run("an image without a flush", func(t *testing.T) {
		// The nonce alone is flushed: the image is removed from the copy.
		d.untilSeen(t, func(c *aCopy) string {
			d.m.sh(t, "sync -f /")
			d.pull(t, d.images[0])
			d.m.sh(t, d.nonce(c)+" && sync /"+quiesce.NonceDir+"/"+c.uid)
			snapshotOf(t, d.m.image, c.path)
			d.m.sh(t, "ctr -n k8s.io images rm --sync "+d.images[0])
			return "Removed the damaged image " + d.images[0]
		})
	})
}

// nonce writes the nonce in the way of Kamino, without a flush.
func (*copyDonor) nonce(c *aCopy) string {
	return "rm -rf /" + quiesce.NonceDir + " && mkdir -p /" + quiesce.NonceDir + " && echo " + c.nonce + " >/" + quiesce.NonceDir + "/" + c.uid
}

// mustDiscard cleans a copy that must be discarded for a reason.
func (d *copyDonor) mustDiscard(t *testing.T, c *aCopy, why string) {
	t.Helper()
	if exit, out := d.clean(t, c); exit != 4 || !strings.Contains(out, why) {
		t.Errorf("exit code %d, want 4 and %q\n%s", exit, why, out)
	}
	discard(t, c.path)
}

// untilSeen takes copies until Kamino says what is wrong with one. Any program on the host that calls sync also flushes the donor.
func (d *copyDonor) untilSeen(t *testing.T, take func(c *aCopy) (says string)) {
	t.Helper()
	for copies := 1; ; copies++ {
		c := d.newCopy()
		says := take(c)
		exit, out := d.clean(t, c)
		discard(t, c.path)
		if strings.Contains(out, says) {
			return
		}
		if copies == maxCopies {
			t.Fatalf("in %d copies nothing says %q; exit code %d\n%s", copies, says, exit, out)
		}
	}
}

// testTransaction: Kamino waits for dpkg, and changes nothing on a donor that stays busy. A copy without the wait is half installed, flushed
// or not.
func (d *copyDonor) testTransaction(t *testing.T) {
	d.m.sh(t, "systemd-run -q --unit=site-slow dpkg -i /mnt/site/site-slow.deb")
	await(t, "the package to be half configured", func() bool {
		_, err := d.m.try("test -e /run/slow")
		return err == nil
	})
	q := startQuiesce(t, d.m, "--wait", "2s")
	if line := q.await(t, "Waiting"); line == nil || !strings.Contains(line["for"].(string), "dpkg") {
		t.Errorf("it does not wait for dpkg: %v", line)
	}
	if line := q.await(t, "Now"); line != nil {
		t.Errorf("a copy may be taken: %v", line)
	}
	if err := q.cmd.Wait(); code(err) != 3 || !strings.Contains(q.stderr.String(), "DonorBusy") {
		t.Errorf("%v\n%s", err, q.stderr.String())
	}
	if _, err := d.m.try("test ! -e /" + quiesce.NonceDir + "/" + q.uid); err != nil {
		t.Error("the nonce is on the disk of a busy donor")
	}
	c := d.newCopy()
	d.m.sh(t, d.nonce(c)+" && sync -f /")
	snapshotOf(t, d.m.image, c.path)
	d.mustDiscard(t, c, incomplete)
	d.m.sh(t, "touch /run/go")
	await(t, "dpkg to end", func() bool {
		_, err := d.m.try("! systemctl is-active site-slow && dpkg -P site-slow")
		return err == nil
	})
}

// Packages and images that the writers of a donor install, pull and remove.
const (
	sitePackages, siteFiles = 12, 60
	siteImages, imageFiles  = 6, 150
	baseImage               = "base:1"
)

// siteWriters are services of a donor by their names. The scripts are beside the disk. Package managers and pulls begin again and again, and
// end themselves when they are asked to.
var siteWriters = map[string]string{
	"site-dpkg": `i=0; while ! [ -e /run/enough ]; do
	n=$((i % 4 * 3)); names="site-$n site-$((n + 1)) site-$((n + 2))"
	dpkg -i $(for name in $names; do echo /mnt/site/$name.deb; done); sleep 1
	[ $((i % 2)) = 0 ] || dpkg -P $names; sleep 1
	i=$((i + 1)); echo $i transactions of dpkg | tr " " _ >/run/rounds-of-dpkg
done`,
	"site-pull": `i=0; while ! [ -e /run/enough ]; do
	ctr -n k8s.io images pull --plain-http $REGISTRY/image$((i % 6)):1 >/dev/null
	i=$((i + 1)); echo $i pulls | tr " " _ >/run/rounds-of-pull; sleep 1
	[ $i -lt 4 ] || ctr -n k8s.io images rm --sync $REGISTRY/image$(((i - 4) % 6)):1
done`,
	"site-sync": `mkdir -p /var/lib/site; n=0; while :; do
	n=$((n + 1)); echo $n >>/var/lib/site/acknowledged; sync -d /var/lib/site/acknowledged
	echo $n >/run/acknowledged.new; mv /run/acknowledged.new /run/acknowledged; sleep 0.05
done`,
	"site-log": `while :; do echo "a line of the log"; sleep 0.05; done`,
}

// addSite puts packages, scripts and images where a donor finds them, and returns the references of the images.
func (l *lab) addSite(t *testing.T) (images []string) {
	t.Helper()
	site := filepath.Join(l.media, "site")
	for i := range sitePackages {
		files := map[string]string{}
		for _, f := range content(fmt.Sprintf("usr/share/site-%d", i), siteFiles, 2000) {
			files[f.name] = string(f.content)
		}
		l.buildSite(t, fmt.Sprintf("site-%d", i), files, "true")
	}
	l.buildSite(t, "site-slow", nil, "touch /run/slow; while ! [ -e /run/go ]; do sleep 0.1; done")
	r := &registry{blobs: map[string][]byte{}, tags: map[string]string{}}
	for i := range siteImages {
		name := fmt.Sprintf("image%d", i)
		r.add(t, registryName+"/"+name+":1", "/none", content("data/"+name+"/a", imageFiles, 3000), content("data/"+name+"/b", imageFiles, 3000))
	}
	r.add(t, registryName+"/"+baseImage, "/none", content("data/base", imageFiles, 3000))
	r.listen(t, l.address)
	for name, script := range siteWriters {
		write(t, filepath.Join(site, name), "set -e\nREGISTRY="+r.address+"\n"+script+"\n", 0o644)
	}
	for i := range siteImages {
		images = append(images, fmt.Sprintf("%s/image%d:1", r.address, i))
	}
	return append(images, r.address+"/"+baseImage)
}

// buildSite builds a package.
func (l *lab) buildSite(t *testing.T, name string, files map[string]string, configure string) {
	t.Helper()
	dir := filepath.Join(l.dir, "package-"+name)
	control := fmt.Sprintf("Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: Example <packages@example.com>\nDescription: stands for a package of a node\n", name)
	write(t, filepath.Join(dir, "DEBIAN/control"), control, 0o644)
	write(t, filepath.Join(dir, "DEBIAN/postinst"), "#!/bin/sh\nset -e\n"+configure+"\n", 0o755)
	for path, content := range files {
		write(t, filepath.Join(dir, path), content, 0o644)
	}
	if err := os.MkdirAll(filepath.Join(l.media, "site"), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "dpkg-deb", "--root-owner-group", "-Znone", "-b", dir, filepath.Join(l.media, "site", name+".deb"))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

// startWriters starts the writers, and waits until each has written.
func (d *copyDonor) startWriters(t *testing.T) {
	t.Helper()
	for name := range siteWriters {
		d.m.sh(t, "systemd-run -q --unit="+name+" sh /mnt/site/"+name)
	}
	await(t, "the writers to write", func() bool {
		_, err := d.m.try("test -e /run/rounds-of-dpkg && test -e /run/rounds-of-pull && test -e /run/acknowledged")
		return err == nil
	})
}

// mountedCopy shows a cleaned copy read-only, next to the mounted disk with the same UUID.
func mountedCopy(t *testing.T, kind, image string, do func(root string)) {
	t.Helper()
	root := image + ".tree"
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("ro,loop,offset=%d", rootOffset(t, image))
	if kind == "xfs" {
		options += ",nouuid"
	}
	run(t, "mount", "-o", options, image, root)
	defer detach(t, image, root)
	do(root)
}

// judge judges a cleaned copy by its state, without Kamino's code.
func (d *copyDonor) judge(t *testing.T, c *aCopy) {
	t.Helper()
	checkFileSystem(t, d.kind, c.path)
	mountedCopy(t, d.kind, c.path, func(root string) {
		packages := testPackages(t, root)
		images, layers := d.testImages(t, root)
		c.details += fmt.Sprintf("; %d packages of the writers, %d images, %d layers", packages, images, layers)
		written, err := os.ReadFile(filepath.Join(root, "var/lib/site/acknowledged"))
		if err != nil {
			t.Error(err)
		}
		lines := strings.Split(string(written), "\n")
		for i := range c.acknowledged {
			if i >= len(lines) || lines[i] != fmt.Sprint(i+1) {
				t.Errorf("of %d acknowledged lines, line %d is lost", c.acknowledged, i+1)
				break
			}
		}
		for _, gone := range []string{"var/lib/kamino/quiesce", "root/.bash_history"} {
			if _, err := os.Lstat(filepath.Join(root, gone)); !os.IsNotExist(err) {
				t.Errorf("/%s is on the cleaned copy: %v", gone, err)
			}
		}
		if id, err := os.ReadFile(filepath.Join(root, "etc/machine-id")); err != nil || strings.TrimSpace(string(id)) != "" {
			t.Errorf("the machine ID is %q, %v", id, err)
		}
	})
}

// testPackages requires that dpkg knows no half package, and that the packages of the writers are there as a whole or not at all.
func testPackages(t *testing.T, root string) (installed int) {
	t.Helper()
	if audit := run(t, "dpkg", "--root="+root, "--audit"); audit != "" {
		t.Errorf("dpkg --audit: %s", audit)
	}
	var names []string
	for line := range strings.Lines(run(t, "dpkg-query", "--admindir="+root+"/var/lib/dpkg", "-W", "-f", "${Package} ${db:Status-Status}\n")) {
		if name, is := strings.CutSuffix(strings.TrimSpace(line), " installed"); is && strings.HasPrefix(name, "site-") {
			names = append(names, name)
		}
	}
	for i := range sitePackages {
		name := fmt.Sprintf("site-%d", i)
		found, err := filepath.Glob(filepath.Join(root, "usr/share", name, "*/*"))
		want := 0
		if slices.Contains(names, name) {
			want = siteFiles
		}
		if err != nil || len(found) != want {
			t.Errorf("%s has %d files, want %d: %v", name, len(found), want, err)
		}
		if want > 0 {
			if changed, err := attempt("dpkg", "--root="+root, "--verify", name); err != nil || changed != "" {
				t.Errorf("dpkg --verify %s: %s %v", name, changed, err)
			}
		}
	}
	return len(names)
}

// testImages requires that each image that containerd names has all blobs, and that its unpacked layers are as in their archives. The image that
// nothing pulls meanwhile must be unpacked.
func (d *copyDonor) testImages(t *testing.T, root string) (images, layers int) {
	t.Helper()
	named := imagesOf(t, root)
	w, base := checkStore(t, root, slices.Collect(maps.Values(named))...), d.baseImage()
	if named[base] == "" {
		t.Errorf("containerd does not know %s: %v", base, named)
	}
	for name, digest := range named {
		// The plugin of the kubelet's interface names each image by its ID, too.
		if !slices.Contains(d.images, name) && !strings.HasPrefix(name, "sha256:") {
			t.Errorf("containerd knows %s", name)
		}
		if _, err := os.Stat(filepath.Join(root, blobDir, strings.TrimPrefix(digest, "sha256:"))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, damage := range w.damage {
		// A pull is not at its end.
		if !strings.Contains(damage, "is not unpacked") || strings.Contains(damage, named[base]) {
			t.Errorf("containerd's store: %s", damage)
		}
	}
	return len(named), w.layers
}

// imagesOf returns the manifest of each image that containerd names. Source: containerd, metadata/buckets.go.
func imagesOf(t *testing.T, root string) map[string]string {
	t.Helper()
	db, err := bolt.Open(filepath.Join(root, "var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db"), 0o400, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	found := map[string]string{}
	err = db.View(func(tx *bolt.Tx) error {
		all := tx.Bucket([]byte("v1")).Bucket([]byte("k8s.io")).Bucket([]byte("images"))
		return all.ForEachBucket(func(name []byte) error {
			found[string(name)] = string(all.Bucket(name).Bucket([]byte("target")).Get([]byte("digest")))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
