package inventory

import (
	"bufio"
	"compress/gzip"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Limits of changelogs.
const (
	// maxCVEs is the number of newest CVEs of a source package. The kernel's changelog names thousands.
	maxCVEs = 200
	// maxChangelog is how much of a changelog is read, in bytes, and maxChangelogs of all changelogs of a disk.
	maxChangelog  = 1 << 20
	maxChangelogs = 256 << 20
)

var cveNumber = regexp.MustCompile(`\bCVE-[0-9]{4}-[0-9]{4,7}\b`)

// cves are the CVEs of a changelog, newest first.
type cves struct {
	seen map[string]bool
	list []string
}

// add adds the CVEs of a line or an entry.
func (c *cves) add(text []byte) {
	if c.seen == nil {
		c.seen, c.list = map[string]bool{}, []string{}
	}
	for _, found := range cveNumber.FindAll(text, -1) {
		if cve := string(found); !c.seen[cve] && len(c.list) < maxCVEs {
			c.seen[cve] = true
			c.list = append(c.list, cve)
		}
	}
}

// changelogs reads the changelog of each source of dpkg, from the first of its packages that has one. Source: Debian
// Policy, 12.7. A native package has no changelog.Debian.gz.
func (r *reader) changelogs(packages map[string][]string) {
	left := int64(maxChangelogs)
	for _, source := range slices.Sorted(maps.Keys(packages)) {
		for _, name := range packages[source] {
			if strings.Contains(name, "/") || left <= 0 {
				continue
			}
			found, read, isThere := r.changelog("usr/share/doc/" + name)
			if left -= read; isThere {
				r.fixes(source, found)
				break
			}
		}
	}
	if left <= 0 {
		r.note("CVEs in changelogs: the changelogs have more than %d MiB", maxChangelogs>>20)
	}
}

// changelog reads the newest part of the changelog in a directory.
func (r *reader) changelog(dir string) (found []string, read int64, isThere bool) {
	for _, name := range []string{"changelog.Debian.gz", "changelog.gz"} {
		f, err := r.file(dir + "/" + name)
		if err != nil {
			continue
		}
		z, err := gzip.NewReader(bufio.NewReader(f))
		if err != nil {
			f.Close()
			continue
		}
		text, err := io.ReadAll(io.LimitReader(z, maxChangelog))
		f.Close()
		read += int64(len(text))
		if err != nil {
			continue
		}
		all := cves{}
		all.add(text)
		return all.list, read, true
	}
	return nil, read, false
}
