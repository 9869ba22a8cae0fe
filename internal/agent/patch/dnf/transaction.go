package dnf

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/patch"
)

// Plan is what dnf would do.
type Plan struct {
	Install []patch.Change
	// Remove and Skipped are names. Replaced has obsoleted packages, and kernels beyond installonly_limit.
	Remove, Skipped, Replaced []string
	// Download in bytes.
	Download int64
}

// section of dnf's table. Source: dnf, dnf/cli/output.py, list_transaction.
type section int

const (
	noSection section = iota
	installSection
	removeSection
	skipSection
)

var sections = []struct {
	header string
	section
}{
	{"Installing", installSection}, {"Upgrading", installSection}, {"Reinstalling", installSection}, {"Downgrading", removeSection},
	{"Removing", removeSection}, {"Skipping packages", skipSection},
}

// ParsePlan reads dnf's table. dnf wraps long names into two lines. An entry ends with its size, the fifth word; sizes below
// 1000 have no unit.
func ParsePlan(output string) Plan {
	var p Plan
	var at section
	var words []string
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		if download, found := strings.CutPrefix(line, "Total download size: "); found {
			p.Download = bytes(download)
		}
		if line == "" || !strings.HasPrefix(line, " ") {
			at, words = header(line), nil
			continue
		}
		if at == noSection {
			continue
		}
		if obsoleted, found := strings.CutPrefix(line, "     replacing  "); found {
			name, _, _ := strings.Cut(obsoleted, " ")
			p.Replaced = append(p.Replaced, name[:max(strings.LastIndex(name, "."), 0)])
			continue
		}
		if words = append(words, strings.Fields(line)...); len(words) < 5 {
			continue
		}
		switch name := words[0]; at {
		case installSection:
			p.Install = append(p.Install, patch.Change{Name: name, To: words[2], Arch: words[1], Origin: words[3]})
		case removeSection:
			p.Remove = append(p.Remove, name)
		case skipSection:
			p.Skipped = append(p.Skipped, name)
		case noSection:
		}
		words = nil
	}
	// dnf keeps installonly_limit versions of a kernel, and removes the oldest for the newest.
	for _, name := range p.Remove {
		if slices.ContainsFunc(p.Install, func(c patch.Change) bool { return c.Name == name }) {
			p.Replaced = append(p.Replaced, name)
		}
	}
	slices.Sort(p.Replaced)
	p.Remove = slices.DeleteFunc(p.Remove, func(name string) bool { return slices.Contains(p.Replaced, name) })
	return p
}

// HasKernel reports whether dnf would install a kernel. Amazon Linux has the version in the name: kernel6.12.
func (p *Plan) HasKernel() bool {
	return slices.ContainsFunc(p.Install, func(c patch.Change) bool { return kernelPackage.MatchString(c.Name) })
}

var kernelPackage = regexp.MustCompile(`^kernel(?:-(?:core|uek-core|rt-core|64k-core))?[0-9.]*$`)

func header(line string) section {
	if !strings.HasSuffix(line, ":") {
		return noSection
	}
	for _, s := range sections {
		if strings.HasPrefix(line, s.header) {
			return s.section
		}
	}
	return noSection
}

// bytes parses dnf's sizes, such as "6.2 k" and "12 M". Source: dnf, dnf/cli/format.py, format_number.
func bytes(text string) int64 {
	number, unit, _ := strings.Cut(strings.TrimSpace(text), " ")
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0
	}
	switch strings.TrimSpace(unit) {
	case "k":
		value *= 1 << 10
	case "M":
		value *= 1 << 20
	case "G":
		value *= 1 << 30
	}
	return int64(value)
}

// Complete adds what the table does not say: the installed version, and the security flag with its CVEs.
func (p *Plan) Complete(installed []patch.Installed, advisories []Advisory) {
	for i := range p.Install {
		c := &p.Install[i]
		for _, was := range installed {
			if was.Name == c.Name && was.Arch == c.Arch {
				c.From = was.Version
			}
		}
		for _, a := range advisories {
			if a.Package == spec(*c) {
				c.Security = true
				if a.CVE != "" {
					c.CVEs = append(c.CVEs, a.CVE)
				}
			}
		}
		slices.Sort(c.CVEs)
		c.CVEs = slices.Compact(c.CVEs)
	}
}

// spec is the exact name of a new version for dnf: NAME-EPOCH:VERSION-RELEASE.ARCH, without the epoch zero.
func spec(c patch.Change) string { return c.Name + "-" + c.To + "." + c.Arch }

// Specs are the exact names of a plan's new versions.
func (p Plan) Specs() []string {
	specs := make([]string, 0, len(p.Install))
	for _, c := range p.Install {
		specs = append(specs, spec(c))
	}
	return specs
}

// Advisory is one line of updateinfo: an advisory or a CVE, and the package that has the fix.
type Advisory struct{ CVE, Package string }

// severity of a line of updateinfo: "Important/Sec." or "security".
var advisoryLine = regexp.MustCompile(`^(\S+)\s+(\S+/Sec\.|security)\s+(\S+)$`)

// Advisories parses the output of updateinfo list. Bug fixes and enhancements are no security advisories.
func Advisories(output string) (all []Advisory) {
	for line := range strings.Lines(output) {
		m := advisoryLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		a := Advisory{Package: m[3]}
		if strings.HasPrefix(m[1], "CVE-") {
			a.CVE = m[1]
		}
		all = append(all, a)
	}
	return all
}

// Choice is which pending patches an order allows.
type Choice struct {
	// Specs are the allowed versions. dnf adds dependencies.
	Specs []string
	Held  []patch.Held
}

// Choose applies the order to all pending upgrades. published has the date of each repository, by its ID.
func Choose(p Plan, o patch.Order, published map[string]time.Time, now time.Time) (Choice, error) {
	hold, err := patch.NewHold(o.Hold)
	if err != nil {
		return Choice{}, err
	}
	var c Choice
	for _, name := range p.Skipped {
		c.Held = append(c.Held, patch.Held{Name: name, Source: patch.KeptBack})
	}
	for _, change := range p.Install {
		date, known := published[change.Origin]
		switch {
		case hold.Matches(change.Name):
			c.Held = append(c.Held, patch.Held{Name: change.Name, To: change.To, Source: patch.HeldByOrder})
		case change.From == "":
			// dnf adds a new package as a dependency again, if it is still needed.
		case o.MinAge > 0 && (!known || now.Sub(date) < o.MinAge):
			c.Held = append(c.Held, patch.Held{Name: change.Name, To: change.To, Source: patch.HeldByAge})
		default:
			c.Specs = append(c.Specs, spec(change))
		}
	}
	return c, nil
}

// Refuse returns why a transaction must not run; nil if it may. The transaction contains dependencies that the choice did
// not name.
func Refuse(p Plan, o patch.Order) (*patch.Failure, error) {
	hold, err := patch.NewHold(o.Hold)
	if err != nil {
		return nil, err
	}
	var held []string
	for _, c := range p.Install {
		if hold.Matches(c.Name) {
			held = append(held, c.Name)
		}
	}
	for _, name := range p.Replaced {
		if hold.Matches(name) {
			held = append(held, name)
		}
	}
	switch {
	case len(held) > 0:
		return &patch.Failure{Reason: patch.HeldPackage, Message: fmt.Sprintf(
			"the patches need a change of the held packages %s; nothing was installed", strings.Join(held, ", "))}, nil
	case len(p.Remove) > 0:
		return &patch.Failure{Reason: patch.WouldRemove, Message: fmt.Sprintf(
			"the patches would remove %s; nothing was installed", strings.Join(p.Remove, ", "))}, nil
	}
	return nil, nil
}

// Changes compares the lists before and after a transaction. planned supplies origin, security flag and CVEs.
func Changes(before, after []patch.Installed, planned []patch.Change) (changes []patch.Change) {
	for _, p := range after {
		if slices.Contains(before, p) {
			continue
		}
		c := patch.Change{Name: p.Name, To: p.Version, Arch: p.Arch}
		for _, was := range before {
			if was.Name == p.Name && was.Arch == p.Arch {
				c.From = was.Version
			}
		}
		for _, plan := range planned {
			if plan.Name == c.Name && plan.To == c.To && plan.Arch == c.Arch {
				c.Origin, c.Security, c.CVEs = plan.Origin, plan.Security, plan.CVEs
			}
		}
		changes = append(changes, c)
	}
	return changes
}

// Missing returns the planned changes that are not installed.
func Missing(planned []patch.Change, after []patch.Installed) (missing []patch.Change) {
	for _, c := range planned {
		if !slices.Contains(after, patch.Installed{Name: c.Name, Version: c.To, Arch: c.Arch}) {
			missing = append(missing, c)
		}
	}
	return missing
}
