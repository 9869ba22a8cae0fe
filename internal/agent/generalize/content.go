package generalize

import (
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// contains reports whether the content of a path fulfils the rule's pattern, or fails its check. Other rules need no
// content.
func contains(r *rules.Rule, t *tree.Tree, p string) bool { return whyContained(r, t, p) != "" }

// whyContained returns what a rule finds in the content of a path; empty if nothing.
func whyContained(r *rules.Rule, t *tree.Tree, p string) string {
	const is = "is there"
	if !r.Action.Is(rules.Refuse, rules.Regenerate) || r.Matcher == nil && r.Check == "" {
		return is
	}
	switch r.Check {
	case rules.CheckModules:
		return lostModules(t, p)
	case rules.CheckDrivers:
		return missingDrivers(t, p, r.Drivers)
	case rules.CheckFIPS:
		return fipsFault(t, p)
	}
	content, found, err := files{tree: t}.read(p)
	if err != nil || !found {
		return ""
	}
	switch r.Check {
	case rules.CheckEntries:
		return brokenEntry(t, p, content)
	case rules.CheckKeys:
		return keyOfHardware(content)
	}
	if r.Matcher != nil && r.Matcher.Match(content) || r.Check == rules.CheckDisks && waitsForDisk(t, content) {
		return is
	}
	return ""
}

// met reports whether a line of the files matches.
func met(c *rules.Condition, t *tree.Tree) (bool, error) {
	for _, pattern := range c.Paths {
		files, err := t.Glob(tree.Rel(pattern))
		if err != nil {
			return false, err
		}
		for _, m := range files {
			content, err := t.Read(m.Path)
			if err != nil {
				return false, err
			}
			if c.Matcher.Match(content) {
				return true, nil
			}
		}
	}
	return false, nil
}
