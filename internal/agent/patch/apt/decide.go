package apt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/patch"
)

// Choice is which pending patches an order allows.
type Choice struct {
	// Versions are the allowed upgrades, each as NAME=VERSION. apt adds dependencies.
	Versions []string
	Held     []patch.Held
}

// Choose applies the order to all pending upgrades. releases are the repositories on the disk, and now is the node's time
// for the order's minAge.
func Choose(t Transaction, o patch.Order, packages []Package, releases []Release, now time.Time) (Choice, error) {
	hold, err := patch.NewHold(o.Hold)
	if err != nil {
		return Choice{}, err
	}
	byNode := map[string]bool{}
	for _, p := range packages {
		if p.Hold {
			byNode[p.Name] = true
		}
	}
	var c Choice
	for _, name := range t.KeptBack {
		switch {
		case byNode[plain(name)]:
			c.Held = append(c.Held, patch.Held{Name: name, Source: patch.HeldByNode})
		case hold.Matches(name):
			c.Held = append(c.Held, patch.Held{Name: name, Source: patch.HeldByOrder})
		default:
			c.Held = append(c.Held, patch.Held{Name: name, Source: patch.KeptBack})
		}
	}
	for _, p := range t.Install {
		switch {
		case p.From == "" || o.Patches == patch.Security && !p.Security:
			// apt adds a new package only as a dependency.
		case hold.Matches(p.Name):
			c.Held = append(c.Held, patch.Held{Name: p.Name, To: p.To, Source: patch.HeldByOrder})
		case o.MinAge > 0 && age(p.Origin, releases, now) < o.MinAge:
			c.Held = append(c.Held, patch.Held{Name: p.Name, To: p.To, Source: patch.HeldByAge})
		default:
			c.Versions = append(c.Versions, p.Name+"="+p.To)
		}
	}
	return c, nil
}

// age is the least age of a version: a repository that was published at a date has offered its packages since then. An
// origin without a date has the age zero.
func age(origins string, releases []Release, now time.Time) time.Duration {
	oldest := time.Duration(0)
	for origin := range strings.SplitSeq(origins, ", ") {
		for _, r := range releases {
			if r.Origin() == origin && !r.Date.IsZero() {
				oldest = max(oldest, now.Sub(r.Date))
			}
		}
	}
	return oldest
}

// Refuse returns why the transaction must not run; nil if it may. The transaction contains dependencies that the choice
// did not name.
func Refuse(t Transaction, o patch.Order, packages []Package) (*patch.Failure, error) {
	hold, err := patch.NewHold(o.Hold)
	if err != nil {
		return nil, err
	}
	held := slices.Clone(t.Held)
	for _, p := range t.Install {
		byNode := slices.ContainsFunc(packages, func(i Package) bool { return i.Hold && i.Name == plain(p.Name) })
		if byNode || hold.Matches(p.Name) {
			held = append(held, p.Name)
		}
	}
	slices.Sort(held)
	switch held = slices.Compact(held); {
	case len(held) > 0:
		return &patch.Failure{Reason: patch.HeldPackage, Message: fmt.Sprintf(
			"the patches need a change of the held packages %s; nothing was installed", strings.Join(held, ", "))}, nil
	case len(t.Remove) > 0:
		return &patch.Failure{Reason: patch.WouldRemove, Message: fmt.Sprintf(
			"the patches would remove %s; nothing was installed", strings.Join(t.Remove, ", "))}, nil
	}
	return nil, nil
}

// Versions of a transaction, each as NAME=VERSION, for an installation of exactly these.
func (t Transaction) Versions() []string {
	versions := make([]string, 0, len(t.Install))
	for _, p := range t.Install {
		versions = append(versions, p.Name+"="+p.To)
	}
	return versions
}

// Need is the space for a transaction in bytes.
type Need struct {
	// Archives is for the downloads, Root for the unpacked files, and Boot for kernels with their initramfs.
	Archives, Root, Boot int64
	// Download is the sum of the packages' sizes.
	Download int64
}

// kernelImage is the name of a package with a bootable kernel.
const kernelImage = "linux-image-"

// SpaceFor computes the need. dpkg unpacks a new version beside the old one, so that the largest package is needed twice.
// initramfs is the size of the largest initramfs on the disk: no package states the size of the next one. modules is what DKMS writes
// for a new kernel.
func SpaceFor(t Transaction, sizes []Size, packages []Package, initramfs, modules int64) Need {
	var n Need
	largest := int64(0)
	for _, s := range sizes {
		n.Archives += s.Download
		growth := s.Installed
		for _, p := range packages {
			if p.Name == s.Name {
				growth -= p.KiB
				break
			}
		}
		n.Root += max(0, growth) << 10
		largest = max(largest, s.Installed<<10)
	}
	n.Download, n.Root = n.Archives, n.Root+largest
	for _, p := range t.Install {
		if p.From == "" && strings.HasPrefix(p.Name, kernelImage) {
			n.Root += modules
			n.Boot += 2 * initramfs // update-initramfs writes a new file beside an old one
		}
	}
	return n
}

// ObsoleteKernels returns the packages of old kernels that apt would remove as unneeded. Other unneeded packages stay.
// release is the running kernel, as uname -r prints it.
func ObsoleteKernels(t Transaction, release string) (names []string) {
	for _, name := range t.Remove {
		if kernelPackage.MatchString(plain(name)) && (release == "" || !strings.Contains(name, release)) {
			names = append(names, name)
		}
	}
	return names
}
