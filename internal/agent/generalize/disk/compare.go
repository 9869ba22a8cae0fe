package disk

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/internal/agent/scan"
)

// Comparison are the files of unknown origin of two machines of one pool. Equal files are configuration. A file with
// another content on each machine likely holds an identity.
type Comparison struct {
	// With is the other machine.
	With string `json:"with"`
	// Equal is the number of files with the same content on both machines.
	Equal int `json:"equal"`
	// Different are files of both machines with other contents, and Only files of this machine alone.
	Different []string `json:"different,omitempty"`
	Only      []string `json:"only,omitempty"`
	// equal are the equal files.
	equal []string
}

// compare compares the files of unknown origin with those of another machine.
func (s *Search) compare(ctx context.Context, o scan.Options, own map[string]string) (*Comparison, error) {
	other, err := s.otherHashes(ctx, o)
	if err != nil {
		return nil, err
	}
	c := &Comparison{With: s.Compare}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		switch hash, found := other[name]; {
		case !found:
			c.Only = append(c.Only, name)
		case hash != own[name]:
			c.Different = append(c.Different, name)
		default:
			c.equal = append(c.equal, name)
		}
	}
	c.Equal = len(c.equal)
	return c, nil
}

// otherHashes returns the hashes of the other machine, from its tree or its report.
func (s *Search) otherHashes(ctx context.Context, o scan.Options) (map[string]string, error) {
	info, err := os.Stat(s.Compare)
	if err != nil {
		return nil, misusef("--compare: %w", err)
	}
	if info.IsDir() {
		report, err := scan.Tree(ctx, s.Compare, scan.Options{Owner: o.Owner, Base: o.Base, Hashes: true})
		if err != nil {
			return nil, fmt.Errorf("--compare: %w", err)
		}
		return report.Hashes, nil
	}
	content, err := os.ReadFile(s.Compare)
	if err != nil {
		return nil, misusef("--compare: %w", err)
	}
	var report scan.Report
	if err := yaml.Unmarshal(content, &report); err != nil || len(report.Hashes) == 0 {
		return nil, misusef("--compare: %s is no report with hashes: create the report with kamino-node verify ROOT --hashes -o yaml", s.Compare)
	}
	return report.Hashes, nil
}

// Suggest returns a draft of the user's own rules: it deletes files that likely hold an identity, and exempts files that
// are equal on two machines.
func (f *SearchResult) Suggest() ([]byte, error) {
	var draft struct {
		Version string          `json:"version"`
		Rules   []suggestedRule `json:"rules,omitempty"`
		Exempt  []exemption     `json:"exempt,omitempty"`
	}
	draft.Version = "1"
	add := func(names []string, reason string) {
		for _, dir := range byDirectory(names) {
			draft.Rules = append(draft.Rules, suggestedRule{
				ID: fmt.Sprintf("site-%d-%s", len(draft.Rules)+1, slug(dir[0])), Action: "delete", Paths: dir, Reason: reason, Source: "kamino-node verify --suggest-rules",
			})
		}
	}
	possible := slices.Clone(f.Possible.First)
	if c := f.Compared; c != nil {
		add(c.Different, "Differs between two machines of the pool.")
		possible = slices.DeleteFunc(possible, func(name string) bool { return slices.Contains(c.Different, name) || slices.Contains(c.equal, name) })
		for _, dir := range byDirectory(c.equal) {
			draft.Exempt = append(draft.Exempt, exemption{Paths: dir, Reason: "Equal on two machines of the pool."})
		}
	}
	add(possible, "May hold an identity, by its name or content.")
	text, err := yaml.Marshal(draft)
	if err != nil {
		return nil, err
	}
	return append([]byte("# A draft: Kamino does not know these files. Check each entry, and write your own reasons.\n"), text...), nil
}

type suggestedRule struct {
	ID     string   `json:"id"`
	Action string   `json:"action"`
	Paths  []string `json:"paths"`
	Reason string   `json:"reason"`
	Source string   `json:"source"`
}

type exemption struct {
	Paths  []string `json:"paths"`
	Reason string   `json:"reason"`
}

var wildcard = regexp.MustCompile(`[*?\[\\]`)

// byDirectory groups sorted paths by directory, and escapes wildcards.
func byDirectory(names []string) (groups [][]string) {
	last := ""
	for _, name := range slices.Sorted(slices.Values(names)) {
		if dir := path.Dir(name); dir != last || len(groups) == 0 {
			groups, last = append(groups, nil), dir
		}
		at := len(groups) - 1
		groups[at] = append(groups[at], wildcard.ReplaceAllString(name, `\$0`))
	}
	return groups
}

var noWord = regexp.MustCompile(`[^a-z0-9]+`)

// slug returns the directory of a path as words for a rule's ID.
func slug(name string) string {
	words := strings.Trim(noWord.ReplaceAllString(strings.ToLower(path.Dir(name)), "-"), "-")
	if len(words) > 40 {
		words = strings.Trim(words[len(words)-40:], "-")
	}
	if words == "" {
		return "root"
	}
	return words
}
