package apt

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/dpkgdb"
	"github.com/kamino-dev/kamino/internal/patch"
)

// Package is one entry of dpkg's list of packages.
type Package struct {
	patch.Installed
	// Hold: the node's administrator holds the package (apt-mark hold).
	Hold bool
	// KiB is Installed-Size.
	KiB int64
	// Source package; empty if the source has the package's name.
	Source string
}

// Packages reads dpkg's status file. The result has the packages with files on the disk: State is empty for a completely
// installed package.
func Packages(status io.Reader) ([]Package, error) {
	var all []Package
	var bad error
	err := dpkgdb.Each(status, func(f map[string]string) {
		words := strings.Fields(f["status"])
		if len(words) != 3 {
			bad = fmt.Errorf("package %q has the status %q: want three words", f["package"], f["status"])
			return
		}
		state := words[2]
		// Only settings are left of a package in config-files.
		if slices.Contains([]string{"not-installed", "config-files"}, state) {
			return
		}
		if state == "installed" {
			state = ""
		}
		p := Package{
			Installed: patch.Installed{Name: f["package"], Version: f["version"], Arch: f["architecture"], State: state},
			Hold:      words[0] == "hold",
		}
		if words[1] == "reinstreq" {
			p.State = strings.TrimSpace(state + " reinstreq")
		}
		p.KiB, _ = strconv.ParseInt(f["installed-size"], 10, 64) // absent for some virtual packages
		p.Source, _, _ = strings.Cut(f["source"], " ")
		all = append(all, p)
	})
	if err == nil {
		err = bad
	}
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("the list of packages /%s is empty", Status)
	}
	return all, err
}

// Level is the patch level of a list of packages. The level of a disk that is not running is the same.
func Level(all []Package) string {
	list := make([]patch.Installed, 0, len(all))
	for _, p := range all {
		list = append(list, p.Installed)
	}
	return patch.Level(list)
}

// Incomplete returns the names of packages that are not completely installed.
func Incomplete(all []Package) (names []string) {
	for _, p := range all {
		if p.State != "" {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// maxAudit limits a finding of dpkg --audit in a sentence, in bytes.
const maxAudit = 200

// AuditSummary describes a broken dpkg in a few words: the incomplete packages, or else the first finding of dpkg --audit.
func AuditSummary(incomplete []string, audit string) string {
	if len(incomplete) > 0 {
		return "incomplete packages: " + strings.Join(incomplete, ", ")
	}
	finding, _, _ := strings.Cut(strings.TrimSpace(audit), "\n\n")
	if finding = strings.Join(strings.Fields(finding), " "); finding == "" {
		return ""
	}
	if len(finding) > maxAudit {
		finding = strings.ToValidUTF8(finding[:maxAudit], "") + "…"
	}
	return "dpkg --audit: " + finding
}

// Changes compares the lists before and after a transaction. planned supplies origin and security flag.
func Changes(before, after []Package, planned []patch.Change) []patch.Change {
	type key struct{ name, arch string }
	was, plan := map[key]string{}, map[string]patch.Change{}
	for _, p := range before {
		was[key{p.Name, p.Arch}] = p.Version
	}
	for _, c := range planned {
		plan[plain(c.Name)+" "+c.To] = c
	}
	var changes []patch.Change
	for _, p := range after {
		from, existed := was[key{p.Name, p.Arch}]
		if existed && from == p.Version {
			continue
		}
		c := plan[p.Name+" "+p.Version]
		changes = append(changes, patch.Change{
			Name: p.Name, From: from, To: p.Version, Arch: p.Arch, Origin: c.Origin, Security: c.Security,
		})
	}
	return changes
}

// Missing returns the planned changes that are not completely installed.
func Missing(planned []patch.Change, after []Package) (missing []patch.Change) {
	for _, c := range planned {
		done := slices.ContainsFunc(after, func(p Package) bool {
			return p.Name == plain(c.Name) && p.Version == c.To && p.State == ""
		})
		if !done {
			missing = append(missing, c)
		}
	}
	return missing
}

// plain is a package's name without the architecture that apt appends for foreign packages.
func plain(name string) string {
	name, _, _ = strings.Cut(name, ":")
	return name
}

// Size is what a version needs, by apt-cache show.
type Size struct {
	Name, Version string
	// Download in bytes, and Installed in KiB.
	Download, Installed int64
}

// Sizes parses the output of apt-cache show.
func Sizes(show []byte) ([]Size, error) {
	var all []Size
	err := dpkgdb.Each(bytes.NewReader(show), func(f map[string]string) {
		s := Size{Name: f["package"], Version: f["version"]}
		s.Download, _ = strconv.ParseInt(f["size"], 10, 64)
		s.Installed, _ = strconv.ParseInt(f["installed-size"], 10, 64)
		all = append(all, s)
	})
	return all, err
}
