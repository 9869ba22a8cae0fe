package inventory

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/contents"
)

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestRPM installs packages into a tree with rpm, and compares with rpm itself.
func TestRPM(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("rpm installs into a tree as root only")
	}
	if _, err := exec.LookPath("rpmbuild"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no rpm: apt-get install rpm")
	}
	top, dir := t.TempDir(), t.TempDir()
	var spec strings.Builder
	spec.WriteString("Name: openssl\nEpoch: 1\nVersion: 3.2.2\nRelease: 6%{?dist}\nSummary: of a test\nLicense: none\nBuildArch: noarch\n%description\nfiles\n" +
		"%package libs\nSummary: of a test\n%description libs\nfiles\n%package -n other\nSummary: of a test\nEpoch: 0\n%description -n other\nfiles\n" +
		"%files\n%files libs\n%files -n other\n%changelog\n* Mon Mar 02 2026 A Person <a@example.org> - 1:3.2.2-6\n- Fix CVE-2026-1111 and CVE-2026-2222\n* Mon Feb 02 2026 A Person <a@example.org> - 1:3.2.2-5\n- Fix CVE-2025-3333\n")
	writeFile(t, top, "openssl.spec", spec.String())
	command(t, "rpmbuild", "-bb", "--quiet", "--define", "_topdir "+top, "--define", "dist .el9", "--define", "_binary_payload w0.gzdio", filepath.Join(top, "openssl.spec"))
	built, err := filepath.Glob(filepath.Join(top, "RPMS/noarch/*.rpm"))
	must(t, err)
	at := []string{"--root", dir, "--dbpath", "/usr/lib/sysimage/rpm", "--define", "_db_backend sqlite"}
	command(t, "rpm", append(at, append([]string{"-i", "--nodeps", "--force-debian"}, built...)...)...)
	out := command(t, "rpm", append(at, "-qa", "--qf", `%{NAME}|%|EPOCH?{%{EPOCH}}:{0}|:%{VERSION}-%{RELEASE}|%{ARCH}|%{SOURCERPM}\n`)...)
	var want []string
	for line := range strings.Lines(out) {
		want = append(want, strings.ReplaceAll(strings.TrimSpace(line), "|0:", "|"))
	}
	c := readPackages(t, dir)
	var got []string
	for _, p := range c.Packages {
		if p.SourceName() != "openssl" || p.Kind != contents.RPM {
			t.Errorf("package %+v", p)
		}
		got = append(got, strings.Join([]string{p.Name, p.Version, p.Arch, p.SourceRPM}, "|"))
	}
	for i := range want {
		want[i] = strings.Replace(want[i], "||:", "|", 1)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 3 {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string][]string{"openssl": {"CVE-2026-1111", "CVE-2026-2222", "CVE-2025-3333"}}, c.Fixes); diff != "" {
		t.Error(diff)
	}
	if len(c.Notes) > 0 {
		t.Errorf("notes %q", c.Notes)
	}
}

// TestOtherDatabases: a database that is not read is a note, not an empty list.
func TestOtherDatabases(t *testing.T) {
	for name, test := range map[string]struct{ path, content, note string }{
		"Berkeley DB": {"var/lib/rpm/Packages", "x", "packages of rpm: /var/lib/rpm/Packages has a format that is not read"},
		"ndb":         {"usr/lib/sysimage/rpm/Packages.db", "x", "packages of rpm: /usr/lib/sysimage/rpm/Packages.db has a format that is not read"},
		"damaged":     {"var/lib/rpm/rpmdb.sqlite", strings.Repeat("x", 8192), "packages of rpm: the database is damaged"},
	} {
		dir := t.TempDir()
		writeFile(t, dir, test.path, test.content)
		if c := readPackages(t, dir); !slices.Contains(c.Notes, test.note) || len(c.Packages) > 0 {
			t.Errorf("%s: notes %q, want %q", name, c.Notes, test.note)
		}
	}
}
