//go:build machines

package real

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/rules"
)

// testRaw searches free blocks, also with kamino's verifier. Nothing may be found on the disk that was generalized
// live. The search must find secrets on the original disk, and on a disk that was generalized without a trim, which
// is removed afterwards. The tree covers used blocks: Debian ships example keys, which look like other keys on a
// raw disk.
func (l *lab) testRaw(t *testing.T, profile v1alpha1.Profile, lived, generalized string, needles map[string][]byte, planted *plants) {
	marker := map[string][]byte{"something that was planted": []byte(planted.marker)}
	if found := secretsOnDisk(t, lived, needles); len(found) != len(needles) || len(secretsOnDisk(t, lived, marker)) == 0 {
		t.Fatalf("of %d secrets the search finds only %v on the disk that has them all", len(needles), found)
	}
	if found := append(secretsOnDisk(t, generalized, needles), secretsOnDisk(t, generalized, marker)...); len(found) > 0 {
		t.Errorf("in the blocks of the generalized disk there are still secrets: %v", found)
	}
	manifest := filepath.Join(l.dir, string(profile)+".json")
	mounted(t, generalized, func(root string) {
		run(t, "cp", filepath.Join(root, generalize.ManifestPath), manifest)
		l.verify(t, 0, root)
	})
	l.verify(t, 0, generalized, "--free-only", "--manifest", manifest)
	l.verify(t, 4, lived, "--free-only", "--manifest", manifest)
	l.testUntrimmed(t, profile, lived, needles, planted)
	discard(t, lived)
}

// testUntrimmed generalizes a disk as a tree, so deleted data stays in free blocks until the trim.
func (l *lab) testUntrimmed(t *testing.T, profile v1alpha1.Profile, image string, needles map[string][]byte, planted *plants) {
	mounted(t, image, func(root string) {
		l.testRefusals(t, root, profile)
		generalized(t, l.kamino, root, "--profile", string(profile))
		planted.test(t, root)
	})
	found := secretsOnDisk(t, image, needles)
	if len(found) == 0 {
		t.Error("without a trim nothing was found in free blocks: this search finds nothing")
	}
	t.Logf("deleted but not trimmed, %d of %d secrets are still in free blocks: %v", len(found), len(needles), found)
	manifest := image + ".json"
	mounted(t, image, func(root string) { run(t, "cp", filepath.Join(root, generalize.ManifestPath), manifest) })
	l.verify(t, 4, image, "--free-only", "--manifest", manifest)
	mounted(t, image, func(root string) { run(t, "fstrim", root) })
	marker := map[string][]byte{"something that was planted": []byte(planted.marker)}
	if found := append(secretsOnDisk(t, image, needles), secretsOnDisk(t, image, marker)...); len(found) > 0 {
		t.Errorf("after a trim there are still secrets in the blocks of the disk: %v", found)
	}
	l.verify(t, 0, image, "--free-only", "--manifest", manifest)
}

// generalized generalizes a disk, and returns the output. Look, run and verification must give one answer.
func generalized(t *testing.T, kamino, root string, args ...string) string {
	t.Helper()
	run(t, kamino, append([]string{"inspect", "--root", root}, args...)...)
	output := run(t, kamino, append([]string{"generalize", "--root", root}, args...)...)
	run(t, kamino, "verify", root)
	return output
}

// testRefusals writes each file that forbids a capture to a disk, one after another.
func (l *lab) testRefusals(t *testing.T, root string, profile v1alpha1.Profile) {
	t.Helper()
	for _, path := range refusals {
		// Created files are removed, and existing files stay.
		made := filepath.Join(root, path)
		for parent := filepath.Dir(made); ; parent = filepath.Dir(parent) {
			if _, err := os.Lstat(parent); err == nil {
				break
			}
			made = parent
		}
		write(t, filepath.Join(root, path), "data\n", 0o600)
		for _, verb := range []string{"generalize", "inspect"} {
			out, err := attempt(l.kamino, verb, "--root", root, "--profile", string(profile))
			if code(err) != 3 || !strings.Contains(out, "nothing was changed") {
				t.Errorf("a disk with /%s was not refused by %s: %v\n%s", path, verb, err, out)
			}
		}
		if err := os.RemoveAll(made); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d disks with keys or data that must not be copied: all refused, nothing changed", len(refusals))
}

func (l *lab) verify(t *testing.T, want int, args ...string) {
	t.Helper()
	if out, err := attempt(l.kamino, append([]string{"verify"}, args...)...); code(err) != want {
		t.Errorf("kamino-node verify %s: %v, not exit code %d\n%s", strings.Join(args, " "), err, want, out)
	}
}

// code returns a program's exit code; -1 if the program did not exit.
func code(err error) int {
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended):
		return ended.ExitCode()
	default:
		return -1
	}
}

// listIdentities writes a file with a donor's identities, like a user who does not trust the manifest.
func (l *lab) listIdentities(t *testing.T, m *machine) string {
	t.Helper()
	list := filepath.Join(l.dir, m.name+".txt")
	write(t, list, m.sh(t, "sha256sum /etc/machine-id /etc/ssh/ssh_host_*_key")+"\n", 0o600)
	return list
}

// testFindings lets the verifier search for the donor's identities on disks of two machines with one origin: none
// on clones, some on copies. Both disks already have their own keys.
func (l *lab) testFindings(t *testing.T, name, list string, want bool) {
	t.Helper()
	for i := range 2 {
		image := l.imageOf(fmt.Sprintf("%s%d", name, i+1))
		mounted(t, image, func(root string) {
			out, err := exec.CommandContext(t.Context(), l.kamino, "verify", root, "--identities", list, "-o", "json").Output()
			var report struct{ Findings []scan.Finding }
			if json.Unmarshal(out, &report) != nil || code(err) != 4 {
				t.Fatalf("kamino-node verify of the disk of %s%d: %v\n%s", name, i+1, err, out)
			}
			var found []string
			for _, f := range report.Findings {
				// The kubelet's join writes the same file on every node of a cluster: server, and path of the key.
				if f.Kind == scan.Identity && f.Path != "/etc/kubernetes/kubelet.conf" {
					found = append(found, f.Path)
				}
			}
			if want != slices.Contains(found, "/etc/machine-id") || !want && len(found) > 0 {
				t.Errorf("the verifier finds these identities of the donor on %s%d: %v", name, i+1, found)
			}
		})
	}
}

// testManifest logs the rules with work, and fails for rules without work.
func testManifest(t *testing.T, root string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, generalize.ManifestPath))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := generalize.ParseManifest(content)
	if err != nil {
		t.Fatal(err)
	}
	var untried []string
	tried := 0
	for _, o := range manifest.Outcomes {
		switch {
		case slices.Contains([]rules.Action{rules.Refuse, rules.Keep, rules.Install, rules.Record}, o.Action):
		case o.Found > 0 || o.Changed > 0:
			tried++
		default:
			untried = append(untried, o.Rule)
		}
	}
	for _, rule := range untried {
		// The seed is the source of these machines' user data and stays. The data of the join is in memory. The machines
		// boot a kernel of the host.
		if rule != "cloud-init-seed" && rule != "join-data" && rule != "boot-entries" {
			t.Errorf("nothing was planted for rule %s", rule)
		}
	}
	t.Logf("profile %s/%s: %d rules; of those that take something away %d were tried, and not %v", manifest.Profile, manifest.ProfileVersion, manifest.Rules, tried, untried)
}
