package apt

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/patch"
)

func installed(name, version string) Package {
	return Package{Installed: patch.Installed{Name: name, Version: version, Arch: "amd64"}}
}

const (
	stable   = "Debian:12.12/oldstable"
	securely = "Debian-Security:12/oldstable-security"
)

var (
	openssl = patch.Change{Name: "openssl", From: "1", To: "2", Arch: "amd64", Origin: securely, Security: true}
	bash    = patch.Change{Name: "bash", From: "1", To: "2", Arch: "amd64", Origin: stable}
	kubelet = patch.Change{Name: "kubelet", From: "1", To: "2", Arch: "amd64", Origin: stable}
	kernel  = patch.Change{Name: "linux-image-6.1.0-40-amd64", To: "2", Arch: "amd64", Origin: securely, Security: true}
	now     = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
)

func TestChoose(t *testing.T) {
	onHold := installed("runc", "1")
	onHold.Hold = true
	pending := Transaction{Install: []patch.Change{openssl, bash, kubelet, kernel}, KeptBack: []string{"runc", "cri-tools", "phased"}}
	kept := []patch.Held{
		{Name: "runc", Source: patch.HeldByNode}, {Name: "cri-tools", Source: patch.HeldByOrder}, {Name: "phased", Source: patch.KeptBack},
	}
	byOrder := patch.Held{Name: "kubelet", To: "2", Source: patch.HeldByOrder}
	releases := []Release{
		{Label: "Debian", Suite: "oldstable", Version: "12.12", Date: now.Add(-100 * time.Hour)},
		{Label: "Debian-Security", Suite: "oldstable-security", Version: "12", Date: now.Add(-time.Hour)},
	}
	for name, test := range map[string]struct {
		order    patch.Order
		releases []Release
		want     Choice
	}{
		"all": {
			order: patch.Order{Patches: patch.All, Hold: patch.DefaultHold()},
			want:  Choice{Versions: []string{"openssl=2", "bash=2"}, Held: append(slices.Clone(kept), byOrder)},
		},
		"security": {
			order: patch.Order{Patches: patch.Security, Hold: patch.DefaultHold()},
			want:  Choice{Versions: []string{"openssl=2"}, Held: kept},
		},
		"no hold": {
			order: patch.Order{Patches: patch.All},
			want: Choice{Versions: []string{"openssl=2", "bash=2", "kubelet=2"}, Held: []patch.Held{
				kept[0], {Name: "cri-tools", Source: patch.KeptBack}, kept[2],
			}},
		},
		"old enough": {
			order: patch.Order{Patches: patch.All, Hold: patch.DefaultHold(), MinAge: 72 * time.Hour}, releases: releases,
			want: Choice{Versions: []string{"bash=2"}, Held: append(slices.Clone(kept), patch.Held{Name: "openssl", To: "2", Source: patch.HeldByAge}, byOrder)},
		},
		"no date": {
			order: patch.Order{Patches: patch.Security, Hold: patch.DefaultHold(), MinAge: time.Minute},
			want:  Choice{Held: append(slices.Clone(kept), patch.Held{Name: "openssl", To: "2", Source: patch.HeldByAge})},
		},
	} {
		got, err := Choose(pending, test.order, []Package{onHold, installed("openssl", "1")}, test.releases, now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if _, err := Choose(pending, patch.Order{Hold: []string{"kubelet"}}, nil, nil, now); err == nil {
		t.Error("an open pattern is accepted")
	}
}

// A version in two repositories is as old as the older one says.
func TestAgeOfAVersionInTwoRepositories(t *testing.T) {
	releases := []Release{{Label: "A", Suite: "s", Date: now.Add(-48 * time.Hour)}, {Label: "B", Suite: "s", Date: now.Add(-time.Hour)}}
	for origins, want := range map[string]time.Duration{"A:s": 48 * time.Hour, "B:s": time.Hour, "A:s, B:s": 48 * time.Hour, "C:s": 0} {
		if got := age(origins, releases, now); got != want {
			t.Errorf("%s has the age %v, want %v", origins, got, want)
		}
	}
}

func TestRefuse(t *testing.T) {
	onHold := installed("libfoo", "1")
	onHold.Hold = true
	for name, test := range map[string]struct {
		transaction Transaction
		reason      patch.Reason
		says        string
	}{
		"fine":    {transaction: Transaction{Install: []patch.Change{openssl, kernel}}},
		"nothing": {},
		// A dependency of an allowed patch.
		"held by the order": {
			Transaction{Install: []patch.Change{openssl, {Name: "containerd.io", From: "1", To: "2"}}}, patch.HeldPackage,
			"the patches need a change of the held packages containerd.io; nothing was installed",
		},
		"held by the node": {
			Transaction{Install: []patch.Change{openssl, {Name: "libfoo:i386", From: "1", To: "2"}}}, patch.HeldPackage, "held packages libfoo:i386;",
		},
		"held as apt says": {Transaction{Install: []patch.Change{openssl}, Held: []string{"kubelet"}}, patch.HeldPackage, "held packages kubelet;"},
		"removal": {
			Transaction{Install: []patch.Change{openssl}, Remove: []string{"libold", "tool"}}, patch.WouldRemove,
			"the patches would remove libold, tool; nothing was installed",
		},
	} {
		got, err := Refuse(test.transaction, patch.Order{Hold: patch.DefaultHold()}, []Package{onHold})
		if err != nil {
			t.Fatal(err)
		}
		if test.reason == "" && got == nil {
			continue
		}
		if got == nil || got.Reason != test.reason || !strings.Contains(got.Message, test.says) {
			t.Errorf("%s: %+v, want %s: %q", name, got, test.reason, test.says)
		}
	}
	if _, err := Refuse(Transaction{}, patch.Order{Hold: []string{"x"}}, nil); err == nil {
		t.Error("an open pattern is accepted")
	}
}

func TestSpaceFor(t *testing.T) {
	was := installed("openssl", "1")
	was.KiB = 2000
	sizes := []Size{{Name: "openssl", Version: "2", Download: 1000, Installed: 2300}, {Name: "linux-image-6.1.0-40-amd64", Download: 5000, Installed: 400_000}}
	got := SpaceFor(Transaction{Install: []patch.Change{openssl, kernel}}, sizes, []Package{was}, 30<<20, 7<<20)
	want := Need{Archives: 6000, Download: 6000, Root: (300+400_000+400_000)<<10 + 7<<20, Boot: 60 << 20}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	// A smaller version does not pay for others.
	shrunk := SpaceFor(Transaction{Install: []patch.Change{openssl}}, []Size{{Name: "openssl", Installed: 100}}, []Package{was}, 30<<20, 7<<20)
	if want := (Need{Root: 100 << 10}); shrunk != want {
		t.Errorf("%+v, want %+v", shrunk, want)
	}
}

func TestVersions(t *testing.T) {
	got := Transaction{Install: []patch.Change{openssl, kernel, {Name: "zlib1g:i386", To: "3"}}}.Versions()
	if want := []string{"openssl=2", "linux-image-6.1.0-40-amd64=2", "zlib1g:i386=3"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestObsoleteKernels(t *testing.T) {
	unneeded := Transaction{Remove: []string{
		"libold", "linux-headers-6.1.0-30-common", "linux-image-6.1.0-30-amd64", "linux-image-6.1.0-32-amd64", "linux-image-amd64", "linux-modules-5.15.0-100-generic",
		"linux-base", "linux-azure-cloud-tools-5.15.0-1050", "linux-tools-common",
	}}
	want := []string{
		"linux-headers-6.1.0-30-common", "linux-image-6.1.0-30-amd64", "linux-modules-5.15.0-100-generic", "linux-azure-cloud-tools-5.15.0-1050",
	}
	if got := ObsoleteKernels(unneeded, "6.1.0-32-amd64"); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
