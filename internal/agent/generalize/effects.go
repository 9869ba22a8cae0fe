package generalize

import (
	"bytes"
	"path"

	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// effects are what a run does to the files of a tree. The search before a run asks them what a run leaves, so that it finds
// what the search after the run would find.
type effects struct {
	tree   *tree.Tree
	before *DonorValues
	// removed are the rules that remove or empty a path, and everything below that they do not spare.
	removed map[string][]effect
	// edits are the rules that edit a file, in their order.
	edits map[string][]*rules.Rule
}

// effect is a rule with one of its matches.
type effect struct {
	rule  *rules.Rule
	match tree.Match
}

// effects finds the matches of all rules as the run does.
func (r *Runner) effects(t *tree.Tree, before *DonorValues) (*effects, error) {
	e := &effects{tree: t, before: before, removed: map[string][]effect{}, edits: map[string][]*rules.Rule{}}
	for i := range r.Profile.Rules {
		rule := &r.Profile.Rules[i]
		if !rule.AppliesTo(before.OS) || r.waived(rule) || !rule.Action.Is(rules.Delete, rules.Regenerate, rules.Truncate, rules.Forget, rules.Edit) {
			continue
		}
		if rule.Unless != nil {
			if met, err := met(rule.Unless, t); err != nil || met {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		matches, err := before.matches(t, rule)
		if err != nil {
			return nil, err
		}
		step := applied{runner: r, tree: t, rule: rule, before: before}
		for _, m := range matches {
			switch {
			case !step.concerns(m), rule.Action == rules.Truncate && isLink(m):
			case rule.Action != rules.Edit:
				e.removed[m.Path] = append(e.removed[m.Path], effect{rule, m})
			case m.Info.Mode().IsRegular():
				e.edits[m.Path] = append(e.edits[m.Path], rule)
			}
		}
	}
	return e, nil
}

// of returns what a run leaves at a path of the machine.
func (e *effects) of(p string) scan.Change {
	rel := tree.Rel(p)
	if e.removes(rel) {
		return scan.Change{Removed: true}
	}
	rules := e.edits[rel]
	if len(rules) == 0 {
		return scan.Change{}
	}
	content, err := e.tree.Read(rel)
	if err != nil {
		return scan.Change{} // the run cannot edit the file either
	}
	edited, to := content, rel
	for _, rule := range rules {
		edit := editors[rule.Editor]
		edited = edit.edit(e.tree, rel, edited, rule, e.before)
		if edit.rename != nil {
			to = edit.rename(rel, e.before)
		}
	}
	if bytes.Equal(content, edited) && to == rel {
		return scan.Change{}
	}
	return scan.Change{Name: "/" + to, Content: append([]byte{}, edited...)}
}

// removes reports whether a rule removes a path of the tree, or a directory above it.
func (e *effects) removes(rel string) bool {
	for at := rel; at != "."; at = path.Dir(at) {
		for _, removal := range e.removed[at] {
			if !e.spares(removal, rel) {
				return true
			}
		}
	}
	return false
}

// spares reports whether a rule leaves a path at or below its match, because the rule or another keeps the path.
func (e *effects) spares(removal effect, rel string) bool {
	for q := rel; ; q = path.Dir(q) {
		if removal.rule.Excepts(nameBelow(removal.match, q)) || e.before.protects(q) {
			return true
		}
		if q == removal.match.Path {
			return e.before.protectsBelow(rel)
		}
	}
}
