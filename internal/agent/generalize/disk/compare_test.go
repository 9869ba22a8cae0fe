package disk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/rules"
)

// TestCompare: a file that differs on two machines is suggested for a rule, an equal file for an exemption.
func TestCompare(t *testing.T) {
	one, two := machine(t), machine(t)
	put := func(r Root, name, content string) {
		t.Helper()
		file := filepath.Join(r.Path, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for r, value := range map[Root]string{one: "1", two: "2"} {
		put(r, "opt/acme/a[1].db", "state "+value)
		put(r, "opt/acme/b.db", "state "+value)
		put(r, "opt/acme/acme.conf", "server = x\n")
		put(r, "var/lib/beta/agent_id", "equal, whatever its name is")
	}
	put(one, "srv/only-here/node-id", "7")

	report := filepath.Join(t.TempDir(), "two.yaml")
	listed, err := Search{Target: two.Path, Hashes: true}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	content, err := yaml.Marshal(listed)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(report, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, with := range []string{two.Path, report} {
		found, err := Search{Target: one.Path, Compare: with}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := found.Compared
		if diff := cmp.Diff([]string{"/opt/acme/a[1].db", "/opt/acme/b.db"}, c.Different); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"/srv/only-here/node-id"}, c.Only); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		draft, err := found.Suggest()
		if err != nil {
			t.Fatal(err)
		}
		p, err := rules.LoadFiles(v1alpha1.ProfileStatic, map[string][]byte{"draft.yaml": draft})
		if err != nil {
			t.Fatalf("the draft is no profile: %v\n%s", err, draft)
		}
		owner := generalize.Owner(p)
		for name, want := range map[string]string{"/opt/acme/a[1].db": "site-1-opt-acme", "/opt/acme/b.db": "site-1-opt-acme", "/srv/only-here/node-id": "site-2-srv-only-here", "/opt/acme/acme.conf": "", "/var/lib/beta/agent_id": ""} {
			if got := owner(name); got.Rule != want || want == "" && got.Keeps == "" {
				t.Errorf("%s: %+v, want the rule %q", name, got, want)
			}
		}
	}
	if _, err := (Search{Target: one.Path, Compare: filepath.Join(one.Path, "etc/hostname")}).Run(t.Context()); code(err) != 2 {
		t.Errorf("a file that is no report: %v", err)
	}
}
