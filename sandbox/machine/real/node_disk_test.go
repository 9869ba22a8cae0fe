//go:build machines

package real

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/generalize/disk"
	"github.com/kamino-dev/kamino/internal/agent/scan"
)

// captureNode cuts the power of a node, and generalizes a copy of its disk. The running node is not generalized, because it could not join
// again.
func (c *cluster) captureNode(t *testing.T, donor *machine) (prototype string) {
	t.Helper()
	bootID := donor.sh(t, "cat /proc/sys/kernel/random/boot_id")
	c.api.order(t, donor.name, v1alpha1.ProfileBootstrap, bootID)
	if out, err := c.live(t, donor, "bootstrap", bootID); code(err) != 3 || !strings.Contains(out, "nothing was changed") || !strings.Contains(out, "cannot join again") {
		t.Fatalf("a running donor was not refused for a profile that takes what it joins by: %v\n%s", err, out)
	}
	donor.cutPower(t)
	prototype = copyDisk(t, donor.image, c.imageOf("prototype"))
	discard(t, donor.image)
	mounted(t, prototype, func(root string) {
		t.Logf("kamino-node generalize --root:\n%s", generalized(t, c.kamino, root, "--profile", string(v1alpha1.ProfileBootstrap)))
	})
	trimDisk(t, prototype)
	return prototype
}

// checkpoints lists the kubelet's files about devices, processors and memory, by their paths on a disk.
var checkpoints = []string{"var/lib/kubelet/*_manager_state", "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"}

// testNodeDisk searches a generalized disk, first the raw disk, which was never mounted. Search and verifier must
// find the values on the original disk.
func (c *cluster) testNodeDisk(t *testing.T, n *needles, served, prototype string, was nodeIdentity) {
	before := n.inImage(t, served)
	t.Logf("of %d needles %d are on the donor's disk: %s", len(n.values), len(before), strings.Join(before, ", "))
	for _, place := range []string{"variable from a Secret", "argument", "annotation", "label", "container's log", "container's writable layer", "emptyDir"} {
		if !slices.Contains(before, place) {
			t.Errorf("the search does not find the needle that is in the %s", place)
		}
	}
	if left := n.inImage(t, prototype); len(left) > 0 {
		t.Errorf("in the blocks of the generalized disk there are still needles: %s", strings.Join(left, ", "))
	}
	traces := map[string][]byte{}
	for _, number := range slices.Concat(was.traces["containers"], was.traces["pods"]) {
		traces[number] = []byte(number)
	}
	values := c.donorValues(t, was)
	mounted(t, served, func(root string) {
		found := c.search(t, root, "--profile", "bootstrap", "--identities", values, "--hashes")
		if found.Count == 0 || literalHits(found) == 0 {
			t.Error("the donor's disk has no finding, or none of the donor's values: this search finds nothing")
		}
		t.Logf("the donor's disk: %s", counts(found))
		c.keepReport(t, "served", found)
		if left := n.inTree(t, root); len(left) == 0 {
			t.Error("no file of the donor has a needle: this search finds nothing")
		}
		if len(holding(t, root, traces)) == 0 || len(matching(t, root, checkpoints)) == 0 {
			t.Error("the donor's disk knows nothing of its pods, or the kubelet keeps nothing: this search finds nothing")
		}
	})
	replay(t, prototype)
	manifest := filepath.Join(c.dir, "node.json")
	mounted(t, prototype, func(root string) {
		run(t, "cp", filepath.Join(root, generalize.ManifestPath), manifest)
		if left := n.inTree(t, root); len(left) > 0 {
			t.Errorf("files of the generalized disk have needles:\n%s", strings.Join(left, "\n"))
		}
		// The manifest contains removed paths.
		left := slices.DeleteFunc(holding(t, root, traces), func(path string) bool { return path == generalize.ManifestPath })
		if len(left) > 0 {
			t.Errorf("files of the generalized disk know numbers of the donor's pods, in %d places, first: %s", len(left), left[0])
		}
		if left := matching(t, root, checkpoints); len(left) > 0 {
			t.Errorf("the kubelet's checkpoints are those of the donor: %v", left)
		}
		found := c.search(t, root, "--identities", values, "--hashes")
		if found.Count > 0 || found.Possible.Count > 0 {
			t.Errorf("the generalized disk: %s: %+v, %q", counts(found), found.Findings, found.Possible.First)
		}
		t.Logf("the generalized disk: %s", counts(found))
		c.keepReport(t, "generalized", found)
		// The disk lists the keys of packages and container images, so used blocks are searched as well.
		c.verify(t, 0, prototype, "--manifest", manifest, "--tree", root)
		testStoreIntact(t, root)
	})
}

// donorValues writes a list of the donor's hashes and values for the verifier.
func (c *cluster) donorValues(t *testing.T, was nodeIdentity) string {
	t.Helper()
	c.dhcp.mu.Lock()
	defer c.dhcp.mu.Unlock()
	var list strings.Builder
	for path, sum := range was.own {
		if strings.HasPrefix(path, "etc/") {
			fmt.Fprintf(&list, "%s  /%s\n", sum, path)
		}
	}
	for mac, lease := range c.dhcp.leases {
		if lease.Hostname == "first-node" {
			fmt.Fprintf(&list, "value %s\nvalue %s\n", mac, lease.Address)
		}
	}
	fmt.Fprintf(&list, "value first-node\nvalue %s\nvalue %s\n", was.own["the Node's machine ID"], was.own["the Node's system UUID"])
	file := filepath.Join(c.dir, "donor-values.txt")
	write(t, file, list.String(), 0o600)
	return file
}

// keepReport writes the verifier's report, with the hashes of unknown files.
func (c *cluster) keepReport(t *testing.T, name string, found *disk.SearchResult) {
	t.Helper()
	text, err := json.Marshal(found.Report)
	if err != nil {
		t.Fatal(err)
	}
	write(t, c.reportOf(name), string(text), 0o600)
}

func (c *cluster) reportOf(name string) string { return filepath.Join(c.dir, name+".json") }

// search returns the verifier's report on a tree.
func (c *cluster) search(t *testing.T, root string, args ...string) *disk.SearchResult {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), c.kamino, append([]string{"verify", root, "-o", "json"}, args...)...).Output()
	var found disk.SearchResult
	if e := json.Unmarshal(out, &found); e != nil {
		t.Fatalf("kamino-node verify %s: %v, %v\n%s", root, err, e, out)
	}
	return &found
}

func counts(r *disk.SearchResult) string {
	return fmt.Sprintf("%d files, %d findings, %d of them the donor's values, %d files that may hold an identity, %d unknown files",
		r.Files, r.Count, literalHits(r), r.Possible.Count, r.Unknown.Files)
}

// literalHits counts findings of the donor's values.
func literalHits(r *disk.SearchResult) (count int) {
	for _, f := range r.Findings {
		if f.Kind == scan.Identity {
			count++
		}
	}
	return count
}

// replay does the work of the first mount after a power loss. Exit code 1 means that errors were corrected.
func replay(t *testing.T, image string) {
	t.Helper()
	if out, err := attempt("e2fsck", "-fp", image); code(err) > 1 || code(err) < 0 {
		t.Fatalf("the disk is damaged: %v\n%s", err, out)
	}
}

// matching lists the paths of a tree that match patterns, without the root.
func matching(t *testing.T, root string, patterns []string) (found []string) {
	t.Helper()
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			found = append(found, strings.TrimPrefix(path, root+"/"))
		}
	}
	return found
}

// testNodeControl boots a copy of the disk that was not generalized. For the API server the copy is the donor, so
// any copy controls the donor's Node. kubeadm refuses to join over the donor's files.
func (c *cluster) testNodeControl(t *testing.T, served string, was nodeIdentity) {
	recipe, _ := c.nodeRecipe(t)
	m := c.bootNode(t, "copy", served, recipe)
	complaints := c.preflight(t, m)
	t.Logf("kubeadm's checks complain of the copy: %s", strings.Join(complaints, ", "))
	for _, want := range []string{"ERROR FileAvailable--etc-kubernetes-kubelet.conf", "ERROR FileAvailable--etc-kubernetes-pki-ca.crt"} {
		if !slices.Contains(complaints, want) {
			t.Errorf("kubeadm's checks do not complain with %s", want)
		}
	}
	if _, err := m.try("test -e /run/cluster-api/bootstrap-success.complete"); err == nil {
		t.Error("a copy with the donor's files has joined")
	}
	c.testDonorsNode(t, m)
	content, err := os.ReadFile(filepath.Join(m.root, "etc/machine-id"))
	if err != nil {
		t.Fatal(err)
	}
	if sumOf(content) != was.own["etc/machine-id"] {
		t.Error("the copy has a machine ID of its own: this comparison finds nothing")
	}
	m.cutPower(t)
	c.testBroken(t, m.image)
	discard(t, m.image)
}
