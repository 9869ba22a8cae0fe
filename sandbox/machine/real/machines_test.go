//go:build machines

package real

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// TestMachines follows generations of machines. A generic machine becomes a node, is used, patched and captured,
// and its clones are compared with the donor and with each other. Clones of the original disk are the control: the
// comparison must fail on these clones.
func TestMachines(t *testing.T) {
	l := newLab(t)
	recipe := disk.CustomData(disk.Static)
	l.publish(t, "1.0")
	platform := l.platformImage(t, disk.Static)
	l.lap("the platform image is made")

	donor := l.boot(t, "donor", platform, recipe)
	l.timed(t, "static, generic image", donor)
	l.lap("the donor has become a node")
	used := putToUse(t, donor)
	donor = l.patch(t, donor, func() *machine { return l.boot(t, donor.name, donor.image, recipe) })
	was := l.readIdentity(t, donor, "")
	if err := was.complete(); err != nil {
		t.Fatal(err)
	}
	needles := secrets(t, donor.root, slices.Concat(secretsOfMachine, secretsOfUse, secretsOfStatic)...)
	list := l.listIdentities(t, donor)
	l.lap("the donor is patched and was rebooted")
	donor.powerOff(t)
	was.Seed = seedOf(t, donor.image)
	t.Run("control", func(t *testing.T) {
		ids := l.clones(t, donor.image, "copy", "", func(string) string { return recipe })
		l.lap("two copies of the disk that was not generalized have been looked at")
		// cloud-init creates names, host keys and the serving certificate again for a new instance.
		testControl(t, was, ids, used, []string{"agent key", "duid", "journal", "machine-id", "random seed"})
		l.testFindings(t, "copy", list, true)
		t.Logf("recipe's commands ran on copy1: %v", ids[0].Provisioned)
		discard(t, l.imageOf("copy1"), l.imageOf("copy2"))
	})

	donor = l.boot(t, "donor", donor.image, recipe)
	planted := plant(t, donor.root, disk.Static)
	lived := donor.snapshot(t, filepath.Join(l.dir, "lived.img"))
	// The files in /tmp are on the disk, but the mount hides them from the machine.
	donor.sh(t, "mount -t tmpfs hides-the-disk /tmp && test ! -e /tmp/site.sh")
	donor.startWriters(t)
	l.generalizeLive(t, donor)
	l.lap("the donor is generalized, its power cut")
	t.Run("raw", func(t *testing.T) {
		mounted(t, donor.image, func(root string) {
			planted.test(t, root)
			testManifest(t, root)
			if found := holding(t, root, machineID(t, was.MachineID)); len(found) > 0 {
				t.Errorf("files of the generalized disk hold the donor's machine ID: %v", found)
			}
		})
		l.testRaw(t, v1alpha1.ProfileStatic, lived, donor.image, needles, planted)
		testWriters(t, donor.image)
		if found := secretsOnDisk(t, donor.image, machineID(t, was.MachineID)); len(found) > 0 {
			t.Errorf("the blocks of the generalized disk have the donor's machine ID %v", found)
		}
	})
	l.lap("the raw disks are searched")
	want := expectation{donor: was, provisioned: []string{"donor"}, upgraded: "2.0", ran: identityModules, idle: recipeModules}
	t.Run("clones", func(t *testing.T) {
		ids := l.clones(t, donor.image, "clone", "static, prototype", func(string) string { return recipe })
		l.lap("two clones have been looked at")
		testClones(t, want, ids, used)
		l.testFindings(t, "clone", list, false)
		discard(t, l.imageOf("clone2"))
		t.Run("donor", func(t *testing.T) {
			again := l.boot(t, "donor", donor.image, recipe)
			l.timed(t, "static, donor's own disk", again)
			testReturned(t, want, l.readIdentity(t, again, ""), ids)
			again.cutPower(t)
			discard(t, again.image)
		})
		l.lap("the donor is back in service")
		l.testNextGeneration(t, l.imageOf("clone1"))
		discard(t, l.imageOf("clone1"))
	})
	l.lap("done")
	t.Logf("boot times:\n%s", table(l.times))
}

// clones boots two machines of one disk, both running at once, and reads their identities. If kind is set, the boot
// times are recorded.
func (l *lab) clones(t *testing.T, image, name, kind string, recipe func(name string) string) (ids [2]identity) {
	t.Helper()
	var on [2]*machine
	var seeds [2]string
	for i := range on {
		clone := fmt.Sprintf("%s%d", name, i+1)
		disk := copyDisk(t, image, l.imageOf(clone))
		seeds[i] = seedOf(t, disk)
		on[i] = l.boot(t, clone, disk, recipe(clone))
		if kind != "" {
			l.timed(t, kind, on[i])
		}
	}
	for i, m := range on {
		ids[i] = l.readIdentity(t, m, seeds[i])
	}
	for _, m := range on {
		m.kill()
	}
	for _, m := range on {
		m.cutPower(t)
	}
	return ids
}

// expectation has the expected values of machines from a generalized disk.
type expectation struct {
	donor identity
	// provisioned is where the recipe's commands have run, from the generic image on.
	provisioned []string
	upgraded    string
	// ran lists modules of cloud-init that must have run for a clone, and idle lists modules that must not.
	ran, idle []string
}

// Modules of cloud-init that create a machine's identity, and modules that do the work of a recipe.
var (
	identityModules = []string{"config_set_hostname", "config_ssh", "config_users_groups"}
	recipeModules   = []string{"config_runcmd", "config_scripts_user", "config_write_files", "config_package_update_upgrade_install"}
)

func testClones(t *testing.T, want expectation, ids [2]identity, used []string) {
	all := map[string]identity{"donor": want.donor, "clone1": ids[0], "clone2": ids[1]}
	for _, pair := range [][2]string{{"donor", "clone1"}, {"donor", "clone2"}, {"clone1", "clone2"}} {
		if found := shared(all[pair[0]], all[pair[1]]); len(found) > 0 {
			t.Errorf("%s and %s share: %s", pair[0], pair[1], strings.Join(found, ", "))
		}
	}
	for _, id := range ids {
		testNode(t, want, id)
		if want.donor.Lease.Hostname != "" && id.Lease.Hostname != id.Hostname || id.Instance != "i-"+id.Hostname {
			t.Errorf("%s asks for its address as %s and is instance %s", id.Hostname, id.Lease.Hostname, id.Instance)
		}
		if left := survivors(used, want.donor, id); len(left) > 0 {
			t.Errorf("%s: of what was on the donor there is still:\n%s", id.Hostname, strings.Join(left, "\n"))
		}
	}
	if !t.Failed() {
		t.Logf("%d files left by the donor's use, none of them on a clone; %d identities compared in 3 pairs, none shared", len(used), len(identities(ids[0])))
	}
}

// testNextGeneration captures a clone, whose next generation must be as clean.
func (l *lab) testNextGeneration(t *testing.T, image string) {
	mounted(t, image, func(root string) {
		generalized(t, l.kamino, root)
		line, err := os.ReadFile(filepath.Join(root, "var/log/ancestry.log"))
		if err != nil {
			t.Fatal(err)
		}
		var nodes []string
		for _, word := range strings.Fields(string(line)) {
			if node, found := strings.CutPrefix(word, "node="); found {
				nodes = append(nodes, node)
			}
		}
		if diff := cmp.Diff([]string{"donor", "clone1"}, nodes); diff != "" {
			t.Errorf("the ancestry of the next generation (-want +got):\n%s\n%s", diff, line)
		}
	})
}

// testReturned requires of the restarted donor the same as of a clone. Only its name and instance ID stay.
func testReturned(t *testing.T, want expectation, donor identity, clones [2]identity) {
	testNode(t, want, donor)
	for _, clone := range clones {
		if found := shared(donor, clone); len(found) > 0 {
			t.Errorf("the donor, back in service, and %s share: %s", clone.Hostname, strings.Join(found, ", "))
		}
	}
	if was := want.donor; donor.Hostname != was.Hostname || donor.MachineID == was.MachineID {
		t.Errorf("the donor came back as %s with machine ID %s, it was %s with %s", donor.Hostname, donor.MachineID, was.Hostname, was.MachineID)
	}
}

// testNode requires that a machine of a generalized disk becomes a separate node at its first boot.
func testNode(t *testing.T, want expectation, id identity) {
	t.Helper()
	if err := id.complete(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want.provisioned, id.Provisioned); diff != "" {
		t.Errorf("%s: the recipe's commands ran otherwise than they should (-want +got):\n%s", id.Hostname, diff)
	}
	for _, module := range want.ran {
		if !slices.Contains(id.Modules, module) {
			t.Errorf("%s: cloud-init has not run %s, only %v", id.Hostname, module, id.Modules)
		}
	}
	for _, module := range want.idle {
		if slices.Contains(id.Modules, module) {
			t.Errorf("%s: cloud-init has run %s, which is the recipe's work", id.Hostname, module)
		}
	}
	if id.Failed != "" {
		t.Errorf("%s: failed units: %s", id.Hostname, id.Failed)
	}
	if id.FirstBoot != "success active" {
		t.Errorf("%s: kamino-first-boot.service is %s", id.Hostname, id.FirstBoot)
	}
	if id.Upgraded != want.upgraded {
		t.Errorf("%s has version %q of %s, its donor had %q", id.Hostname, id.Upgraded, tools, want.upgraded)
	}
	if id.Cluster != want.donor.Cluster {
		t.Errorf("%s has lost the cluster's credential, which the profile keeps", id.Hostname)
	}
	if !sameImages(want.donor, id) {
		t.Errorf("%s has lost its donor's container images", id.Hostname)
	}
}

// testControl requires that the comparison fails on copies of a disk that was not generalized.
func testControl(t *testing.T, donor identity, ids [2]identity, used, want []string) {
	found := shared(ids[0], ids[1])
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("two clones of a disk that was not generalized share other things than they always did (-want +got):\n%s", diff)
	}
	for _, id := range ids {
		left := survivors(used, donor, id)
		if len(left) < len(used)/2 {
			t.Errorf("%s: only %d of %d files of the donor's use are found: this search finds nothing", id.Hostname, len(left), len(used))
		}
	}
	t.Logf("clones without generalizing share: %s", strings.Join(found, ", "))
}

// bootTime is the duration of a machine's boot, in seconds after the start of its systemd.
type bootTime struct {
	kind                      string
	multiUser, node, complete float64
}

// timed notes how long a machine took.
func (l *lab) timed(t *testing.T, kind string, m *machine) {
	t.Helper()
	l.times = append(l.times, bootTime{kind: kind, multiUser: m.since(t, "multi-user.target"), node: m.since(t, "kubelet.service"), complete: m.since(t, "cloud-final.service")})
}

// table lists the boot times. They are reported without limits, because the test machine is shared.
func table(times []bootTime) string {
	var out strings.Builder
	out.WriteString("| image | multi-user | kubelet up | cloud-init done |\n|---|---|---|---|\n")
	for _, b := range times {
		fmt.Fprintf(&out, "| %s | %.1f s | %.1f s | %.1f s |\n", b.kind, b.multiUser, b.node, b.complete)
	}
	return out.String()
}
