package scan

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// rpms builds packages with rpmbuild. One package has an example key, a setting, and so many files that its record
// overflows. Many small packages create branches in the database.
func rpms(t *testing.T, key string) []string {
	t.Helper()
	const files, others = 2000, 20
	top := t.TempDir()
	var spec strings.Builder
	head := "Version: 1\nRelease: 1\nSummary: of a test\nLicense: none\nBuildArch: noarch\n"
	spec.WriteString("Name: site\n" + head + "%description\nfiles\n")
	for i := range others {
		fmt.Fprintf(&spec, "%%package -n other%d\nSummary: of a test\n%%description -n other%d\n%s\n", i, i, strings.Repeat("a file. ", 100))
	}
	writeFile(t, top, "key", key)
	fmt.Fprintf(&spec, "%%install\nmkdir -p %%{buildroot}/usr/share/site/many %%{buildroot}/usr/share/other %%{buildroot}/etc %%{buildroot}/usr/lib/site\n"+
		"for i in $(seq %d); do echo $i > %%{buildroot}/usr/share/site/many/$i; done\nfor i in $(seq 0 %d); do echo $i > %%{buildroot}/usr/share/other/$i; done\n", files, others-1)
	for _, name := range []string{"usr/share/site/example.key", "usr/share/site/changed.key", "usr/lib/site/merged.key", "etc/site.conf"} {
		fmt.Fprintf(&spec, "cp %s %%{buildroot}/%s\n", filepath.Join(top, "key"), name)
	}
	spec.WriteString("%files\n/usr/share/site\n/usr/lib/site\n%config /etc/site.conf\n")
	for i := range others {
		fmt.Fprintf(&spec, "%%files -n other%d\n/usr/share/other/%d\n", i, i)
	}
	writeFile(t, top, "site.spec", spec.String())
	command(t, "rpmbuild", "-bb", "--quiet", "--define", "_topdir "+top, "--define", "_binary_payload w0.gzdio", filepath.Join(top, "site.spec"))
	built, err := filepath.Glob(filepath.Join(top, "RPMS/noarch/*.rpm"))
	if err != nil || len(built) != others+1 {
		t.Fatalf("%d packages, %v", len(built), err)
	}
	return built
}

// TestRPM installs packages into trees with rpm, and reads the resulting database. Unchanged files of packages are
// known. All other files are searched.
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
	key := secrets(t)["PKCS #8 in PEM"]
	built := rpms(t, key)
	for _, database := range []string{"/usr/lib/sysimage/rpm", "/var/lib/rpm"} {
		t.Run(database, func(t *testing.T) {
			dir := t.TempDir()
			// On Fedora, /lib is a link to /usr/lib.
			if err := os.MkdirAll(filepath.Join(dir, "usr/lib"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("usr/lib", filepath.Join(dir, "lib")); err != nil {
				t.Fatal(err)
			}
			at := []string{"--root", dir, "--dbpath", database, "--define", "_db_backend sqlite"}
			command(t, "rpm", append(at, append([]string{"-i", "--nodeps", "--force-debian"}, built...)...)...)
			command(t, "rpm", append(at, "-e", "--nodeps", "--force-debian", "other7")...)
			writeFile(t, dir, "usr/share/site/changed.key", key+"\n")
			writeFile(t, dir, "usr/share/site/beside.key", key+"\n")
			writeFile(t, dir, "usr/share/other/7", key+"\n")
			writeFile(t, dir, "usr/share/site/copied.key", key)
			report := scanTree(t, dir, Options{Base: func(p string) bool { return strings.HasPrefix(p, database) }})
			var found []string
			for _, f := range report.Findings {
				found = append(found, f.Path)
			}
			if want := "/usr/share/other/7 /usr/share/site/beside.key /usr/share/site/changed.key"; strings.Join(found, " ") != want {
				t.Errorf("found %v, want %s", found, want)
			}
			if report.Packages.Files != 2000+19+3 || report.Changed.Count != 1 || report.Unknown.Files != 3 {
				t.Errorf("of packages %d files, changed %+v, unknown %+v", report.Packages.Files, report.Changed, report.Unknown)
			}
		})
	}
}

// TestDamagedRPM: a damaged or missing database makes no file known, and stops nothing.
func TestDamagedRPM(t *testing.T) {
	key := secrets(t)["PKCS #8 in PEM"]
	for name, database := range map[string]string{"empty": "", "of another kind": strings.Repeat("x", 8192), "cut short": "SQLite format 3\x00\x10\x00\x02\x02\x00\x40\x20\x20" + strings.Repeat("\x00", 200)} {
		dir := t.TempDir()
		writeFile(t, dir, "var/lib/rpm/rpmdb.sqlite", database)
		writeFile(t, dir, "opt/key", key)
		if report := scanTree(t, dir, Options{}); report.Count != 1 || report.Packages.Files != 0 {
			t.Errorf("%s: %+v", name, report)
		}
	}
}
