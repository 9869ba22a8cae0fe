package contents

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Diff is the difference between two versions of a pool.
type Diff struct {
	Pool string  `json:"pool"`
	From Version `json:"from"`
	To   Version `json:"to"`
	// Packages are the changed, added and removed packages, by name.
	Packages []PackageChange `json:"packages"`
	// Fixed are the CVEs that only the changelogs of To name, by source package and number.
	Fixed []CVEFix `json:"fixed"`
	// ImagesAdded and ImagesGone are container images of one version only.
	ImagesAdded []Image `json:"imagesAdded"`
	ImagesGone  []Image `json:"imagesGone"`
	// Unknown are the directories with another number of files of unknown origin.
	Unknown []DirectoryChange `json:"unknown"`
	// Notes name what the difference does not cover.
	Notes []string `json:"notes,omitempty"`
}

// PackageChange is a package with different versions in the two lists. Several installed versions are separated by
// commas.
type PackageChange struct {
	Change Change `json:"change"`
	Name   string `json:"name"`
	Arch   string `json:"arch,omitempty"`
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
}

// Change is the kind of a change.
type Change string

// The kinds of changes.
const (
	Added   Change = "added"
	Removed Change = "removed"
	Changed Change = "changed"
)

// CVEFix is a CVE in the changelog of a source package.
type CVEFix struct {
	CVE    string `json:"cve"`
	Source string `json:"source"`
}

// DirectoryChange is a directory with another number of files of unknown origin.
type DirectoryChange struct {
	Dir  string `json:"dir"`
	From int    `json:"from"`
	To   int    `json:"to"`
}

// Known reports whether the contents of both versions are known.
func (d Diff) Known() bool { return d.From.Contents != nil && d.To.Contents != nil }

// Compare returns the difference between two versions. Without the contents of a version, only the facts of the kubelets
// are compared.
func Compare(pool string, from, to Version) Diff {
	d := Diff{Pool: pool, From: from, To: to, Packages: []PackageChange{}, Fixed: []CVEFix{}, ImagesAdded: []Image{}, ImagesGone: []Image{},
		Unknown: []DirectoryChange{}}
	for _, v := range []Version{from, to} {
		if v.Contents == nil {
			d.Notes = append(d.Notes, fmt.Sprintf("version %s: packages, images and files are unknown: %s", v.Version, v.Missing))
			continue
		}
		for _, note := range v.Contents.Notes {
			d.Notes = append(d.Notes, fmt.Sprintf("version %s: %s", v.Version, note))
		}
	}
	if !d.Known() {
		return d
	}
	a, b := from.Contents, to.Contents
	d.Packages = packages(a, b)
	d.fixes(a, b)
	d.ImagesAdded, d.ImagesGone = missing(b.Images, a.Images), missing(a.Images, b.Images)
	d.Unknown = directories(a.Unknown, b.Unknown)
	return d
}

// packageKey separates packages that can be installed side by side.
type packageKey struct {
	name, arch string
	kind       Kind
}

func versions(c *Contents) map[packageKey]string {
	all := map[packageKey][]string{}
	for _, p := range c.Packages { // sorted by version
		key := packageKey{p.Name, p.Arch, p.Kind}
		all[key] = append(all[key], p.Version)
	}
	joined := make(map[packageKey]string, len(all))
	for key, versions := range all {
		joined[key] = strings.Join(versions, ", ")
	}
	return joined
}

func packages(a, b *Contents) []PackageChange {
	from, to := versions(a), versions(b)
	changes := []PackageChange{}
	for key, was := range from {
		switch is, found := to[key]; {
		case !found:
			changes = append(changes, PackageChange{Removed, key.name, key.arch, was, ""})
		case is != was:
			changes = append(changes, PackageChange{Changed, key.name, key.arch, was, is})
		}
	}
	for key, is := range to {
		if _, found := from[key]; !found {
			changes = append(changes, PackageChange{Added, key.name, key.arch, "", is})
		}
	}
	slices.SortFunc(changes, func(a, b PackageChange) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Arch, b.Arch), cmp.Compare(a.From+a.To, b.From+b.To))
	})
	return changes
}

// fixes finds the CVEs in the changelogs of sources that both versions have. A new package fixes nothing.
func (d *Diff) fixes(a, b *Contents) {
	unread := 0
	for _, source := range changedSources(a, b) {
		was, before := a.Fixes[source]
		is, after := b.Fixes[source]
		if !before || !after {
			unread++
			continue
		}
		fixed := missing(is, was)
		slices.Sort(fixed)
		for _, cve := range fixed {
			d.Fixed = append(d.Fixed, CVEFix{cve, source})
		}
		if len(fixed) > 0 && len(fixed) == b.FixesPerSource {
			d.Notes = append(d.Notes, fmt.Sprintf("CVEs of %s: only the newest %d are known", source, len(fixed)))
		}
	}
	if unread > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("CVEs of %d changed source packages are unknown: the disks have no changelog of these packages", unread))
	}
}

// changedSources are the sources of both lists whose packages differ, sorted.
func changedSources(a, b *Contents) []string {
	from, to := sources(a), sources(b)
	var changed []string
	for _, source := range slices.Sorted(maps.Keys(to)) {
		if was, found := from[source]; found && was != to[source] {
			changed = append(changed, source)
		}
	}
	return changed
}

// sources has the versions of each source package as one text.
func sources(c *Contents) map[string]string {
	all := map[string][]string{}
	for _, p := range c.Packages {
		all[p.SourceName()] = append(all[p.SourceName()], cmp.Or(p.SourceVersion, p.Version))
	}
	joined := map[string]string{}
	for source, versions := range all {
		slices.Sort(versions)
		joined[source] = strings.Join(slices.Compact(versions), ", ")
	}
	return joined
}

// missing returns the elements of all that are not in others. The lists come from donors, and may be long.
func missing[T comparable](all, others []T) []T {
	known := make(map[T]bool, len(others))
	for _, one := range others {
		known[one] = true
	}
	found := []T{}
	for _, one := range all {
		if !known[one] {
			found = append(found, one)
		}
	}
	return found
}

func directories(a, b []Directory) []DirectoryChange {
	from, to := files(a), files(b)
	changes := []DirectoryChange{}
	for dir, was := range from {
		if to[dir] != was {
			changes = append(changes, DirectoryChange{dir, was, to[dir]})
		}
	}
	for dir, is := range to {
		if _, found := from[dir]; !found {
			changes = append(changes, DirectoryChange{dir, 0, is})
		}
	}
	slices.SortFunc(changes, func(a, b DirectoryChange) int { return cmp.Compare(a.Dir, b.Dir) })
	return changes
}

func files(all []Directory) map[string]int {
	count := map[string]int{}
	for _, d := range all {
		count[d.Dir] += d.Files
	}
	return count
}

// Count returns the number of packages with the kind of change.
func (d Diff) Count(change Change) int {
	n := 0
	for _, p := range d.Packages {
		if p.Change == change {
			n++
		}
	}
	return n
}

// maxWord is the longest version in a line for people, in characters.
const maxWord = 60

// Line is the difference in one line for events and prompts; empty if nothing is known. The line has no names of
// packages, which the donor's disk chooses.
func (d Diff) Line() string {
	var parts []string
	fact := func(name, from, to string) {
		if from != "" && to != "" && from != to {
			parts = append(parts, fmt.Sprintf("%s %.*s -> %.*s", name, maxWord, from, maxWord, to))
		}
	}
	fact("kernel", d.From.Kernel, d.To.Kernel)
	fact("kubelet", d.From.Kubelet, d.To.Kubelet)
	fact("runtime", d.From.Runtime, d.To.Runtime)
	if d.Known() {
		parts = append(parts, fmt.Sprintf("packages: %d changed, %d added, %d removed", d.Count(Changed), d.Count(Added), d.Count(Removed)))
		if len(d.Fixed) > 0 {
			parts = append(parts, fmt.Sprintf("CVEs fixed: %d", len(d.Fixed)))
		}
		if n, m := len(d.ImagesAdded), len(d.ImagesGone); n+m > 0 {
			parts = append(parts, fmt.Sprintf("container images: %d added, %d gone", n, m))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("compared with version %s: %s", d.From.Version, strings.Join(parts, "; "))
}
