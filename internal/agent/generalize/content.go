package generalize

import (
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// contains reports whether the content of a path fulfils the rule's pattern, or names a disk. Other rules need no
// content.
func contains(r *rules.Rule, t *tree.Tree, p string) bool {
	if r.Action != rules.Refuse || r.Matcher == nil && !r.Disks {
		return true
	}
	content, found, err := files{tree: t}.read(p)
	if err != nil || !found {
		return false
	}
	return r.Matcher != nil && r.Matcher.Match(content) || r.Disks && waitsForDisk(t, content)
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
