package dnf

import (
	"regexp"
	"strings"

	"github.com/kamino-dev/kamino/internal/patch"
)

// Programs of the host.
const (
	DNF = "/usr/bin/dnf"
	RPM = "/usr/bin/rpm"
)

// LockSeconds is how long a step waits for another process with dnf's lock.
const LockSeconds = 300

// Environment of every step. Dates are printed in the C locale and in UTC.
func Environment() []string {
	return []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
}

// Options are the options of every dnf of one order. release is the release to use; empty for the system's own.
//
// An unread repository is an error, even with skip_if_unavailable. Another dnf is an error, and the caller waits.
func Options(release string) []string {
	options := []string{"-y", "--color=never", "--setopt=*.skip_if_unavailable=0", "--setopt=exit_on_lock=1"}
	if release != "" {
		options = append(options, "--releasever="+release)
	}
	return options
}

// The verbs after Options.

// MakeCache reads every enabled repository.
func MakeCache() []string { return []string{"--refresh", "makecache"} }

// RepoInfo prints the enabled repositories, from the cache.
func RepoInfo() []string { return []string{"-C", "repoinfo", "--enabled"} }

// ReleaseUpdate prints newer releases of Amazon Linux 2023. Nothing is ever pending within a release.
func ReleaseUpdate() []string { return []string{"check-release-update"} }

// Upgrade simulates the upgrade of all packages. A package that cannot be upgraded is skipped.
func Upgrade(securityOnly bool) []string {
	args := []string{"--assumeno", "--nobest", "upgrade"}
	if securityOnly {
		args = append(args, "--security")
	}
	return args
}

// Transaction simulates the upgrade to exactly these versions, each as NAME-EPOCH:VERSION-RELEASE.ARCH.
func Transaction(specs []string) []string {
	return append([]string{"--assumeno", "--best", "upgrade"}, specs...)
}

// Install upgrades to exactly these versions.
func Install(specs []string) []string { return append([]string{"--best", "upgrade"}, specs...) }

// CVEs prints the CVEs of pending security updates.
func CVEs() []string { return []string{"-C", "-q", "updateinfo", "list", "cves", "--updates"} }

// SecurityPackages prints the security advisories of pending updates.
func SecurityPackages() []string {
	return []string{"-C", "-q", "updateinfo", "list", "security", "--updates"}
}

// LastTransaction prints the last transaction of dnf's history.
func LastTransaction() []string { return []string{"-C", "history", "info", "last"} }

// Check finds duplicates of packages, which an interrupted transaction leaves, and unmet dependencies.
func Check() []string { return []string{"-C", "-q", "check", "--duplicates", "--dependencies"} }

// NeedsRestarting prints whether core packages are newer than the boot.
func NeedsRestarting() []string { return []string{"-C", "-q", "needs-restarting", "-r"} }

// listFormat of rpm -qa. EPOCHNUM is 0 for packages without an epoch. Source: rpm-queryformat(7).
const listFormat = `%{NAME}|%{EPOCHNUM}:%{VERSION}-%{RELEASE}|%{ARCH}\n`

// ListPackages are rpm's arguments that print all packages.
func ListPackages() []string { return []string{"-qa", "--qf", listFormat} }

// Packages parses the output of ListPackages. Keys of gpg-pubkey are no packages.
func Packages(output string) (all []patch.Installed) {
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 3 || fields[0] == "gpg-pubkey" {
			continue
		}
		all = append(all, patch.Installed{Name: fields[0], Version: strings.TrimPrefix(fields[1], "0:"), Arch: fields[2]})
	}
	return all
}

// releaseVersion is a release in the output of check-release-update, for example "dnf upgrade --releasever=2023.6.20241010".
var releaseVersion = regexp.MustCompile(`--releasever=([0-9][0-9.]*[0-9])`)

// NewestRelease returns the newest release in the output of ReleaseUpdate; empty if the system's own is the newest.
func NewestRelease(output string) (newest string) {
	for _, m := range releaseVersion.FindAllStringSubmatch(output, -1) {
		if newest == "" || patch.CompareVersions(m[1], newest) > 0 {
			newest = m[1]
		}
	}
	return newest
}

// IsLockedToRelease reports whether a system shows no patches without another release. Source: Amazon Linux 2023 User
// Guide, "Deterministic upgrades through versioned repositories".
func IsLockedToRelease(s patch.System) bool {
	return s.ID == "amzn" && strings.HasPrefix(s.VersionID, "2023")
}
