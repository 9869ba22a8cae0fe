package generalize

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// TestKeptManifests runs twice on one machine, and then on a used clone of the machine.
func TestKeptManifests(t *testing.T) {
	p := load(t, v1alpha1.ProfileStatic)
	dir := plant(t, node)
	first, err := run(t, dir, runner(p))
	must(t, err)
	of := func(name string) string { return "sha256:" + hash([]byte(readFile(t, dir, tree.Rel(name)))) }
	digest := of(ManifestPath)
	if first.Previous != "" || len(first.Inherited) != 0 || len(first.Identities()) == 0 {
		t.Errorf("the first manifest speaks of one before: %+v", first)
	}

	second, err := run(t, dir, runner(p))
	must(t, err)
	if second.Previous != digest || of(GenerationsPath+"/1.json") != digest {
		t.Errorf("the first manifest, %s, is not kept: the second names %s", digest, second.Previous)
	}
	if diff := cmp.Diff(first.Identities(), second.Identities()); diff != "" {
		t.Errorf("the second run does not know what the first removed (-want +got):\n%s", diff)
	}
	third, err := run(t, dir, runner(p))
	must(t, err)
	if diff := cmp.Diff(first.Identities(), third.Identities()); diff != "" {
		t.Errorf("the third run does not know what the first removed (-want +got):\n%s", diff)
	}
	if of(GenerationsPath+"/1.json") != digest || of(GenerationsPath+"/2.json") != third.Previous {
		t.Error("an earlier manifest was changed")
	}

	// A clone creates identities of its own. The next clone must not have these identities.
	writeFile(t, dir, "etc/machine-id", "ffffffffffffffffffffffffffffffff\n")
	fourth, err := run(t, dir, runner(p))
	must(t, err)
	if len(fourth.Inherited) != 0 || fourth.Previous == "" || !exists(dir, tree.Rel(GenerationsPath)+"/3.json") {
		t.Errorf("the clone's manifest has %d identities of its ancestor, and names %q", len(fourth.Inherited), fourth.Previous)
	}
}

// TestIdentityOfEarlierRun: a value that the first run removed returns. The second run knows the value only from
// the first manifest.
func TestIdentityOfEarlierRun(t *testing.T) {
	p := load(t, v1alpha1.ProfileStatic)
	dir := plant(t, node)
	_, err := run(t, dir, runner(p))
	must(t, err)
	writeFile(t, dir, "var/lib/site/copy-of-machine-id", node["etc/machine-id"])
	_, err = run(t, dir, runner(p))
	if found := unmetOf(t, err).Findings; len(found) != 1 || found[0].What != "the donor's /etc/machine-id" || found[0].Path != "/var/lib/site/copy-of-machine-id" {
		t.Errorf("got %+v", found)
	}
}

func TestInvalidManifestIsKept(t *testing.T) {
	dir := plant(t, node, map[string]string{tree.Rel(ManifestPath): "another owner's"})
	untouched := snapshot(t, dir)
	_, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
	_ = refusedOf(t, err)
	if diff := cmp.Diff(untouched, snapshot(t, dir)); diff != "" {
		t.Errorf("refused, but the tree was changed:\n%s", diff)
	}
}

func TestOldGenerations(t *testing.T) {
	dir := plant(t, node)
	opened := open(t, dir)
	for i := range maxGenerations + 3 {
		must(t, opened.Replace(tree.Rel(ManifestPath), fmt.Appendf(nil, "%d", i), 0o644))
		must(t, archive(opened, nil))
	}
	entries, err := os.ReadDir(filepath.Join(dir, tree.Rel(GenerationsPath)))
	must(t, err)
	if len(entries) != maxGenerations || exists(dir, tree.Rel(GenerationsPath)+"/3.json") || !exists(dir, tree.Rel(GenerationsPath)+"/4.json") {
		t.Errorf("%d are kept: %v", len(entries), entries)
	}
}

// TestUnusedRules: the user's own rule that finds nothing is reported from the third run on.
func TestUnusedRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ours.yaml")
	must(t, os.WriteFile(file, []byte(`version: "1"
rules:
  - {id: our-typo, action: delete, paths: [/var/lib/acme-typo/*], reason: r, source: s}
  - {id: our-cache, action: delete, paths: [/var/cache/ours/*], reason: r, source: s}
  - {id: our-guard, action: refuse, paths: [/data/*], reason: r, source: s}
`), 0o600))
	p, err := rules.LoadWith(v1alpha1.ProfileStatic, file)
	must(t, err)
	dir := plant(t, node)
	for number, want := range [][]string{nil, nil, {"our-typo"}, {"our-typo"}} {
		// Each machine of the line has its own ID and cache.
		must(t, os.RemoveAll(filepath.Join(dir, "etc/machine-id")))
		writeFile(t, dir, "etc/machine-id", strings.Repeat(strconv.Itoa(number+1), 32)+"\n")
		writeFile(t, dir, "var/cache/ours/x", "x")
		m, err := run(t, dir, runner(p))
		must(t, err)
		if diff := cmp.Diff(want, m.Unused); diff != "" {
			t.Errorf("run %d (-want +got):\n%s", number+1, diff)
		}
	}
}
