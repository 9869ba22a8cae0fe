package apt

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/patch"
)

// simulation is apt 2.6.2's output on Debian 12, shortened.
const simulation = `Reading package lists...
Building dependency tree...
Reading state information...
Calculating upgrade...
The following packages have been kept back:
  kubelet runc
The following upgrades have been deferred due to phasing:
  ubuntu-advantage-tools
The following NEW packages will be installed:
  linux-image-6.1.0-40-amd64
The following packages will be upgraded:
  base-files linux-image-amd64 openssl zlib1g:i386
4 upgraded, 1 newly installed, 0 to remove and 3 not upgraded.
Inst base-files [12.4+deb12u11] (12.4+deb12u12 Debian:12.12/oldstable [amd64])
Conf base-files (12.4+deb12u12 Debian:12.12/oldstable [amd64])
Inst openssl [3.0.16-1~deb12u1] (3.0.17-1~deb12u2 Debian:12.12/oldstable, Debian-Security:12/oldstable-security [amd64])
Inst linux-image-6.1.0-40-amd64 (6.1.153-1 Debian-Security:12/oldstable-security [amd64])
Inst linux-image-amd64 [6.1.148-1] (6.1.153-1 Debian-Security:12/oldstable-security [amd64]) []
Inst zlib1g:i386 [1:1.2.13-1] (1:1.2.13-2 Ubuntu:22.04/jammy-security [i386])
Conf openssl (3.0.17-1~deb12u2 Debian:12.12/oldstable, Debian-Security:12/oldstable-security [amd64])
`

func TestParseSimulation(t *testing.T) {
	const both, security = "Debian:12.12/oldstable, Debian-Security:12/oldstable-security", "Debian-Security:12/oldstable-security"
	want := Transaction{
		Install: []patch.Change{
			{Name: "base-files", From: "12.4+deb12u11", To: "12.4+deb12u12", Arch: "amd64", Origin: "Debian:12.12/oldstable"},
			{Name: "openssl", From: "3.0.16-1~deb12u1", To: "3.0.17-1~deb12u2", Arch: "amd64", Origin: both, Security: true},
			{Name: "linux-image-6.1.0-40-amd64", To: "6.1.153-1", Arch: "amd64", Origin: security, Security: true},
			{Name: "linux-image-amd64", From: "6.1.148-1", To: "6.1.153-1", Arch: "amd64", Origin: security, Security: true},
			{Name: "zlib1g:i386", From: "1:1.2.13-1", To: "1:1.2.13-2", Arch: "i386", Origin: "Ubuntu:22.04/jammy-security", Security: true},
		},
		KeptBack: []string{"kubelet", "runc", "ubuntu-advantage-tools"},
	}
	if diff := cmp.Diff(want, ParseSimulation(simulation)); diff != "" {
		t.Error(diff)
	}
}

func TestParseRemovals(t *testing.T) {
	got := ParseSimulation(`The following packages will be REMOVED:
  cri-tools* linux-image-6.1.0-30-amd64*
The following held packages will be changed:
  kubelet
Purg linux-image-6.1.0-30-amd64 [6.1.124-1]
Purg cri-tools [1.30.0-1.1] []
Remv cri-tools [1.30.0-1.1]
Inst kubelet [1.30.1] (1.31.0 pkgs.k8s.io:kubernetes-stable [amd64])
`)
	want := Transaction{
		Install: []patch.Change{{Name: "kubelet", From: "1.30.1", To: "1.31.0", Arch: "amd64", Origin: "pkgs.k8s.io:kubernetes-stable"}},
		Remove:  []string{"cri-tools", "linux-image-6.1.0-30-amd64"}, Held: []string{"kubelet"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := ParseSimulation("Reading package lists...\n0 upgraded.\n"); !cmp.Equal(got, Transaction{}) {
		t.Errorf("nothing to do: %+v", got)
	}
}

// A repository without a Release file has no label, and apt prints the version only.
func TestParseAFlatRepository(t *testing.T) {
	got := ParseSimulation("Inst kamino-node-tools [1.0] (2.0 kamino-test:stable [all])\nInst plain [1] (2 [all])\n")
	want := []patch.Change{
		{Name: "kamino-node-tools", From: "1.0", To: "2.0", Arch: "all", Origin: "kamino-test:stable"}, {Name: "plain", From: "1", To: "2", Arch: "all"},
	}
	if diff := cmp.Diff(want, got.Install); diff != "" {
		t.Error(diff)
	}
}

func TestSecurity(t *testing.T) {
	for origins, want := range map[string]bool{
		"Debian-Security:12/oldstable-security": true, "Debian:12.12/oldstable, Debian-Security:12/oldstable-security": true,
		"Debian-Security:stable": true, "Ubuntu:22.04/jammy-security": true, "UbuntuESM:22.04/jammy-infra-security": true,
		"internal mirror:22.04/jammy-security": true,
		"Ubuntu:22.04/jammy-updates":           false, "Debian:12.12/oldstable": false, "security:stable": false, "": false,
	} {
		if security(origins) != want {
			t.Errorf("%q is a security suite: %t, want %t", origins, !want, want)
		}
	}
}

// No argument of a step may change more than the step says.
func TestArguments(t *testing.T) {
	versions := []string{"openssl=3.0.17"}
	for name, test := range map[string]struct {
		args       []string
		has, lacks []string
	}{
		"update":       {UpdateArgs(), []string{"APT::Update::Error-Mode=any", "DPkg::Lock::Timeout=300", "update"}, []string{"-s", "-t"}},
		"upgrade":      {UpgradeArgs(false), []string{"-s", "upgrade", "--with-new-pkgs"}, []string{"-t", "dist-upgrade"}},
		"security":     {UpgradeArgs(true), []string{"-s", "-t", "/-security$/", "upgrade"}, nil},
		"transaction":  {TransactionArgs(true, versions), []string{"-s", "install", "--only-upgrade", "openssl=3.0.17"}, []string{"--no-remove"}},
		"install":      {InstallArgs(versions), []string{"-y", "--no-remove", "--only-upgrade", "Dpkg::Options::=--force-confdef", "Dpkg::Options::=--force-confold", "openssl=3.0.17"}, []string{"-s", "--allow-change-held-packages", "--allow-downgrades", "-f"}},
		"repair":       {RepairArgs(), []string{"--configure", "-a", "--force-confold"}, nil},
		"autoremove":   {AutoremoveArgs(), []string{"-s", "autoremove"}, nil},
		"purge":        {PurgeArgs([]string{"a"}), []string{"-y", "purge", "a"}, []string{"-s", "--autoremove"}},
		"try to purge": {PurgeSimulation([]string{"a"}), []string{"-s", "purge", "a"}, nil},
		"show":         {ShowArgs(versions), []string{"show", "--no-all-versions", "openssl=3.0.17"}, nil},
		"targets":      {TargetsArgs(), []string{"indextargets", "--no-release-info"}, nil},
		"audit":        {AuditArgs(), []string{"--audit"}, []string{"--configure"}},
	} {
		for _, want := range test.has {
			if !slices.Contains(test.args, want) {
				t.Errorf("%s: %v lacks %q", name, test.args, want)
			}
		}
		for _, bad := range test.lacks {
			if slices.Contains(test.args, bad) {
				t.Errorf("%s: %v has %q", name, test.args, bad)
			}
		}
	}
	for _, want := range []string{"LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_MODE=l", "NEEDRESTART_SUSPEND=1"} {
		if !slices.Contains(Environment(), want) {
			t.Errorf("the environment %s lacks %s", strings.Join(Environment(), " "), want)
		}
	}
}
