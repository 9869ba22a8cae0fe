package audit

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, dir, name, content string) {
	t.Helper()
	p := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(t, os.WriteFile(p, []byte(content), 0o755))
}

// need skips the test without the programs, or without root.
func need(t *testing.T, programs ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			unable(t, "%v", err)
		}
	}
}

// unable skips a test that this machine cannot run. CI has what the tests need.
func unable(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" && os.Getuid() == 0 {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

func whysOf(t *testing.T, dir string) []string {
	t.Helper()
	opened, err := tree.Open(dir)
	must(t, err)
	defer opened.Close()
	whys, err := Packages(opened)
	must(t, err)
	return whys
}

// debian is a root whose packages the machine's own dpkg manages.
type debian struct{ dir string }

func newDebian(t *testing.T) debian {
	t.Helper()
	need(t, "dpkg", "dpkg-deb")
	d := debian{t.TempDir()}
	for _, sub := range []string{"info", "updates", "triggers", "alternatives", "parts"} {
		must(t, os.MkdirAll(filepath.Join(d.dir, "var/lib/dpkg", sub), 0o755))
	}
	writeFile(t, d.dir, "var/lib/dpkg/status", "")
	writeFile(t, d.dir, "var/lib/dpkg/available", "")
	return d
}

// build makes a package with control files by name; "control" adds lines.
func (d debian) build(t *testing.T, name string, control map[string]string) string {
	t.Helper()
	src := t.TempDir()
	writeFile(t, src, "usr/share/"+name+"/file", strings.Repeat(name, 1000))
	must(t, os.MkdirAll(filepath.Join(src, "DEBIAN"), 0o755))
	head := "Package: " + name + "\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.com>\nDescription: a package\n"
	for file, content := range control {
		if file == "control" {
			head += content
			continue
		}
		writeFile(t, src, "DEBIAN/"+file, content)
	}
	writeFile(t, src, "DEBIAN/control", head)
	file := filepath.Join(t.TempDir(), name+".deb")
	if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "--build", src, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// dpkg runs the real dpkg on the root. Its end is of no matter.
func (d debian) dpkg(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(
		t.Context(),
		"dpkg",
		append([]string{"--root=" + d.dir, "--force-script-chrootless", "--force-not-root", "--log=/dev/null"}, args...)...)
	cmd.Env = append(os.Environ(), "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	out, _ := cmd.CombinedOutput()
	t.Logf("dpkg %v:\n%s", args, out)
}

// audited is what dpkg itself says of the root.
func (d debian) audited(t *testing.T) string {
	t.Helper()
	out, _ := exec.CommandContext(t.Context(), "dpkg", "--root="+d.dir, "--audit").CombinedOutput()
	return string(bytes.TrimSpace(out))
}

const script = "#!/bin/sh\n"

// TestPackagesOfDpkg interrupts the real dpkg in every way that a copy can see. dpkg itself must agree that something is wrong.
func TestPackagesOfDpkg(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(t *testing.T, d debian)
		says string
	}{
		"complete": {func(*testing.T, debian) {}, ""},
		"removed, with its settings": {func(t *testing.T, d debian) {
			d.dpkg(t, "--install", d.build(t, "conf", map[string]string{"conffiles": "/usr/share/conf/file\n"}))
			d.dpkg(t, "--remove", "conf")
		}, ""},
		"unpacked": {func(t *testing.T, d debian) { d.dpkg(t, "--unpack", d.build(t, "open", nil)) }, "the package open is unpacked"},
		"half-configured": {func(t *testing.T, d debian) {
			d.dpkg(t, "--install", d.build(t, "half", map[string]string{"postinst": script + "exit 1\n"}))
		}, "the package half is half-configured"},
		"killed": {func(t *testing.T, d debian) {
			d.dpkg(t, "--install", d.build(t, "dead", map[string]string{"preinst": script + "kill -9 $PPID\nsleep 1\n"}))
		}, "dpkg was interrupted (/var/lib/dpkg/updates/"},
		"half-removed": {func(t *testing.T, d debian) {
			d.dpkg(t, "--install", d.build(t, "stays", map[string]string{"postrm": script + "exit 1\n"}))
			d.dpkg(t, "--remove", "stays")
		}, "the package stays is half-installed"},
		"triggers": {func(t *testing.T, d debian) {
			d.dpkg(t, "--install", d.build(t, "waits", map[string]string{"triggers": "interest /usr/share/pulls\n", "postinst": script + "exit 0\n"}))
			d.dpkg(t, "--no-triggers", "--install", d.build(t, "pulls", nil))
		}, "is triggers-"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDebian(t)
			d.dpkg(t, "--install", d.build(t, "good", nil))
			c.act(t, d)
			whys, audited := whysOf(t, d.dir), d.audited(t)
			text := strings.Join(whys, "\n")
			if c.says == "" && (len(whys) > 0 || audited != "") || !strings.Contains(text, c.says) ||
				c.says != "" && !strings.Contains(text, "take a fresh copy") {
				t.Errorf("got %q, want %q", whys, c.says)
			}
			// dpkg --audit leaves out records of an interrupted run that it would take up first.
			if c.says != "" && audited == "" && name != "killed" {
				t.Error("dpkg itself finds nothing")
			}
		})
	}
}

// TestDamagedDpkg loses content as a copy of a running disk does: files are empty, missing, or full of zeros.
func TestDamagedDpkg(t *testing.T) {
	d := newDebian(t)
	d.dpkg(t, "--install", d.build(t, "good", nil), d.build(t, "multi", map[string]string{"control": "Multi-Arch: foreign\n"}))
	if whys := whysOf(t, d.dir); len(whys) > 0 {
		t.Fatal(whys)
	}
	const status, list = "var/lib/dpkg/status", "var/lib/dpkg/info/good.list"
	for name, c := range map[string]struct {
		file, content string
		says          string
	}{
		"an empty list of files":    {list, "", "the package good has an empty list of files (/" + list + ")"},
		"a list of zeros":           {list, strings.Repeat("\x00", 200), "the package good has an empty list of files"},
		"no list of files":          {list, "gone", "the package good has no list of files"},
		"an empty list of packages": {status, "", "is empty, and /var/lib/dpkg/info has files"},
		"packages of zeros":         {status, strings.Repeat("\x00", 4096), "is damaged"},
		"a list that ends in zeros": {status, "Package: good\nStatus: install ok installed\nArchitecture: all\n\n" + strings.Repeat("\x00",
			4096), "is damaged"},
		"no list of packages":            {status, "gone", "is missing, and /var/lib/dpkg/info has files"},
		"a state that dpkg never writes": {status, "Package: good\nStatus: installed\n\n", "the package good is in an unreadable state"},
		"a pending update":               {"var/lib/dpkg/updates/0000", "", "dpkg was interrupted"},
		"reinstreq":                      {status, "Package: good\nStatus: install reinstreq installed\n\n", "to be installed again"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.CopyFS(dir, os.DirFS(d.dir)))
			writeFile(t, dir, c.file, c.content)
			if c.content == "gone" {
				must(t, os.Remove(filepath.Join(dir, c.file)))
			}
			if whys := whysOf(t, dir); !slices.ContainsFunc(whys, func(why string) bool { return strings.Contains(why, c.says) }) {
				t.Errorf("got %q, want %q", whys, c.says)
			}
		})
	}
}

// TestPackagesSameOnEachArchitecture: such a package has its architecture in the name of its list.
func TestPackagesSameOnEachArchitecture(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "var/lib/dpkg/status", "Package: libc\nStatus: install ok installed\nArchitecture: amd64\nMulti-Arch: same\n\n")
	writeFile(t, dir, "var/lib/dpkg/info/libc:amd64.list", "/.\n")
	if whys := whysOf(t, dir); len(whys) > 0 {
		t.Error(whys)
	}
	must(t, os.Rename(filepath.Join(dir, "var/lib/dpkg/info/libc:amd64.list"), filepath.Join(dir, "var/lib/dpkg/info/libc.list")))
	if whys := whysOf(t, dir); len(whys) != 1 || !strings.Contains(whys[0], "libc:amd64 has no list") {
		t.Error(whys)
	}
}

func TestNoPackageManager(t *testing.T) {
	if whys := whysOf(t, t.TempDir()); len(whys) > 0 {
		t.Error(whys)
	}
}

// TestPackagesOfRPM uses the real rpm: a complete database, one of a killed transaction, and damaged ones.
func TestPackagesOfRPM(t *testing.T) {
	need(t, "rpm", "rpmbuild")
	dir, build := t.TempDir(), t.TempDir()
	rpm := func(root string, args ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "rpm", append([]string{"--root", root, "--dbpath", "/var/lib/rpm", "--define",
			"_db_backend sqlite"}, args...)...).
			CombinedOutput()
		t.Logf("rpm %v: %v\n%s", args, err, out)
	}
	packaged := func(name, extra string) string {
		t.Helper()
		spec := filepath.Join(build, name+".spec")
		writeFile(
			t,
			build,
			name+".spec",
			"Name: "+name+"\nVersion: 1\nRelease: 1\nSummary: s\nLicense: MIT\nBuildArch: noarch\n%description\nd\n%install\nmkdir -p %{buildroot}/usr/share/"+name+
				"\necho x > %{buildroot}/usr/share/"+name+"/file\n"+extra+"%files\n/usr/share/"+name+"/file\n",
		)
		out, err := exec.CommandContext(t.Context(), "rpmbuild", "-bb", "--define", "_topdir "+build, spec).CombinedOutput()
		if err != nil {
			unable(t, "rpmbuild: %v\n%s", err, out)
		}
		return filepath.Join(build, "RPMS/noarch", name+"-1-1.noarch.rpm")
	}
	good := packaged("good", "")
	rpm(dir, "--initdb")
	rpm(dir, "--install", "--nodeps", good)
	const database = "var/lib/rpm/rpmdb.sqlite"
	if _, err := os.Stat(filepath.Join(dir, database)); err != nil {
		unable(t, "this rpm writes no SQLite: %v", err)
	}
	if whys := whysOf(t, dir); len(whys) > 0 {
		t.Errorf("complete: %q", whys)
	}
	killed := t.TempDir()
	must(t, os.CopyFS(killed, os.DirFS(dir)))
	killRPM(t, killed, packaged("dead", "%post -p <lua>\nio.open(\"/began\", \"w\"):close()\nwhile not io.open(\"/end\") do posix.sleep(1) end\n"))
	if whys := whysOf(t, killed); len(whys) != 1 ||
		!strings.Contains(whys[0], "a transaction of rpm is open (/var/lib/rpm/rpmdb.sqlite-wal has changes)") {
		t.Errorf("killed: %q", whys)
	}
	// The remedy for a log that stays.
	rpm(killed, "--rebuilddb")
	if whys := whysOf(t, killed); len(whys) > 0 {
		t.Errorf("rebuilt: %q", whys)
	}
	for name, damage := range map[string]func(p string) error{
		"empty": func(p string) error { return os.Truncate(p, 0) },
		"cut":   func(p string) error { return os.Truncate(p, 8192) },
	} {
		damaged := t.TempDir()
		must(t, os.CopyFS(damaged, os.DirFS(dir)))
		must(t, damage(filepath.Join(damaged, database)))
		if whys := whysOf(t, damaged); len(whys) != 1 || !strings.Contains(whys[0], "rpm's database is damaged") {
			t.Errorf("%s: %q", name, whys)
		}
	}
	old := t.TempDir()
	writeFile(t, old, "var/lib/rpm/Packages", "x")
	if whys := whysOf(t, old); len(whys) != 1 || !strings.Contains(whys[0], "capture the node in place, if it can return") {
		t.Errorf("another format: %q", whys)
	}
}

// killRPM installs a package whose script waits, and kills rpm then.
func killRPM(t *testing.T, root, file string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "rpm", "--root", root, "--dbpath", "/var/lib/rpm", "--define", "_db_backend sqlite", "--install",
		"--nodeps", file)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	must(t, cmd.Start())
	_, err := os.Stat(filepath.Join(root, "began"))
	for looks := 0; err != nil && looks < 600; looks++ {
		time.Sleep(50 * time.Millisecond)
		_, err = os.Stat(filepath.Join(root, "began"))
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the script of the package does not begin: %v\n%s", err, said.String())
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	writeFile(t, root, "end", "") // ends the script, if it is a process of its own
}
