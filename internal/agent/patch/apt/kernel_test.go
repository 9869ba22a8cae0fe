package apt

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/patch"
)

func TestReboot(t *testing.T) {
	kernels := []string{"System.map-6.1.0-9-amd64", "vmlinuz-6.1.0-9-amd64", "vmlinuz-6.1.0-40-amd64", "initrd.img-6.1.0-40-amd64"}
	for name, test := range map[string]struct {
		facts RebootFacts
		want  patch.RebootNeed
	}{
		"nothing": {RebootFacts{Kernels: kernels, Running: "6.1.0-40-amd64"}, patch.RebootNeed{Need: patch.NotNeeded}},
		"file": {
			RebootFacts{Required: true, Packages: []string{"linux-base", "libc6", "linux-base"}},
			patch.RebootNeed{Need: patch.Needed, Witnesses: []patch.Witness{patch.RebootRequiredFile}, Packages: []string{"libc6", "linux-base"}},
		},
		"kernel": {
			RebootFacts{Kernels: kernels, Running: "6.1.0-9-amd64"},
			patch.RebootNeed{Need: patch.Needed, Witnesses: []patch.Witness{patch.NewerKernel}, Packages: []string{"linux-image-6.1.0-40-amd64"}},
		},
		"kernel of another machine": {RebootFacts{Kernels: kernels, Running: "6.18.0-host"}, patch.RebootNeed{Need: patch.NotNeeded}},
		"no kernel":                 {RebootFacts{Running: "6.18.0-host"}, patch.RebootNeed{Need: patch.NotNeeded}},
		"core package": {
			RebootFacts{Installed: []patch.Change{openssl, {Name: "libc6", From: "1", To: "2"}, {Name: "systemd", To: "2"}}},
			patch.RebootNeed{Need: patch.Needed, Witnesses: []patch.Witness{patch.CorePackage}, Packages: []string{"libc6"}},
		},
		"all": {
			RebootFacts{Required: true, Kernels: kernels, Running: "6.1.0-9-amd64", Installed: []patch.Change{{Name: "libc6:i386", From: "1", To: "2"}}},
			patch.RebootNeed{
				Need: patch.Needed, Witnesses: []patch.Witness{patch.RebootRequiredFile, patch.NewerKernel, patch.CorePackage},
				Packages: []string{"libc6", "linux-image-6.1.0-40-amd64"},
			},
		},
	} {
		if diff := cmp.Diff(test.want, Reboot(test.facts)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

const changelog = `openssl (3.0.17-1~deb12u2) bookworm-security; urgency=medium

  * CVE-2025-9230 and CVE-2025-9232.
  * CVE-2025-9230 again.

 -- A <a@example.com>  Mon, 29 Sep 2025 19:44:15 +0200

openssl (3.0.17-1~deb12u1) bookworm; urgency=medium

  * New upstream. (CVE-2024-12345)

openssl (3.0.16-1~deb12u1) bookworm; urgency=medium

  * CVE-2024-00001
`

func TestCVEs(t *testing.T) {
	for from, want := range map[string][]string{
		"3.0.16-1~deb12u1": {"CVE-2024-12345", "CVE-2025-9230", "CVE-2025-9232"},
		"3.0.17-1~deb12u1": {"CVE-2025-9230", "CVE-2025-9232"},
		"3.0.17-1~deb12u2": nil, "3.0.9": nil, "": nil,
	} {
		if got := CVEs(strings.NewReader(changelog), from); !slices.Equal(got, want) {
			t.Errorf("from %q: %v, want %v", from, got, want)
		}
	}
	if files := ChangelogFiles("zlib1g:i386"); files[0] != "usr/share/doc/zlib1g/changelog.Debian.gz" {
		t.Errorf("%v", files)
	}
}

func TestInterrupted(t *testing.T) {
	for _, test := range []struct {
		names []string
		want  bool
	}{{nil, false}, {[]string{"tmp.i"}, false}, {[]string{"0000"}, true}, {[]string{"tmp.i", "0001", "0000"}, true}, {[]string{"0001.bak"}, false}} {
		if got := Interrupted(test.names); got != test.want {
			t.Errorf("%v: %t", test.names, got)
		}
	}
}
