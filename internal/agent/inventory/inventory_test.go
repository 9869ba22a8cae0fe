package inventory

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/contents"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t testing.TB, dir, name, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
}

func zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	must(t, err)
	must(t, z.Close())
	return b.String()
}

// readPackages reads the packages of a tree.
func readPackages(t testing.TB, dir string) *contents.Contents {
	t.Helper()
	opened, err := tree.Open(dir)
	must(t, err)
	defer opened.Close()
	c := &contents.Contents{}
	Packages(opened, c)
	c.Sort()
	return c
}

const status = `Package: curl
Status: install ok installed
Priority: optional
Maintainer: Debian <debian@example.org>
Architecture: amd64
Version: 7.88.1-10+deb12u8
Depends: libc6 (>= 2.34),
 libcurl4 (= 7.88.1-10+deb12u8)
Description: a tool
 Version: 9
 .
 Package: evil

Package: libssl3
Status: hold ok installed
Architecture: amd64
Source: openssl (3.0.15-1)
Version: 3.0.15-1~deb12u1

Package: libcurl4
Status: install ok installed
Architecture: amd64
Source: curl
Version: 7.88.1-10+deb12u8

Package: removed
Status: deinstall ok config-files
Architecture: all
Version: 1

Package: broken
Status: install reinstreq half-installed
Version: 1
`

func TestDpkg(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "usr/lib/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n# ID=other\nVERSION_ID=\"12\"\n")
	must(t, os.MkdirAll(filepath.Join(dir, "etc"), 0o755))
	must(t, os.Symlink("../usr/lib/os-release", filepath.Join(dir, "etc/os-release")))
	writeFile(t, dir, "var/lib/dpkg/status", status)
	writeFile(t, dir, "usr/share/doc/libcurl4/changelog.Debian.gz", zipped(t, "curl (7.88.1-10+deb12u8) bookworm; urgency=medium\n\n  * Fix CVE-2024-7264 and CVE-2024-2398.\n\ncurl (7.88.1-1)\n\n  * CVE-2023-1, CVE-2023-23914, CVE-2024-2398\n"))
	writeFile(t, dir, "usr/share/doc/libssl3/changelog.gz", zipped(t, "no number"))
	want := &contents.Contents{
		OS: contents.OS{ID: "debian", VersionID: "12", Name: "Debian GNU/Linux 12 (bookworm)"},
		Packages: []contents.Package{
			{Kind: contents.Deb, Name: "curl", Version: "7.88.1-10+deb12u8", Arch: "amd64"},
			{Kind: contents.Deb, Name: "libcurl4", Version: "7.88.1-10+deb12u8", Arch: "amd64", Source: "curl"},
			{Kind: contents.Deb, Name: "libssl3", Version: "3.0.15-1~deb12u1", Arch: "amd64", Source: "openssl", SourceVersion: "3.0.15-1"},
		},
		Fixes: map[string][]string{"curl": {"CVE-2024-7264", "CVE-2024-2398", "CVE-2023-23914"}, "openssl": {}},
	}
	if diff := cmp.Diff(want, readPackages(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// TestDpkgOfThisMachine compares with dpkg itself.
func TestDpkgOfThisMachine(t *testing.T) {
	out, err := exec.Command("dpkg-query", "-W", "-f", `${db:Status-Status}|${Package}|${Version}|${Architecture}|${source:Package}|${source:Version}\n`).Output()
	if err != nil {
		t.Skipf("no dpkg: %v", err)
	}
	var want []string
	for line := range strings.Lines(string(out)) {
		if rest, is := strings.CutPrefix(strings.TrimSpace(line), "installed|"); is {
			want = append(want, rest)
		}
	}
	c := readPackages(t, "/")
	var got []string
	for _, p := range c.Packages {
		version := p.SourceVersion
		if version == "" {
			version = p.Version
		}
		got = append(got, strings.Join([]string{p.Name, p.Version, p.Arch, p.SourceName(), version}, "|"))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 50 {
		t.Errorf("%d packages: %s", len(want), diff)
	}
	text, err := c.Encode()
	must(t, err)
	kept, err := contents.Decode(text)
	must(t, err)
	cves := 0
	for _, all := range kept.Fixes {
		cves += len(all)
	}
	t.Logf("%d packages, %d sources with a changelog, %d CVEs (at most %d for each source): %d bytes", len(got), len(c.Fixes), cves, kept.FixesPerSource, len(text))
	if len(kept.Packages) != len(got) {
		t.Errorf("%d packages are kept", len(kept.Packages))
	}
}

// TestHostileDpkg: root on the donor writes anything. Nothing crashes or blocks, and texts are short.
func TestHostileDpkg(t *testing.T) {
	installed := "Status: install ok installed\n"
	for name, test := range map[string]struct {
		prepare func(dir string)
		want    int
		note    string
	}{
		"no files":         {func(string) {}, 0, "packages: the disk has no readable database of dpkg or rpm"},
		"no name":          {func(dir string) { writeFile(t, dir, "var/lib/dpkg/status", installed+"Version: 1\n") }, 0, "no readable database"},
		"a field too long": {func(dir string) { writeFile(t, dir, "var/lib/dpkg/status", "Package: "+strings.Repeat("a", 2<<20)) }, 0, "packages of dpkg: bufio.Scanner: token too long"},
		"a FIFO": {func(dir string) {
			must(t, os.MkdirAll(filepath.Join(dir, "var/lib/dpkg"), 0o755))
			must(t, syscall.Mkfifo(filepath.Join(dir, "var/lib/dpkg/status"), 0o600))
		}, 0, "packages of dpkg: /var/lib/dpkg/status is not a regular file"},
		"a link out of the tree": {func(dir string) {
			must(t, os.MkdirAll(filepath.Join(dir, "var/lib/dpkg"), 0o755))
			must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "var/lib/dpkg/status")))
		}, 0, "packages of dpkg: "},
		"control characters": {func(dir string) {
			writeFile(t, dir, "var/lib/dpkg/status", "Package: a\x1b[2J\u202e\nVersion: 1\xff\n"+installed)
		}, 1, ""},
		"a package that leads elsewhere": {func(dir string) {
			writeFile(t, dir, "var/lib/dpkg/status", "Package: ../../../secret\nVersion: 1\n"+installed)
			writeFile(t, dir, "secret/changelog.gz", zipped(t, "CVE-2026-1111"))
		}, 1, ""},
		"a changelog that is no gzip": {func(dir string) {
			writeFile(t, dir, "var/lib/dpkg/status", "Package: a\nVersion: 1\n"+installed)
			writeFile(t, dir, "usr/share/doc/a/changelog.gz", "CVE-2026-1111")
		}, 1, ""},
		"a changelog cut short": {func(dir string) {
			writeFile(t, dir, "var/lib/dpkg/status", "Package: a\nVersion: 1\n"+installed)
			whole := zipped(t, strings.Repeat("CVE-2026-1111\n", 1000))
			writeFile(t, dir, "usr/share/doc/a/changelog.gz", whole[:len(whole)-10])
		}, 1, ""},
		"too many packages": {func(dir string) {
			var b strings.Builder
			for i := range maxPackages + 10 {
				fmt.Fprintf(&b, "Package: p%d\nVersion: 1\n%s\n", i, installed)
			}
			writeFile(t, dir, "var/lib/dpkg/status", b.String())
		}, maxPackages, "packages: more than 20000"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test.prepare(dir)
			c := readPackages(t, dir)
			if len(c.Packages) != test.want || len(c.Fixes) > 0 {
				t.Errorf("%d packages, fixes %v, want %d", len(c.Packages), c.Fixes, test.want)
			}
			if notes := strings.Join(c.Notes, "\n"); test.note == "" && notes != "" || !strings.Contains(notes, test.note) {
				t.Errorf("notes %q, want %q", notes, test.note)
			}
			if _, err := c.Encode(); err != nil && test.want < maxPackages {
				t.Error(err)
			}
			for _, p := range c.Packages {
				if len(p.Name) > maxText+3 || strings.ToValidUTF8(p.Version, "") != p.Version {
					t.Errorf("package %q version %q", p.Name, p.Version)
				}
			}
		})
	}
}

// TestCVEs: the newest CVEs stay, each one once.
func TestCVEs(t *testing.T) {
	all := cves{}
	for i := range maxCVEs + 100 {
		all.add(fmt.Appendf(nil, "CVE-2026-%04d, again CVE-2026-%04d, xCVE-2026-9999 CVE-26-1 CVE-2026-12345678", i, i))
	}
	if len(all.list) != maxCVEs || all.list[0] != "CVE-2026-0000" || all.list[1] != "CVE-2026-0001" {
		t.Errorf("%d CVEs: %v", len(all.list), all.list[:3])
	}
}

// TestLargeChangelogs: a changelog that unpacks to a very large text is read up to a limit.
func TestLargeChangelogs(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "var/lib/dpkg/status", "Package: linux\nVersion: 1\nStatus: install ok installed\n")
	writeFile(t, dir, "usr/share/doc/linux/changelog.gz", zipped(t, "CVE-2026-1111\n"+strings.Repeat(" ", maxChangelog)+"CVE-2020-1111\n"))
	if diff := cmp.Diff(map[string][]string{"linux": {"CVE-2026-1111"}}, readPackages(t, dir).Fixes); diff != "" {
		t.Error(diff)
	}
}
