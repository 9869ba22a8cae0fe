package apt

import (
	"bufio"
	"io"
	"regexp"
	"slices"
	"strings"
)

// A changelog's entry begins with PACKAGE (VERSION) SUITE; urgency=URGENCY. Source: deb-changelog(5).
var changelogEntry = regexp.MustCompile(`^\S+ \(([^)]+)\) `)

var cve = regexp.MustCompile(`\bCVE-\d{4}-\d{4,}\b`)

// CVEs returns the CVE numbers of the changelog's entries above the old version, sorted. Without an old version, or if the
// changelog does not contain it, nothing is known and the result is empty.
func CVEs(changelog io.Reader, from string) []string {
	if from == "" {
		return nil
	}
	var numbers []string
	lines := bufio.NewScanner(changelog)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := changelogEntry.FindStringSubmatch(lines.Text()); m != nil && m[1] == from {
			slices.Sort(numbers)
			return slices.Compact(numbers)
		}
		numbers = append(numbers, cve.FindAllString(lines.Text(), -1)...)
	}
	return nil
}

// ChangelogFiles are the possible paths of a package's changelog on the disk, gzipped.
func ChangelogFiles(name string) []string {
	dir := "usr/share/doc/" + plain(name) + "/"
	return []string{dir + "changelog.Debian.gz", dir + "changelog.gz"}
}

// Interrupted reports whether names of files in /var/lib/dpkg/updates are left by an interrupted dpkg: their names are
// numbers.
func Interrupted(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return name != "" && strings.Trim(name, "0123456789") == ""
	})
}
