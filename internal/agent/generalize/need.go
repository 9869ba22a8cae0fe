package generalize

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// needed returns why a rule must not remove a match: the configuration of the machine names it, or cannot do without it.
func (r *Runner) needed(t *tree.Tree, rule *rules.Rule, before *DonorValues) ([]string, error) {
	if len(rule.NeededBy) == 0 {
		return nil, nil
	}
	found, err := findAll(t, rule)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(m tree.Match) bool {
		return m.Info.IsDir() && before.protectsBelow(m.Path) || rule.Excepts(m.Name) || before.protects(m.Path)
	})
	for i := range rule.NeededBy {
		need := &rule.NeededBy[i]
		by, err := findAll(t, &rules.Rule{ID: rule.ID, Paths: need.Paths})
		if err != nil || len(found) == 0 {
			return nil, err
		}
		for _, file := range by {
			content, is, err := files{tree: t}.read(file.Path)
			if err != nil {
				return nil, err
			}
			if !is || removes(r.Profile, file.Path) {
				continue
			}
			content = uncommented(content)
			for _, m := range found {
				if need.Pattern == "" && namesPath(content, "/"+m.Name) || need.Pattern != "" && need.Matcher.Match(content) && (need.File == "" || need.File == "/"+m.Name) {
					return []string{fmt.Sprintf("rule %s: /%s needs /%s, and the rule removes it: change the setting, keep the file with a rule of your own, or pass --allow %s, which keeps all matches",
						rule.ID, file.Path, m.Path, rule.ID)}, nil
				}
			}
		}
	}
	return nil, nil
}

// uncommented returns a configuration without its comments.
func uncommented(content []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(content) {
		if start := bytes.TrimSpace(line); len(start) > 0 && start[0] != '#' && start[0] != ';' {
			kept = append(kept, line...)
		}
	}
	return kept
}

// namesPath reports whether a configuration names a path, or a path below.
func namesPath(content []byte, p string) bool {
	for at := 0; ; at += len(p) {
		next := bytes.Index(content[at:], []byte(p))
		if next < 0 {
			return false
		}
		at += next
		end := at + len(p)
		if !isPathByte(content, at-1) && (!isPathByte(content, end) || content[end] == '/') {
			return true
		}
	}
}

func isPathByte(content []byte, at int) bool {
	return at >= 0 && at < len(content) && (content[at] >= '0' && content[at] <= '9' || content[at]|0x20 >= 'a' && content[at]|0x20 <= 'z' || strings.IndexByte("/._-@+", content[at]) >= 0)
}
