//go:build machines

package real

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/generalize"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// TestMachines is the life of a line of machines: a generic one becomes a node, is put to use, patched and
// captured, and its clones are compared with it and with each other. Clones of the disk as it was before
// it was generalized are the control: the comparison must fail on them.
func TestMachines(t *testing.T) {
	l := newLab(t)
	begun := time.Now()
	lap := func(what string) { t.Logf("[%3.0f s] %s", time.Since(begun).Seconds(), what) }
	recipe := disk.CustomData(disk.Static)
	l.publish(t, "1.0")
	platform := l.platformImage(t)
	lap("the platform image is made")

	donor := l.boot(t, "donor", copyDisk(t, platform, filepath.Join(l.dir, "donor.img")), recipe)
	times := []bootTime{timeOf(t, "generic", donor)}
	lap("the donor has become a node")
	planted := putToUse(t, donor)
	donor = l.patch(t, donor, recipe)
	was := l.look(t, donor, "")
	if err := was.complete(); err != nil {
		t.Fatal(err)
	}
	needles := secrets(t, donor.root)
	lap("the donor is patched and was rebooted")
	donor.powerOff(t)
	was.Seed = seedOf(t, donor.image)
	served := copyDisk(t, donor.image, filepath.Join(l.dir, "served.img"))

	donor = l.boot(t, "donor", donor.image, recipe)
	l.generalizeLive(t, donor)
	lap("the donor is generalized, its power cut")
	snapshot := copyDisk(t, donor.image, filepath.Join(l.dir, "snapshot.img"))
	t.Run("raw", func(t *testing.T) {
		l.testRaw(t, snapshot, served, needles)
		l.testVerifier(t, snapshot, served)
		mounted(t, snapshot, func(root string) {
			if found := holding(t, root, machineID(t, was.MachineID)); len(found) > 0 {
				t.Errorf("files of the generalized disk hold the donor's machine ID: %v", found)
			}
		})
		// An ID is no secret, and ext4's journal holds the names of directories that were called by it.
		t.Logf("donor's machine ID in the blocks of the generalized disk: %v", leftIn(t, snapshot, machineID(t, was.MachineID)))
	})
	lap("the raw disks are searched")
	t.Run("clones", func(t *testing.T) {
		ids := l.clones(t, snapshot, "clone", recipe, &times)
		lap("two clones have been looked at")
		testClones(t, was, ids, planted)
		t.Run("donor", func(t *testing.T) {
			again := l.boot(t, "donor", donor.image, recipe)
			times = append(times, timeOf(t, "donor's own disk", again))
			testReturned(t, was, l.look(t, again, ""), ids)
			again.cutPower(t)
		})
		lap("the donor is back in service")
	})
	t.Run("control", func(t *testing.T) {
		ids := l.clones(t, served, "copy", recipe, nil)
		lap("two copies of the disk that was not generalized have been looked at")
		testControl(t, was, ids, planted)
	})
	t.Run("bootstrap", func(t *testing.T) { l.testBootstrap(t, copyDisk(t, platform, filepath.Join(l.dir, "bootstrap.img"))) })
	lap("done")
	t.Logf("boot times:\n%s", table(times))
}

// clones boots two machines from one disk, both on at once, and looks at them.
func (l *lab) clones(t *testing.T, image, name, recipe string, times *[]bootTime) (ids [2]identity) {
	t.Helper()
	var on [2]*machine
	var seeds [2]string
	for i := range on {
		clone := fmt.Sprintf("%s%d", name, i+1)
		disk := copyDisk(t, image, filepath.Join(l.dir, clone+".img"))
		seeds[i] = seedOf(t, disk)
		on[i] = l.boot(t, clone, disk, recipe)
		if times != nil {
			*times = append(*times, timeOf(t, "prototype", on[i]))
		}
	}
	for i, m := range on {
		ids[i] = l.look(t, m, seeds[i])
	}
	for _, m := range on {
		m.cutPower(t)
	}
	return ids
}

func testClones(t *testing.T, donor identity, ids [2]identity, planted []string) {
	all := map[string]identity{"donor": donor, "clone1": ids[0], "clone2": ids[1]}
	for _, pair := range [][2]string{{"donor", "clone1"}, {"donor", "clone2"}, {"clone1", "clone2"}} {
		if found := shared(all[pair[0]], all[pair[1]]); len(found) > 0 {
			t.Errorf("%s and %s share: %s", pair[0], pair[1], strings.Join(found, ", "))
		}
	}
	for i, id := range ids {
		name := fmt.Sprintf("clone%d", i+1)
		testNode(t, donor, id)
		if id.Hostname != name || id.Lease.Hostname != name || id.Instance != "i-"+name {
			t.Errorf("%s calls itself %s, asks for its address as %s and is instance %s", name, id.Hostname, id.Lease.Hostname, id.Instance)
		}
		if left := survivors(planted, donor, id); len(left) > 0 {
			t.Errorf("%s: of what was on the donor there is still:\n%s", name, strings.Join(left, "\n"))
		}
	}
	t.Logf("%d paths planted on the donor, none of them on a clone", len(planted))
}

// testReturned holds the donor, started again from its own disk, to what a clone is held to. Its name and
// its instance's ID are its own again.
func testReturned(t *testing.T, was, donor identity, clones [2]identity) {
	testNode(t, was, donor)
	for _, clone := range clones {
		if found := shared(donor, clone); len(found) > 0 {
			t.Errorf("the donor, back in service, and %s share: %s", clone.Hostname, strings.Join(found, ", "))
		}
	}
	if donor.Hostname != was.Hostname || donor.MachineID == was.MachineID {
		t.Errorf("the donor came back as %s with machine ID %s, it was %s with %s", donor.Hostname, donor.MachineID, was.Hostname, was.MachineID)
	}
}

// testNode holds a machine from a generalized disk to what makes it a node of its own at its first boot.
func testNode(t *testing.T, donor, id identity) {
	t.Helper()
	if err := id.complete(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"donor"}, id.Provisioned); diff != "" {
		t.Errorf("%s: the recipe's commands ran where they should not (-want +got):\n%s", id.Hostname, diff)
	}
	if id.Failed != "" {
		t.Errorf("%s: failed units: %s", id.Hostname, id.Failed)
	}
	if id.Upgraded != "2.0" {
		t.Errorf("%s has version %s of %s, its donor was upgraded to 2.0", id.Hostname, id.Upgraded, tools)
	}
	if id.Client != donor.Client {
		t.Errorf("%s has lost the cluster's credential, which the profile keeps", id.Hostname)
	}
	if !sameImages(donor, id) {
		t.Errorf("%s has lost its donor's container images", id.Hostname)
	}
}

// testControl fails if the comparison does not fail.
func testControl(t *testing.T, donor identity, ids [2]identity, planted []string) {
	// Names, host keys and the serving certificate are made anew by cloud-init, which sees a new instance.
	want := []string{"machine-id", "duid", "random seed", "agent key", "journal"}
	found := shared(ids[0], ids[1])
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("two clones of a disk that was not generalized share other things than they always did (-want +got):\n%s", diff)
	}
	for _, id := range ids {
		left := survivors(planted, donor, id)
		if len(left) < len(planted)/2 {
			t.Errorf("%s: only %d of %d planted paths are found: this search finds nothing", id.Hostname, len(left), len(planted))
		}
	}
	t.Logf("clones without generalizing share: %s; recipe's commands ran: %v", strings.Join(found, ", "), ids[0].Provisioned)
}

// testRaw searches the free blocks. The control is the same disk generalized as a tree, without a trim.
func (l *lab) testRaw(t *testing.T, generalized, served string, needles map[string][]byte) {
	if found := leftIn(t, served, needles); len(found) != len(needles) {
		t.Fatalf("of %d secrets the search finds only %v on the disk that has them all", len(needles), found)
	}
	if found := leftIn(t, generalized, needles); len(found) > 0 {
		t.Errorf("after the live run there are still secrets in the blocks of the disk: %v", found)
	}
	copied := copyDisk(t, served, filepath.Join(l.dir, "untrimmed.img"))
	mounted(t, copied, func(root string) {
		run(t, l.kamino, "generalize", "--root", root, "--profile", "static")
	})
	found := leftIn(t, copied, needles)
	if len(found) == 0 {
		t.Error("without a trim nothing was found in free blocks: this search finds nothing")
	}
	t.Logf("deleted but not trimmed, %d of %d secrets are still in free blocks: %v", len(found), len(needles), found)
	mounted(t, copied, func(root string) { run(t, "fstrim", root) })
	if found := leftIn(t, copied, needles); len(found) > 0 {
		t.Errorf("after a trim there are still secrets in the blocks of the disk: %v", found)
	}
}

// testVerifier holds kamino's own verifier to the same disks: it must find nothing on the disk that was
// generalized, and something on the one that was not and on the one that was not trimmed. Used blocks are the
// tree's to answer for: Debian ships examples of keys, which a raw disk cannot be seen to be.
func (l *lab) testVerifier(t *testing.T, generalized, served string) {
	manifest := filepath.Join(l.dir, "generalize.json")
	mounted(t, generalized, func(root string) {
		run(t, "cp", filepath.Join(root, generalize.ManifestPath), manifest)
		l.verify(t, 0, root)
	})
	l.verify(t, 0, generalized, "--free-only", "--manifest", manifest)
	l.verify(t, 4, served, "--free-only", "--manifest", manifest)
	untrimmed := copyDisk(t, served, filepath.Join(l.dir, "unverified.img"))
	mounted(t, untrimmed, func(root string) {
		run(t, l.kamino, "generalize", "--root", root, "--profile", "static")
		l.verify(t, 0, root)
		run(t, "cp", filepath.Join(root, generalize.ManifestPath), manifest)
	})
	l.verify(t, 4, untrimmed, "--free-only", "--manifest", manifest)
}

func (l *lab) verify(t *testing.T, code int, args ...string) {
	t.Helper()
	out, err := attempt(l.kamino, append([]string{"verify"}, args...)...)
	var ended *exec.ExitError
	switch {
	case err == nil && code == 0:
	case errors.As(err, &ended) && ended.ExitCode() == code:
	default:
		t.Errorf("kamino verify %s: %v, not exit code %d\n%s", strings.Join(args, " "), err, code, out)
	}
}

// testBootstrap takes the credentials of a kubeadm node from a copy of its disk, which is where that
// profile may be used.
func (l *lab) testBootstrap(t *testing.T, image string) {
	own := []string{
		"etc/kubernetes/kubelet.conf", "etc/kubernetes/bootstrap-kubelet.conf", "etc/kubernetes/pki/ca.crt",
		"var/lib/kubelet/pki/kubelet-client-current.pem", "var/lib/kubelet/pki/kubelet.key", "var/lib/kubelet/config.yaml",
	}
	mounted(t, image, func(root string) {
		// The image is AKS Engine's; with the marks of both the profile would be in doubt, and refused.
		for _, path := range []string{"etc/kubernetes", "etc/default/kubelet", "var/lib/kubelet", "opt/azure", "etc/systemd/system/kubelet.service"} {
			if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
				t.Fatal(err)
			}
		}
		if err := disk.Join(root, disk.Bootstrap, disk.Facts{Hostname: "kubeadm-1"}); err != nil {
			t.Fatal(err)
		}
		before := files(t, root)
		run(t, l.kamino, "generalize", "--root", root, "--profile", "bootstrap")
		after := files(t, root)
		for _, path := range own {
			if _, err := attempt("test", "-e", filepath.Join(root, path)); err == nil {
				t.Errorf("the node's own %s is still there", path)
			}
		}
		for _, path := range []string{"usr/local/bin/kubelet", "etc/containerd/config.toml"} {
			if before[path] == "" || before[path] != after[path] {
				t.Errorf("%s has not stayed as it was", path)
			}
		}
	})
}

// bootTime is how long a machine took, in seconds after its systemd began.
type bootTime struct {
	kind                      string
	multiUser, node, complete float64
}

func timeOf(t *testing.T, kind string, m *machine) bootTime {
	t.Helper()
	return bootTime{kind: kind, multiUser: m.since(t, "multi-user.target"), node: m.since(t, "kubelet.service"), complete: m.since(t, "cloud-final.service")}
}

// table of the times. They are reported and never judged: the machine that this runs on is shared.
func table(times []bootTime) string {
	var out strings.Builder
	out.WriteString("| image | multi-user | kubelet up | cloud-init done |\n|---|---|---|---|\n")
	for _, b := range times {
		fmt.Fprintf(&out, "| %s | %.1f s | %.1f s | %.1f s |\n", b.kind, b.multiUser, b.node, b.complete)
	}
	return out.String()
}
