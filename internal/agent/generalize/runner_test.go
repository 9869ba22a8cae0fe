package generalize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// full returns a tree with files for every rule of a profile.
func full(p *rules.Profile) map[string]string {
	files := map[string]string{}
	for name, content := range node {
		files[name] = content
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		if r.Action == rules.Refuse || r.Action == rules.Edit || !r.AppliesTo("ubuntu") {
			continue
		}
		for name, content := range withMakers(p, r) {
			files[name] = content
		}
		for name, content := range before(r) {
			if _, taken := files[name]; !taken {
				files[name] = content
			}
		}
	}
	return files
}

func TestTwice(t *testing.T) {
	for _, name := range v1alpha1.Profiles() {
		p := load(t, name)
		dir := plant(t, full(p))
		first, err := run(t, dir, runner(p))
		must(t, err)
		once := snapshot(t, dir, tree.Rel(ManifestPath))
		second, err := run(t, dir, runner(p))
		must(t, err)
		kept := tree.Rel(GenerationsPath)
		if diff := cmp.Diff(once, snapshot(t, dir, tree.Rel(ManifestPath), kept, kept+"/1.json")); diff != "" {
			t.Errorf("%s: the second run changed something:\n%s", name, diff)
		}
		for _, o := range second.Outcomes {
			if o.Changed != 0 {
				t.Errorf("%s: the second run says that rule %s changed %d", name, o.Rule, o.Changed)
			}
		}
		if first.Rules != second.Rules || first.Met != second.Met {
			t.Errorf("%s: %d of %d rules met, then %d of %d", name, first.Met, first.Rules, second.Met, second.Rules)
		}
	}
}

func TestEqualManifests(t *testing.T) {
	p := load(t, v1alpha1.ProfileStatic)
	var encoded [2][]byte
	for i := range encoded {
		r := runner(p)
		r.Now = func() time.Time { return time.Unix(int64(i), 0) }
		dir := plant(t, full(p))
		m, err := run(t, dir, r)
		must(t, err)
		encoded[i], err = m.Encode()
		must(t, err)
		if digest, _ := m.Digest(); readFile(t, dir, tree.Rel(ManifestPath)) != string(encoded[i]) || digest != "sha256:"+hash(encoded[i]) {
			t.Error("the manifest in the tree is not the one that the digest is of")
		}
	}
	if diff := cmp.Diff(string(encoded[0]), string(encoded[1])); diff != "" {
		t.Errorf("two runs over equal trees:\n%s", diff)
	}
}

func TestManifestHidesSecrets(t *testing.T) {
	p := load(t, v1alpha1.ProfileStatic)
	files := full(p)
	files["var/log/journal/"+strings.TrimSpace(files["etc/machine-id"])+"/system.journal"] = "of the donor"
	m, err := run(t, plant(t, files), runner(p))
	must(t, err)
	encoded, err := m.Encode()
	must(t, err)
	for name, content := range files {
		if content = strings.TrimSpace(content); len(content) > 8 && bytes.Contains(encoded, []byte(content)) {
			t.Errorf("the manifest holds the content of %s", name)
		}
	}
	i := slices.IndexFunc(m.Outcomes, func(o Outcome) bool { return o.Rule == "machine-id" })
	want := []Identity{{Path: "/etc/machine-id", SHA256: hash([]byte(files["etc/machine-id"])), Bytes: 33}}
	if diff := cmp.Diff(want, m.Outcomes[i].Identities); diff != "" {
		t.Errorf("machine-id (-want +got):\n%s", diff)
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	p := load(t, v1alpha1.ProfileStatic)
	dir := plant(t, full(p))
	untouched := snapshot(t, dir)
	r := runner(p)
	r.DryRun = true
	m, err := run(t, dir, r)
	must(t, err)
	if diff := cmp.Diff(untouched, snapshot(t, dir)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
	if _, err := m.Proof(r.Now()); err == nil {
		t.Error("a dry run gave a proof")
	}
	for _, o := range m.Outcomes {
		if (o.Action == rules.Delete || o.Action == rules.Regenerate) && o.Found == 0 {
			t.Errorf("rule %s found nothing", o.Rule)
		}
	}
}

func TestProof(t *testing.T) {
	p := load(t, v1alpha1.ProfileStatic)
	r := runner(p)
	m, err := run(t, plant(t, node), r)
	must(t, err)
	proof, err := m.Proof(r.Now())
	must(t, err)
	if !proof.Holds("0f0e", "b007") || proof.ProfileVersion != p.Version || proof.ToolVersion != "v0.0.0-test" {
		t.Errorf("got %+v", proof)
	}
	if len(proof.Tag()) > 256 {
		t.Errorf("the tag has %d characters, more than Azure takes", len(proof.Tag()))
	}
	for _, spoil := range []func(){
		func() { m.Outcomes[0].Met, m.Outcomes[0].Why = false, "x" },
		func() { m.Outcomes[0].Met, m.Met = true, m.Met-1 },
		func() { m.Rules, m.Met, m.Outcomes = 0, 0, nil },
	} {
		spoil()
		if _, err := m.Proof(r.Now()); err == nil {
			t.Errorf("a proof for %d of %d rules", m.Met, m.Rules)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := runner(load(t, v1alpha1.ProfileStatic)).Run(ctx, open(t, plant(t, node))); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAncestry(t *testing.T) {
	p := load(t, v1alpha1.ProfileStatic)
	dir := plant(t, node, map[string]string{"var/log/ancestry.log": "2026-01-01T00:00:00Z a line without an end"})
	for generation := range 3 {
		writeFile(t, dir, "etc/machine-id", fmt.Sprintf("%032d\n", generation))
		writeFile(t, dir, "etc/hostname", fmt.Sprintf("vmss00000%d\n", generation))
		for range 2 {
			_, err := run(t, dir, runner(p))
			must(t, err)
		}
		must(t, os.Remove(filepath.Join(dir, "etc/machine-id")))
	}
	lines := strings.Split(strings.TrimSpace(readFile(t, dir, "var/log/ancestry.log")), "\n")
	if len(lines) != 4 {
		t.Fatalf("got %d lines, want the old one and one for each of 3 generations:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	form := regexp.MustCompile(`^2026-11-21T06:00:00Z profile=static/\S+ prototype=pool1-2026.11.21 uid=0f0e node=vmss000002 machine-id-sha256=[0-9a-f]{64}$`)
	if !form.MatchString(lines[3]) {
		t.Errorf("got %q", lines[3])
	}
}

func TestKeptSeed(t *testing.T) {
	p := load(t, v1alpha1.ProfileStatic)
	for config, stays := range map[string]bool{
		"datasource_list: [ NoCloud, Azure ]\n":      true,
		"datasource_list:\n  - Azure\n  - NoCloud\n": true,
		"datasource_list: [ Azure ]\n":               false,
		"# datasource_list: [ NoCloud ]\n":           false,
	} {
		dir := plant(t, node, map[string]string{"var/lib/cloud/seed/nocloud/user-data": "#cloud-config", "etc/cloud/cloud.cfg.d/90_dpkg.cfg": config})
		m, err := run(t, dir, runner(p))
		must(t, err)
		if got := exists(dir, "var/lib/cloud/seed/nocloud/user-data"); got != stays {
			t.Errorf("%q: the seed stays: %v, want %v", config, got, stays)
		}
		i := slices.IndexFunc(m.Outcomes, func(o Outcome) bool { return o.Rule == "cloud-init-seed" })
		if (m.Outcomes[i].Kept != "") != stays {
			t.Errorf("%q: the manifest says %+v", config, m.Outcomes[i])
		}
	}
}

// TestHostile tests trees of an attacker. They are refused before any change.
func TestHostile(t *testing.T) {
	p := load(t, v1alpha1.ProfileStatic)
	for _, c := range []struct {
		is    string
		files map[string]string
		says  string
	}{
		{"logs behind a link", map[string]string{"var/log": "-> /data", "data/x": "x"}, "does not follow the link"},
		{"logs are everything", map[string]string{"var/log": "-> /"}, "does not follow the link"},
		{"no logs behind a link", map[string]string{"var/log": "-> /data", "data/": ""}, "ancestry: "},
		{"machine ID is a link", map[string]string{"etc/machine-id": "-> passwd"}, "machine-id: "},
		{"hosts is a link", map[string]string{"etc/hosts": "-> /srv/hosts", "srv/hosts": "10.0.0.1 " + donor + "\n"}, "own-name-in-hosts: "},
		{"home behind a link", map[string]string{"home/bob": "-> /data/other", "data/other/.ssh/authorized_keys": "key"}, "authorized-keys: "},
		{"unit directory is a link", map[string]string{"etc/systemd": "-> /data", "data/": ""}, "first-boot-unit: "},
		{"swap through a link", map[string]string{"swap": "-> /etc"}, "swap-files: "},
		{"the manifest's directory is a link", map[string]string{"var/lib/kamino": "-> /data", "data/": ""}, "var/lib/kamino"},
		{"the manifest is a directory", map[string]string{tree.Rel(ManifestPath) + "/": ""}, "not a regular file"},
	} {
		t.Run(c.is, func(t *testing.T) {
			files := map[string]string{}
			for name, content := range node {
				taken := false
				for other := range c.files {
					taken = taken || name == other || strings.HasPrefix(name, other+"/") || strings.HasPrefix(other, name+"/")
				}
				if !taken {
					files[name] = content
				}
			}
			dir := plant(t, files, c.files)
			_, err := run(t, dir, runner(p))
			if refused := refusedOf(t, err); !strings.Contains(refused.Error(), c.says) {
				t.Errorf("got %v, want a sentence with %q", refused, c.says)
			}
			if !strings.HasPrefix(readFile(t, dir, "etc/passwd"), "root:") {
				t.Error("passwd is damaged")
			}
		})
	}
}

func TestControlCharactersInNames(t *testing.T) {
	dir := plant(t, node, map[string]string{"var/lib/etcd/\x1b[2Jgone\n": "x"})
	_, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
	if refused := refusedOf(t, err).Error(); strings.ContainsAny(refused, "\x1b\n") {
		t.Errorf("the sentence holds control characters: %q", refused)
	}
}

// TestEqualGlobs compares the results of the two searches.
func TestEqualGlobs(t *testing.T) {
	part := rapid.SampledFrom([]string{"*", "**", "a", "b", "?", "a*", ".*", "[ab]", "*.x"})
	name := rapid.SampledFrom([]string{"a", "b", "ab", ".c", "d.x", "e\nf", "é"})
	rapid.Check(t, func(r *rapid.T) {
		dir := t.TempDir()
		inside, err := os.OpenRoot(dir)
		if err != nil {
			r.Fatal(err)
		}
		defer inside.Close()
		for range rapid.IntRange(0, 10).Draw(r, "files") {
			p := filepath.Join(rapid.SliceOfN(name, 1, 4).Draw(r, "path")...)
			_ = inside.MkdirAll(filepath.Dir(p), 0o755)
			if rapid.IntRange(0, 4).Draw(r, "link") == 0 {
				_ = inside.Symlink("/"+rapid.SampledFrom([]string{"a", "b", "ab/a", ".", "nowhere"}).Draw(r, "target"), p)
			} else {
				_ = inside.WriteFile(p, nil, 0o644)
			}
		}
		tr, err := tree.Open(dir)
		if err != nil {
			r.Fatal(err)
		}
		defer tr.Close()
		parts := rapid.SliceOfN(part, 1, 4).Draw(r, "pattern")
		if strings.Count(strings.Join(parts, "/"), "**") > 1 {
			r.Skip("no profile has it twice")
		}
		rule := &rules.Rule{Paths: []string{"/" + strings.Join(parts, "/")}}
		matches, err := findAll(tr, rule)
		if err != nil {
			r.Fatal(err)
		}
		var first, second []string
		named := func(m tree.Match) {
			if !expression(parts).MatchString(m.Name) {
				r.Errorf("%s: the name of %q is %q", rule.Paths[0], m.Path, m.Name)
			}
		}
		for _, m := range matches {
			named(m)
			if m.Via == "" {
				first = append(first, m.Path)
			}
		}
		if err := search(tr, rule, func(m tree.Match) error { named(m); second = append(second, m.Path); return nil }); err != nil {
			r.Fatal(err)
		}
		for _, p := range first {
			if !slices.Contains(second, p) {
				r.Errorf("%s: only the run finds %q", rule.Paths[0], p)
			}
		}
		for _, p := range second {
			if !slices.ContainsFunc(matches, func(m tree.Match) bool { return m.Path == p }) {
				r.Errorf("%s: only the second look finds %q", rule.Paths[0], p)
			}
		}
	})
}
