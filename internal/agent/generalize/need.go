package generalize

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// needed returns why a rule must not remove a match: the configuration of the machine names it, or cannot do without it.
func needed(p *rules.Profile, t *tree.Tree, rule *rules.Rule, before *DonorValues, found []tree.Match) ([]string, error) {
	if len(rule.NeededBy) == 0 {
		return nil, nil
	}
	found = without(found, func(m tree.Match) bool {
		return m.Info.IsDir() && before.protectsBelow(m.Path) || rule.Excepts(m.Name) || before.protects(m.Path)
	})
	for i := range rule.NeededBy {
		if len(found) == 0 {
			return nil, nil
		}
		by, file, err := needs(p, t, &rule.NeededBy[i], found)
		if err != nil {
			return nil, err
		}
		if by != "" {
			return []string{fmt.Sprintf("rule %s: /%s needs /%s, and the rule removes it: change the setting, keep the file with a rule of your own, "+
				"or pass --allow %s, which keeps all matches", rule.ID, by, file, rule.ID)}, nil
		}
	}
	return nil, nil
}

// needs returns a file of the configuration that stays and needs a match, with the match.
func needs(p *rules.Profile, t *tree.Tree, need *rules.Need, found []tree.Match) (by, match string, err error) {
	configuration, err := findAll(t, &rules.Rule{Paths: need.Paths})
	if err != nil {
		return "", "", err
	}
	for _, file := range configuration {
		content, is, err := files{tree: t}.read(file.Path)
		if err != nil {
			return "", "", err
		}
		if !is || removes(p, t, file.Path) {
			continue
		}
		for _, m := range found {
			if wants(t, need, m, content) {
				return file.Path, m.Path, nil
			}
		}
	}
	return "", "", nil
}

// wants reports whether the content of a configuration file needs a match.
func wants(t *tree.Tree, need *rules.Need, m tree.Match, content []byte) bool {
	switch {
	case need.Name != "":
		return slices.ContainsFunc(need.Namer.FindAllStringSubmatch(text(t, m.Path), -1), func(name []string) bool {
			return interfaceNaming(name[1]).Match(content)
		})
	case need.Pattern == "":
		return naming("/" + m.Name).Match(content)
	}
	return (need.File == "" || need.File == "/"+m.Name) && need.Matcher.Match(content)
}

// interfaceNaming returns the expression of a line that names a network interface, alone or in a key of sysctl, and is no comment.
func interfaceNaming(name string) *regexp.Regexp {
	return compiled(`(?m)^[ \t]*(?:[^#;\s].*[^\w-])?` + regexp.QuoteMeta(name) + `(?:[^\w-]|$)`)
}

// naming returns the expression of a line that names a path, or a path below, and is no comment.
func naming(p string) *regexp.Regexp {
	return compiled(`(?m)^[ \t]*(?:[^#;\s].*[^\w./@+-])?` + regexp.QuoteMeta(p) + `(?:[^\w.@+-]|$)`)
}
