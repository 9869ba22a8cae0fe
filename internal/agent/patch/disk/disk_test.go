package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/patch"
)

func level(t *testing.T, files map[string]string) (string, error) {
	t.Helper()
	return Level(treeOf(t, files))
}

func treeOf(t *testing.T, files map[string]string) *tree.Tree {
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
	t.Cleanup(func() { _ = root.Close() })
	return root
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

func TestUnpatchable(t *testing.T) {
	const status = "Package: openssl\nStatus: install ok installed\nArchitecture: amd64\nVersion: 3.0.16\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"Debian", map[string]string{"etc/os-release": "ID=debian\n", "var/lib/dpkg/status": status}, ""},
		{"the file of the distribution", map[string]string{"usr/lib/os-release": "ID=ubuntu\n", "var/lib/dpkg/status": status}, ""},
		{"no tested package manager", map[string]string{"etc/os-release": "ID=sles\n"}, `cannot patch "sles": zypper is not tested`},
		{"an image without packages", map[string]string{"etc/os-release": "ID=fedora\n", "run/ostree-booted": ""}, "an image without packages"},
		{"no list of packages", map[string]string{"etc/os-release": "ID=debian\n"}, "the disk has no list of packages of dpkg or rpm"},
		{"another database of rpm", map[string]string{"etc/os-release": "ID=centos\n", "var/lib/rpm/Packages": "Berkeley DB"}, "the disk has no list of packages of dpkg or rpm"},
		{"a damaged list", map[string]string{"etc/os-release": "ID=debian\n", "var/lib/dpkg/status": "nonsense"}, "read /var/lib/dpkg/status"},
	} {
		why, err := Unpatchable(treeOf(t, c.files))
		if err != nil || !strings.Contains(why, c.want) || (why == "") != (c.want == "") {
			t.Errorf("%s: %q (%v), want %q", c.name, why, err, c.want)
		}
	}
}
