package generalize

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// GenerationsPath is the directory of earlier manifests of a disk, 1.json, 2.json and so on: from ancestors and from
// earlier runs. Each manifest has the digest of its predecessor.
const GenerationsPath = "/var/lib/kamino/generations"

// maxGenerations is the number of earlier manifests kept.
const maxGenerations = 32

// inherit takes over facts from an earlier run's manifest. A machine without an ID lost its identities in that run, and
// the identities must not be in a copy either.
func (m *Manifest) inherit(t *tree.Tree, before *DonorValues) error {
	content, err := optional(t, tree.Rel(ManifestPath))
	if err != nil || len(content) == 0 {
		return err
	}
	earlier, err := ParseManifest(content)
	if err != nil {
		return fmt.Errorf("%s: %w; move the file away if the file is not from this disk", ManifestPath, err)
	}
	m.Previous = "sha256:" + hash(content)
	if before.MachineID != "" {
		return nil
	}
	m.Inherited = earlier.Inherited
	for _, o := range earlier.Outcomes {
		if !o.Waived {
			m.Inherited = append(m.Inherited, o.Identities...)
		}
	}
	return nil
}

// archive saves the manifest in the tree before it is overwritten.
func archive(t *tree.Tree, next []byte) error {
	content, err := optional(t, tree.Rel(ManifestPath))
	if err != nil || len(content) == 0 || string(content) == string(next) {
		return err
	}
	first, last, err := generations(t)
	if err != nil {
		return err
	}
	dir := tree.Rel(GenerationsPath)
	if err := t.Replace(path.Join(dir, strconv.Itoa(last+1)+".json"), content, 0o644); err != nil {
		return err
	}
	for ; last+1-first >= maxGenerations; first++ {
		if _, err := t.Remove(path.Join(dir, strconv.Itoa(first)+".json"), nil); err != nil {
			return err
		}
	}
	return nil
}

// unused returns the user's own rules that found nothing in a run and in the two runs before. Such a rule has wrong paths,
// or is no longer needed.
func unused(p *rules.Profile, t *tree.Tree, m *Manifest) (ids []string) {
	_, last, err := generations(t)
	if err != nil || last == 0 {
		return nil
	}
	runs := []*Manifest{m}
	for _, file := range []string{tree.Rel(ManifestPath), path.Join(tree.Rel(GenerationsPath), strconv.Itoa(last)+".json")} {
		content, err := optional(t, file)
		if err != nil {
			return nil
		}
		earlier, err := ParseManifest(content)
		if err != nil {
			return nil
		}
		runs = append(runs, earlier)
	}
	for i := range p.Rules {
		if r := &p.Rules[i]; r.Own && !r.Action.Is(rules.Keep, rules.Refuse, rules.Install, rules.Record) && !slices.ContainsFunc(runs, func(m *Manifest) bool { return m.usesRule(r.ID) }) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// usesRule reports whether a run applied a rule to something, or did not know the rule.
func (m *Manifest) usesRule(id string) bool {
	i := slices.IndexFunc(m.Outcomes, func(o Outcome) bool { return o.Rule == id })
	return i < 0 || m.Outcomes[i].Found > 0
}

// generations returns the numbers of the first and the last kept manifest; 1 and 0 if there is none.
func generations(t *tree.Tree) (first, last int, err error) {
	entries, err := t.List(tree.Rel(GenerationsPath))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, err
	}
	for _, entry := range entries {
		name, found := strings.CutSuffix(entry.Name(), ".json")
		number, err := strconv.Atoi(name)
		if !found || err != nil || number < 1 {
			continue
		}
		if first == 0 || number < first {
			first = number
		}
		last = max(last, number)
	}
	return max(first, 1), last, nil
}
