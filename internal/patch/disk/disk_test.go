package disk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kamino-dev/kamino/internal/generalize/tree"
	"github.com/kamino-dev/kamino/internal/patch"
)

func level(t *testing.T, files map[string]string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	for p, content := range files {
		path := filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := tree.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return Level(root)
}

// The level of rpm's database is compared with rpm's own list on real packages: sandbox/machine/real, TestDNF.
func TestLevel(t *testing.T) {
	const status = "Package: openssl\nStatus: install ok installed\nArchitecture: amd64\nVersion: 3.0.16\n"
	got, err := level(t, map[string]string{"var/lib/dpkg/status": status})
	if want := patch.Level([]patch.Installed{{Name: "openssl", Version: "3.0.16", Arch: "amd64"}}); err != nil || got != want {
		t.Errorf("%q %v, want %q", got, err, want)
	}
	for name, files := range map[string]map[string]string{"nothing": {}, "an empty list": {"var/lib/dpkg/status": ""}} {
		if got, err := level(t, files); got != "" || err != nil {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	for name, files := range map[string]map[string]string{
		"dpkg": {"var/lib/dpkg/status": "nonsense"}, "rpm": {"var/lib/rpm/rpmdb.sqlite": "nonsense"},
	} {
		if got, err := level(t, files); err == nil {
			t.Errorf("a damaged database of %s has the level %q", name, got)
		}
	}
}
