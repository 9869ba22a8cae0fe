package contents

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// versionsOf are two versions with contents.
func versionsOf(a, b *Contents) (Version, Version) {
	return Version{Version: "2026.02.01", Contents: a}, Version{Version: "2026.03.01", Contents: b}
}

func compare(a, b *Contents) Diff {
	from, to := versionsOf(a, b)
	return Compare("pool1", from, to)
}

func TestComparePackages(t *testing.T) {
	rpm := func(name, version string) Package {
		return Package{Kind: RPM, Name: name, Version: version, Arch: "x86_64"}
	}
	for name, test := range map[string]struct {
		from, to []Package
		want     []PackageChange
	}{
		"nothing":    {nil, nil, []PackageChange{}},
		"equal":      {[]Package{deb("a", "1")}, []Package{deb("a", "1")}, []PackageChange{}},
		"changed":    {[]Package{deb("a", "1")}, []Package{deb("a", "2")}, []PackageChange{{Changed, "a", "amd64", "1", "2"}}},
		"downgraded": {[]Package{deb("a", "2")}, []Package{deb("a", "1")}, []PackageChange{{Changed, "a", "amd64", "2", "1"}}},
		"added":      {nil, []Package{deb("a", "1")}, []PackageChange{{Added, "a", "amd64", "", "1"}}},
		"removed":    {[]Package{deb("a", "1")}, nil, []PackageChange{{Removed, "a", "amd64", "1", ""}}},
		"a second kernel": {
			[]Package{rpm("kernel", "1"), rpm("kernel", "2")}, []Package{rpm("kernel", "2"), rpm("kernel", "3")},
			[]PackageChange{{Changed, "kernel", "x86_64", "1, 2", "2, 3"}},
		},
		"another architecture": {
			[]Package{deb("a", "1")}, []Package{{Kind: Deb, Name: "a", Version: "1", Arch: "i386"}},
			[]PackageChange{{Removed, "a", "amd64", "1", ""}, {Added, "a", "i386", "", "1"}},
		},
		"another kind": {
			[]Package{{Kind: Deb, Name: "a", Version: "1"}}, []Package{{Kind: RPM, Name: "a", Version: "2"}},
			[]PackageChange{{Removed, "a", "", "1", ""}, {Added, "a", "", "", "2"}},
		},
		"sorted by name": {
			[]Package{deb("c", "1"), deb("a", "1")}, []Package{deb("b", "1"), deb("a", "2")},
			[]PackageChange{{Changed, "a", "amd64", "1", "2"}, {Added, "b", "amd64", "", "1"}, {Removed, "c", "amd64", "1", ""}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := compare(listOf(test.from...), listOf(test.to...))
			if diff := cmp.Diff(test.want, d.Packages); diff != "" {
				t.Error(diff)
			}
			if !d.Known() {
				t.Error("the contents are unknown")
			}
		})
	}
}

// TestCompareFixes: a CVE is fixed if only the new changelog of a changed source names the CVE.
func TestCompareFixes(t *testing.T) {
	openssl := func(version string) Package {
		return Package{Kind: Deb, Name: "libssl3", Version: version, Arch: "amd64", Source: "openssl", SourceVersion: "src-" + version}
	}
	with := func(c *Contents, source string, cves ...string) *Contents {
		c.FixesPerSource = 2
		if c.Fixes == nil {
			c.Fixes = map[string][]string{}
		}
		c.Fixes[source] = append([]string{}, cves...)
		return c
	}
	for name, test := range map[string]struct {
		from, to *Contents
		want     []CVEFix
		notes    string
	}{
		"fixed": {
			with(listOf(openssl("1")), "openssl", "CVE-2025-1"), with(listOf(openssl("2")), "openssl", "CVE-2026-2", "CVE-2025-1"),
			[]CVEFix{{"CVE-2026-2", "openssl"}}, "",
		},
		"no new CVE": {with(listOf(openssl("1")), "openssl", "CVE-2025-1"), with(listOf(openssl("2")), "openssl", "CVE-2025-1"), []CVEFix{}, ""},
		"more than the limit": {with(listOf(openssl("1")), "openssl"), with(listOf(openssl("2")), "openssl", "CVE-2026-2", "CVE-2026-1"),
			[]CVEFix{{"CVE-2026-1", "openssl"}, {"CVE-2026-2", "openssl"}}, "CVEs of openssl: only the newest 2 are known"},
		"the version is the same": {with(listOf(openssl("1")), "openssl"), with(listOf(openssl("1")), "openssl", "CVE-2026-1"), []CVEFix{}, ""},
		"a new package":           {listOf(), with(listOf(openssl("1")), "openssl", "CVE-2026-1"), []CVEFix{}, ""},
		"a removed package":       {with(listOf(openssl("1")), "openssl", "CVE-2026-1"), listOf(), []CVEFix{}, ""},
		"no changelog before": {listOf(openssl("1")), with(listOf(openssl("2")), "openssl", "CVE-2026-1"), []CVEFix{},
			"CVEs of 1 changed source packages are unknown"},
		"no changelog after": {with(listOf(openssl("1")), "openssl"), listOf(openssl("2")), []CVEFix{}, "CVEs of 1 changed source packages are unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			d := compare(test.from, test.to)
			if diff := cmp.Diff(test.want, d.Fixed); diff != "" {
				t.Error(diff)
			}
			if notes := strings.Join(d.Notes, "\n"); test.notes == "" && notes != "" || !strings.Contains(notes, test.notes) {
				t.Errorf("notes %q, want %q", notes, test.notes)
			}
		})
	}
}

func TestCompareImagesAndFiles(t *testing.T) {
	a, b := listOf(), listOf()
	a.Images = []Image{{"pause:3.9", "sha256:1"}, {"proxy:1", "sha256:2"}}
	b.Images = []Image{{"pause:3.9", "sha256:1"}, {"proxy:1", "sha256:3"}}
	a.Unknown = []Directory{{"/etc", 1}, {"/opt", 2}, {"/srv", 3}}
	b.Unknown = []Directory{{"/etc", 1}, {"/srv", 4}, {"/usr/local", 5}}
	b.Notes = []string{"container images: rule docker: broken"}
	d := compare(a, b)
	if diff := cmp.Diff([]Image{{"proxy:1", "sha256:3"}}, d.ImagesAdded); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Image{{"proxy:1", "sha256:2"}}, d.ImagesGone); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]DirectoryChange{{"/opt", 2, 0}, {"/srv", 3, 4}, {"/usr/local", 0, 5}}, d.Unknown); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"version 2026.03.01: container images: rule docker: broken"}, d.Notes); diff != "" {
		t.Error(diff)
	}
}

// TestCompareWithoutContents: without a list, nothing is said about packages.
func TestCompareWithoutContents(t *testing.T) {
	from, to := versionsOf(nil, listOf(deb("a", "1")))
	from.Missing = "the capture of the version kept no list"
	from.Kernel, to.Kernel = "6.1", "6.2"
	d := Compare("pool1", from, to)
	if d.Known() || len(d.Packages) > 0 {
		t.Errorf("known %t, packages %v", d.Known(), d.Packages)
	}
	if want := []string{"version 2026.02.01: packages, images and files are unknown: the capture of the version kept no list"}; !slices.Equal(d.Notes, want) {
		t.Errorf("notes %q, want %q", d.Notes, want)
	}
	if want := "compared with version 2026.02.01: kernel 6.1 -> 6.2"; d.Line() != want {
		t.Errorf("line %q, want %q", d.Line(), want)
	}
}

func TestLine(t *testing.T) {
	from, to := versionsOf(listOf(deb("a", "1"), deb("c", "1")), listOf(deb("a", "2"), deb("b", "1")))
	from.Contents.Fixes, to.Contents.Fixes = map[string][]string{"a": {}}, map[string][]string{"a": {"CVE-2026-1"}}
	to.Contents.Images = []Image{{"pause:3.9", "sha256:1"}}
	from.Kubelet, to.Kubelet = "v1.33.1", "v1.33.2"
	from.Runtime, to.Runtime = "containerd://1.7.1", "containerd://1.7.1"
	to.Kernel = "6.2"
	d := Compare("pool1", from, to)
	want := "compared with version 2026.02.01: kubelet v1.33.1 -> v1.33.2; packages: 1 changed, 1 added, 1 removed; CVEs fixed: 1; container images: 1 added, 0 gone"
	if d.Line() != want {
		t.Errorf("line\n%s, want\n%s", d.Line(), want)
	}
	to.Kernel, from.Kernel = strings.Repeat("6", 500), "5"
	if line := Compare("pool1", from, to).Line(); len(line) > 400 {
		t.Errorf("a long kernel makes a line of %d bytes", len(line))
	}
	if line := Compare("pool1", Version{Version: "1"}, Version{Version: "2"}).Line(); line != "" {
		t.Errorf("without facts the line is %q", line)
	}
}

// drawList draws a list of few names, so that two lists overlap.
func drawList(t *rapid.T, label string) *Contents {
	c := listOf()
	name, version := rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"1", "2"})
	for range rapid.IntRange(0, 4).Draw(t, label) {
		c.Packages = append(c.Packages, deb(name.Draw(t, "name"), version.Draw(t, "version")))
	}
	for range rapid.IntRange(0, 2).Draw(t, label) {
		c.Images = append(c.Images, Image{name.Draw(t, "image"), version.Draw(t, "digest")})
	}
	c.Sort()
	return c
}

// TestCompareBackwards: the reverse difference has the reverse changes, and a list does not differ from itself.
func TestCompareBackwards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawList(t, "a"), drawList(t, "b")
		forth, back := compare(a, b), compare(b, a)
		if forth.Count(Added) != back.Count(Removed) || forth.Count(Removed) != back.Count(Added) || forth.Count(Changed) != back.Count(Changed) {
			t.Errorf("forth %v, back %v", forth.Packages, back.Packages)
		}
		if diff := cmp.Diff(forth.ImagesAdded, back.ImagesGone); diff != "" {
			t.Error(diff)
		}
		if same := compare(a, a); len(same.Packages)+len(same.ImagesAdded)+len(same.ImagesGone) > 0 {
			t.Errorf("a list differs from itself: %+v", same)
		}
		// The changes lead from one list to the other.
		got := versions(a)
		for _, p := range forth.Packages {
			key := packageKey{p.Name, p.Arch, Deb}
			if got[key] != p.From {
				t.Errorf("%+v, but the list has %q", p, got[key])
			}
			if delete(got, key); p.To != "" {
				got[key] = p.To
			}
		}
		if diff := cmp.Diff(versions(b), got, cmp.AllowUnexported(packageKey{})); diff != "" {
			t.Error(diff)
		}
	})
}

// TestALongListIsCompared in reasonable time: root on a donor chooses the list.
func TestALongListIsCompared(t *testing.T) {
	a, b := listOf(), listOf()
	for i := range 100_000 {
		a.Packages = append(a.Packages, deb("a", "1"))
		a.Images = append(a.Images, Image{"a", strings.Repeat("1", i%64)})
		b.Images = append(b.Images, Image{"b", strings.Repeat("1", i%64)})
	}
	if d := compare(a, b); len(d.ImagesAdded) != 100_000 || len(d.Packages) != 1 {
		t.Errorf("%d images, %d packages", len(d.ImagesAdded), len(d.Packages))
	}
}
