package dnf

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/patch"
)

// table is dnf 4.14's output of upgrade --assumeno, with the wrapped line of a long name.
const table = `Last metadata expiration check: 0:00:01 ago on Fri Nov 27 03:00:00 2026.
Dependencies resolved.
================================================================================
 Package                 Architecture  Version             Repository      Size
================================================================================
Installing:
 kernel                  x86_64        6.1.119-129.201     amazonlinux     33 M
Upgrading:
 openssl                 x86_64        1:3.0.8-1.amzn2023.0.18
                                                           amazonlinux    6.2 k
     replacing  openssl-fips.x86_64 3.0.7-1
 a-package-with-a-very-long-name-indeed
                         noarch        2.0-1               updates        1.5 k
Installing dependencies:
 liblater                noarch        1.0-1               updates        512  
Removing:
 kernel                  x86_64        6.1.90-99.173       @amazonlinux   120 M
Removing dependent packages:
 oldtool                 noarch        1.0-1               @@System       6.0  
Skipping packages with broken dependencies:
 stuck                   noarch        2.0-1               updates        6.2 k

Transaction Summary
================================================================================
Install  2 Packages
Upgrade  2 Packages
Remove   2 Packages
Skip     1 Package

Total download size: 33 M
Operation aborted.
`

var (
	kernel  = patch.Change{Name: "kernel", To: "6.1.119-129.201", Arch: "x86_64", Origin: "amazonlinux"}
	openssl = patch.Change{Name: "openssl", To: "1:3.0.8-1.amzn2023.0.18", Arch: "x86_64", Origin: "amazonlinux"}
	long    = patch.Change{Name: "a-package-with-a-very-long-name-indeed", To: "2.0-1", Arch: "noarch", Origin: "updates"}
	later   = patch.Change{Name: "liblater", To: "1.0-1", Arch: "noarch", Origin: "updates"}
	now     = time.Date(2026, 11, 27, 6, 0, 0, 0, time.UTC)
)

func TestParsePlan(t *testing.T) {
	want := Plan{
		Install: []patch.Change{kernel, openssl, long, later}, Remove: []string{"oldtool"}, Replaced: []string{"kernel", "openssl-fips"},
		Skipped: []string{"stuck"}, Download: 33 << 20,
	}
	if diff := cmp.Diff(want, ParsePlan(table)); diff != "" {
		t.Error(diff)
	}
	if got := ParsePlan("Dependencies resolved.\nNothing to do.\nComplete!\n"); !cmp.Equal(got, Plan{}) {
		t.Errorf("nothing to do: %+v", got)
	}
}

func TestHasKernel(t *testing.T) {
	for name, want := range map[string]bool{
		"kernel": true, "kernel-core": true, "kernel6.12": true, "kernel-uek-core": true, "kernel-tools": false, "kernel-headers": false, "openssl": false,
	} {
		if p := (Plan{Install: []patch.Change{{Name: name}}}); p.HasKernel() != want {
			t.Errorf("%s is a kernel: %v", name, !want)
		}
	}
}

func TestParseDowngrade(t *testing.T) {
	got := ParsePlan("Downgrading:\n foo   noarch   1.0-1   updates   6.2 k\n\nTransaction Summary\nDowngrade  1 Package\n")
	if !slices.Equal(got.Remove, []string{"foo"}) || got.Install != nil {
		t.Errorf("a downgrade must be refused like a removal: %+v", got)
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]int64{"6.5 k": 6656, "12 M": 12 << 20, "1.5 G": 3 << 29, "512": 512, "512  ": 512, "x": 0, "": 0} {
		if got := bytes(text); got != want {
			t.Errorf("%q is %d bytes, want %d", text, got, want)
		}
	}
}

func TestComplete(t *testing.T) {
	p := Plan{Install: []patch.Change{openssl, long}}
	p.Complete([]patch.Installed{{Name: "openssl", Version: "1:3.0.8-1.amzn2023.0.17", Arch: "x86_64"}, {Name: "openssl", Version: "1", Arch: "i686"}}, []Advisory{
		{Package: "openssl-1:3.0.8-1.amzn2023.0.18.x86_64"}, {"CVE-2026-2", "openssl-1:3.0.8-1.amzn2023.0.18.x86_64"},
		{"CVE-2026-1", "openssl-1:3.0.8-1.amzn2023.0.18.x86_64"}, {"CVE-2026-1", "openssl-1:3.0.8-1.amzn2023.0.18.x86_64"}, {"CVE-2026-3", "other-1-1.noarch"},
	})
	full := openssl
	full.From, full.Security, full.CVEs = "1:3.0.8-1.amzn2023.0.17", true, []string{"CVE-2026-1", "CVE-2026-2"}
	if diff := cmp.Diff([]patch.Change{full, long}, p.Install); diff != "" {
		t.Error(diff)
	}
	if want := []string{"openssl-1:3.0.8-1.amzn2023.0.18.x86_64", "a-package-with-a-very-long-name-indeed-2.0-1.noarch"}; !slices.Equal(p.Specs(), want) {
		t.Errorf("%v, want %v", p.Specs(), want)
	}
}

func TestAdvisories(t *testing.T) {
	got := Advisories(`CVE-2026-1 Important/Sec. openssl-1:3.0.8-1.amzn2023.0.18.x86_64
ALAS2023-2026-100 medium/Sec.   foo-2.0-1.noarch
KAMINO-1          security      bar-2.0-1.noarch
FEDORA-1          bugfix        baz-2.0-1.noarch
FEDORA-2          enhancement   qux-2.0-1.noarch

`)
	want := []Advisory{
		{"CVE-2026-1", "openssl-1:3.0.8-1.amzn2023.0.18.x86_64"}, {"", "foo-2.0-1.noarch"}, {"", "bar-2.0-1.noarch"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestChoose(t *testing.T) {
	was := func(c patch.Change) patch.Change { c.From = "1"; return c }
	containerd := patch.Change{Name: "containerd", From: "1", To: "2-1", Arch: "x86_64", Origin: "amazonlinux"}
	p := Plan{Install: []patch.Change{was(kernel), was(openssl), was(long), later, containerd}, Skipped: []string{"stuck"}}
	stuck, held := patch.Held{Name: "stuck", Source: patch.KeptBack}, patch.Held{Name: "containerd", To: "2-1", Source: patch.HeldByOrder}
	published := map[string]time.Time{"amazonlinux": now.Add(-48 * time.Hour)}
	for name, test := range map[string]struct {
		order patch.Order
		want  Choice
	}{
		"all": {patch.Order{Hold: patch.DefaultHold()}, Choice{Specs: []string{spec(kernel), spec(openssl), spec(long)}, Held: []patch.Held{stuck, held}}},
		"old": {
			patch.Order{Hold: patch.DefaultHold(), MinAge: 24 * time.Hour},
			Choice{Specs: []string{spec(kernel), spec(openssl)}, Held: []patch.Held{stuck, {Name: long.Name, To: long.To, Source: patch.HeldByAge}, held}},
		},
		"no hold": {
			patch.Order{MinAge: 72 * time.Hour}, Choice{Held: []patch.Held{stuck,
				{Name: "kernel", To: kernel.To, Source: patch.HeldByAge}, {Name: "openssl", To: openssl.To, Source: patch.HeldByAge},
				{Name: long.Name, To: long.To, Source: patch.HeldByAge}, {Name: "containerd", To: "2-1", Source: patch.HeldByAge}}},
		},
	} {
		got, err := Choose(p, test.order, published, now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if _, err := Choose(p, patch.Order{Hold: []string{"open"}}, nil, now); err == nil {
		t.Error("an open pattern is accepted")
	}
}

func TestRefuse(t *testing.T) {
	for name, test := range map[string]struct {
		plan   Plan
		reason patch.Reason
		says   string
	}{
		"fine":     {Plan{Install: []patch.Change{openssl}, Replaced: []string{"kernel"}, Skipped: []string{"x"}}, "", ""},
		"held":     {Plan{Install: []patch.Change{openssl, {Name: "runc"}}}, patch.HeldPackage, "the patches need a change of the held packages runc; nothing was installed"},
		"obsolete": {Plan{Install: []patch.Change{openssl}, Replaced: []string{"kubelet"}}, patch.HeldPackage, "the patches need a change of the held packages kubelet; nothing was installed"},
		"gone":     {Plan{Install: []patch.Change{openssl}, Remove: []string{"tool"}}, patch.WouldRemove, "the patches would remove tool; nothing was installed"},
	} {
		got, err := Refuse(test.plan, patch.Order{Hold: patch.DefaultHold()})
		if err != nil {
			t.Fatal(err)
		}
		if (got == nil) != (test.reason == "") || got != nil && (got.Reason != test.reason || got.Message != test.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := Refuse(Plan{}, patch.Order{Hold: []string{"open"}}); err == nil {
		t.Error("an open pattern is accepted")
	}
}

func TestChangesAndMissing(t *testing.T) {
	old := patch.Installed{Name: "openssl", Version: "1:3.0.8-1.amzn2023.0.17", Arch: "x86_64"}
	before := []patch.Installed{old, {Name: "kernel", Version: "6.1.90-99.173", Arch: "x86_64"}}
	after := []patch.Installed{
		{Name: "openssl", Version: openssl.To, Arch: "x86_64"}, before[1], {Name: "kernel", Version: kernel.To, Arch: "x86_64"}, {Name: "liblater", Version: "1.0-1", Arch: "noarch"},
	}
	planned := openssl
	planned.Security, planned.CVEs = true, []string{"CVE-2026-1"}
	ssl, core, fresh := planned, kernel, later
	ssl.From, core.From, core.Origin, fresh.Origin = old.Version, "6.1.90-99.173", "", ""
	if diff := cmp.Diff([]patch.Change{ssl, core, fresh}, Changes(before, after, []patch.Change{planned})); diff != "" {
		t.Error(diff)
	}
	if got := Changes(before, before, []patch.Change{planned}); got != nil {
		t.Errorf("%v", got)
	}
	if diff := cmp.Diff([]patch.Change{long}, Missing([]patch.Change{openssl, long, kernel}, after)); diff != "" {
		t.Error(diff)
	}
}

func TestPackages(t *testing.T) {
	got := Packages("openssl|1:3.0.8-1|x86_64\nbash|0:5.2-1|x86_64\ngpg-pubkey|0:1-2|(none)\nnonsense\n\n")
	want := []patch.Installed{{Name: "openssl", Version: "1:3.0.8-1", Arch: "x86_64"}, {Name: "bash", Version: "5.2-1", Arch: "x86_64"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNewestRelease(t *testing.T) {
	const notice = `WARNING:
  A newer release of "Amazon Linux" is available.

  Available Versions:

  Version 2023.9.20251110:
    Run the following command to upgrade to 2023.9.20251110:

      dnf upgrade --releasever=2023.9.20251110

    Release notes:
     https://docs.aws.amazon.com/linux/al2023/release-notes/relnotes-2023.9.20251110.html

  Version 2023.10.20260105:
    Run the following command to upgrade to 2023.10.20260105:

      dnf upgrade --releasever=2023.10.20260105
`
	for output, want := range map[string]string{notice: "2023.10.20260105", "": "", "dnf upgrade --releasever=latest": ""} {
		if got := NewestRelease(output); got != want {
			t.Errorf("the newest release is %q, want %q", got, want)
		}
	}
	for _, test := range []struct {
		system patch.System
		want   bool
	}{{patch.System{ID: "amzn", VersionID: "2023"}, true}, {patch.System{ID: "fedora", VersionID: "41"}, false}, {patch.System{ID: "rhel", VersionID: "9.4"}, false}} {
		if got := IsLockedToRelease(test.system); got != test.want {
			t.Errorf("%s is locked: %t", test.system, got)
		}
	}
}

func TestArguments(t *testing.T) {
	for name, test := range map[string]struct{ args, has, lacks []string }{
		"options":     {Options(""), []string{"-y", "--setopt=*.skip_if_unavailable=0"}, []string{"--releasever="}},
		"release":     {Options("2023.9.1"), []string{"--releasever=2023.9.1"}, nil},
		"cache":       {MakeCache(), []string{"--refresh", "makecache"}, nil},
		"upgrade":     {Upgrade(false), []string{"--assumeno", "upgrade"}, []string{"--security", "--allowerasing"}},
		"security":    {Upgrade(true), []string{"--assumeno", "--security"}, nil},
		"transaction": {Transaction([]string{"a-1-1.noarch"}), []string{"--assumeno", "--best", "a-1-1.noarch"}, []string{"--allowerasing"}},
		"install":     {Install([]string{"a-1-1.noarch"}), []string{"--best", "upgrade", "a-1-1.noarch"}, []string{"--assumeno", "--allowerasing", "--nogpgcheck", "--skip-broken"}},
		"list":        {ListPackages(), []string{"-qa"}, nil},
		"history":     {LastTransaction(), []string{"history", "info", "last"}, nil},
		"restart":     {NeedsRestarting(), []string{"needs-restarting", "-r"}, nil},
		"repos":       {RepoInfo(), []string{"repoinfo", "--enabled"}, nil},
		"releases":    {ReleaseUpdate(), []string{"check-release-update"}, nil},
		"cves":        {append(CVEs(), SecurityPackages()...), []string{"cves", "security"}, nil},
		"check":       {Check(), []string{"check", "--duplicates"}, nil},
		"environment": {Environment(), []string{"LC_ALL=C", "TZ=UTC"}, nil},
	} {
		for _, want := range test.has {
			if !slices.Contains(test.args, want) {
				t.Errorf("%s: %v lacks %q", name, test.args, want)
			}
		}
		for _, bad := range test.lacks {
			if slices.ContainsFunc(test.args, func(a string) bool { return strings.HasPrefix(a, bad) }) {
				t.Errorf("%s: %v has %q", name, test.args, bad)
			}
		}
	}
}
