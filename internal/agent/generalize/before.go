package generalize

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// DonorValues has the facts about a machine that cannot be found after its identity is removed.
type DonorValues struct {
	// Names are the machine's host names.
	Names []string
	// OS is the ID in os-release; "linux" without an ID, the default of os-release(5).
	OS string
	// MachineID is the SHA-256 of the machine ID in hex; empty without a machine ID.
	MachineID string

	id string
	// spared are layers that stay, as paths of the tree.
	spared []string
	kept   map[string][]string
	// named has the swap files named in files before their edit, by the removing rule.
	named map[string][]string
}

// LookBefore reads the facts from a tree before generalizing. names are further host names of the machine.
func LookBefore(t *tree.Tree, p *rules.Profile, names ...string) (*DonorValues, error) {
	b := &DonorValues{OS: "linux", kept: map[string][]string{}, named: map[string][]string{}}
	if id, err := optional(t, "etc/machine-id"); err != nil {
		return nil, err
	} else if id = bytes.TrimSpace(id); len(id) > 0 {
		b.MachineID, b.id = hash(id), string(id)
	}
	hostname, err := optional(t, "etc/hostname")
	if err != nil {
		return nil, err
	}
	for _, name := range append(names, strings.Fields(string(hostname))...) {
		b.addName(name)
	}
	for _, file := range []string{"usr/lib/os-release", "etc/os-release"} {
		content, err := optional(t, file)
		if err != nil {
			return nil, err
		}
		if id := osID(content); id != "" {
			b.OS = id
		}
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		switch {
		case r.Action == rules.Keep:
			b.kept[r.ID], err = keptBy(t, r)
		case r.Names != "":
			b.named[r.ID], err = namedSwap(t, r)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// masked returns a path without the machine ID, because journald names a directory after the ID. The manifest stays on
// the disk, and must not copy the ID to clones.
func (b *DonorValues) masked(p string) string {
	if len(b.id) < 16 {
		return p
	}
	return strings.ReplaceAll(p, b.id, "<machine-id>")
}

// optional reads a file that may be missing. Any other failure to read is an error.
func optional(t *tree.Tree, p string) ([]byte, error) {
	content, err := t.Read(p)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look at the machine: %w", err)
	}
	return content, nil
}

func (b *DonorValues) addName(name string) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "" || strings.HasPrefix(name, "#") || strings.HasPrefix(name, "localhost") {
		return
	}
	short, _, _ := strings.Cut(name, ".")
	for _, n := range []string{name, short} {
		if n != "" && !slices.Contains(b.Names, n) {
			b.Names = append(b.Names, n)
		}
	}
}

// owns reports whether a name in a hosts file is the machine's name.
func (b *DonorValues) owns(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return slices.ContainsFunc(b.Names, func(own string) bool {
		return name == own || strings.HasPrefix(name, own+".")
	})
}

// protects reports whether a path stays, or is below a path that stays.
func (b *DonorValues) protects(p string) bool {
	for _, paths := range b.kept {
		for _, kept := range paths {
			if p == kept || strings.HasPrefix(p, kept+"/") {
				return true
			}
		}
	}
	return false
}

// protectsBelow reports whether something below a path stays.
func (b *DonorValues) protectsBelow(p string) bool {
	for _, paths := range b.kept {
		if slices.ContainsFunc(paths, func(kept string) bool { return strings.HasPrefix(kept, p+"/") }) {
			return true
		}
	}
	return false
}

func keptBy(t *tree.Tree, r *rules.Rule) ([]string, error) {
	var paths []string
	for _, pattern := range r.Paths {
		found, err := t.Glob(tree.Rel(pattern))
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.ID, err)
		}
		for _, m := range found {
			paths = append(paths, m.Path)
		}
	}
	return paths, nil
}

// osID returns the value of ID= in an os-release file.
func osID(content []byte) string {
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		if id, found := strings.CutPrefix(lines.Text(), "ID="); found {
			return strings.ToLower(strings.Trim(id, `"' `))
		}
	}
	return ""
}

func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
