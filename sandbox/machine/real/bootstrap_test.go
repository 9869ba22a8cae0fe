//go:build machines

package real

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// TestKubeadmMachines follows generations of kubeadm nodes. Each node joins with a token, and gets its own credential.
// The donor's disk is generalized while the machine is off, because a donor without its credential could not
// return. Clones must join like generic machines, and copies of the original disk must fail.
func TestKubeadmMachines(t *testing.T) {
	l := newLab(t)
	platform := l.platformImage(t, disk.Bootstrap)
	donor := l.boot(t, "kubeadm", platform, l.joinRecipe())
	joined := l.awaitMember(t, donor.name)
	l.timed(t, "bootstrap, generic image", donor)
	used := putToUse(t, donor)
	was := l.readIdentity(t, donor, "")
	if err := was.complete(); err != nil {
		t.Fatal(err)
	}
	l.testNotLive(t, donor)
	needles := secrets(t, donor.root, slices.Concat(secretsOfMachine, secretsOfUse, secretsOfBootstrap)...)
	list := l.listIdentities(t, donor)
	donor.powerOff(t)
	was.Seed = seedOf(t, donor.image)
	l.lap("a kubeadm node has joined, was put to use and is off")

	t.Run("control", func(t *testing.T) {
		before := l.api.member(donor.name)
		ids := l.clones(t, donor.image, "double", "", func(string) string { return l.joinRecipe() })
		l.lap("two copies of the disk that was not generalized have been looked at")
		testControl(t, was, ids, used, []string{"agent key", "duid", "journal", "kubelet credential", "kubelet serving key", "machine-id", "random seed"})
		l.testFindings(t, "double", list, true)
		for _, id := range ids {
			m := l.api.member(id.Hostname)
			if len(m.Keys) != 0 || m.Renewed != 0 || !slices.Contains(m.Foreign, donor.name) {
				t.Errorf("%s, with its donor's credential, is to the API server: %+v", id.Hostname, m)
			}
			if !strings.Contains(id.Failed, "cloud-final.service") {
				t.Errorf("%s: the join should have failed where it finds the donor's files; failed units: %q", id.Hostname, id.Failed)
			}
		}
		if diff := cmp.Diff(before.Keys, l.api.member(donor.name).Keys); diff != "" {
			t.Errorf("a certificate was given out under the donor's name: %s", diff)
		}
		discard(t, l.imageOf("double1"), l.imageOf("double2"))
	})
	t.Run("raw", func(t *testing.T) {
		planted, lived := l.generalizeOff(t, donor.image)
		l.testRaw(t, v1alpha1.ProfileBootstrap, lived, donor.image, needles, planted)
	})
	l.lap("its disk is generalized and searched")
	t.Run("clones", func(t *testing.T) {
		recipe := func(string) string { return l.joinRecipe() }
		ids := l.clones(t, donor.image, "joiner", "bootstrap, prototype", recipe)
		l.lap("two clones have joined and have been looked at")
		for i, id := range ids {
			want := expectation{donor: was, provisioned: []string{"kubeadm", id.Hostname}, ran: append(slices.Clone(identityModules), "config_runcmd", "config_scripts_user", "config_write_files")}
			testNode(t, want, id)
			if found := shared(was, id); len(found) > 0 {
				t.Errorf("the donor and %s share: %s", id.Hostname, strings.Join(found, ", "))
			}
			if left := survivors(used, was, id); len(left) > 0 {
				t.Errorf("%s: of what was on the donor there is still:\n%s", id.Hostname, strings.Join(left, "\n"))
			}
			testJoined(t, l.api.member(id.Hostname), joined, l.api.member(ids[1-i].Hostname))
		}
		if found := shared(ids[0], ids[1]); len(found) > 0 {
			t.Errorf("two clones share: %s", strings.Join(found, ", "))
		}
		l.testFindings(t, "joiner", list, false)
		discard(t, l.imageOf("joiner1"), l.imageOf("joiner2"), donor.image)
	})
	l.lap("done")
	t.Logf("boot times:\n%s", table(l.times))
}

// testNotLive requires that the order is refused on a serving node.
func (l *lab) testNotLive(t *testing.T, donor *machine) {
	t.Helper()
	bootID := donor.sh(t, "cat /proc/sys/kernel/random/boot_id")
	l.api.order(t, donor.name, v1alpha1.ProfileBootstrap, bootID)
	out, err := l.live(t, donor, "bootstrap", bootID)
	if code(err) != 3 || !strings.Contains(out, "cannot join again") || !strings.Contains(out, "nothing was changed") {
		t.Errorf("the bootstrap profile was not refused on a node in service: %v\n%s", err, out)
	}
	if l.api.proof(t) != nil {
		t.Error("there is a proof of a run that was refused")
	}
}

// generalizeOff plants files on the disk of a stopped machine, copies the disk, and generalizes the disk with the
// detected profile. Then the disk is trimmed, like a copy of a disk. The copy has the planted files.
func (l *lab) generalizeOff(t *testing.T, image string) (planted *plants, lived string) {
	t.Helper()
	mounted(t, image, func(root string) { planted = plant(t, root, disk.Bootstrap) })
	lived = copyDisk(t, image, image+".before")
	mounted(t, image, func(root string) {
		before := files(t, root)
		t.Logf("kamino-node generalize --root:\n%s", generalized(t, l.kamino, root))
		after := files(t, root)
		for _, path := range []string{"usr/local/bin/kubelet", "usr/local/bin/kubeadm", "etc/containerd/config.toml"} {
			if before[path] == "" || before[path] != after[path] {
				t.Errorf("%s has not stayed as it was", path)
			}
		}
		if after[strings.TrimPrefix(generalize.ManifestPath, "/")] == "" {
			t.Error("the run left no manifest")
		}
		planted.test(t, root)
		testManifest(t, root)
	})
	trimDisk(t, image)
	return planted, lived
}

// trimDisk trims the free blocks of a disk. A new mount is necessary for the trim. A file system trims blocks only after its journal
// commits them as free, and keeps preallocated blocks until the unmount.
func trimDisk(t *testing.T, image string) {
	t.Helper()
	mounted(t, image, func(root string) { run(t, "fstrim", root) })
	run(t, "e2fsck", "-fn", image)
}

// testJoined compares the API server's records of a clone, its donor and its sibling. The clone has joined once
// with its own key, and its name was never used with another credential.
func testJoined(t *testing.T, clone, donor, sibling member) {
	t.Helper()
	if len(clone.Keys) != 1 || clone.Renewed == 0 || len(clone.Foreign) > 0 {
		t.Errorf("a clone is to the API server: %+v", clone)
	}
	for _, key := range clone.Keys {
		if slices.Contains(donor.Keys, key) || slices.Contains(sibling.Keys, key) {
			t.Error("a clone has joined with the key of another node")
		}
	}
}
