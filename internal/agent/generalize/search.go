package generalize

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// search searches the whole disk for secrets and the donor's identities.
func (r *Runner) search(ctx context.Context, t *tree.Tree, m *Manifest) (*scan.Report, error) {
	report, err := scan.Tree(ctx, t.Dir(), scan.Options{
		Identities: m.Identities(), Literals: m.literals, Owner: Owner(r.Profile, r.Allow...), Base: Base(r.Profile), Leftovers: leftovers(t, r.Below),
	})
	if err == nil && r.Below != nil {
		err = r.searchHidden(ctx, m, report)
	}
	return report, err
}

// searchBefore searches for what a run would leave, and changes nothing. m has the identities that the run removes.
// searchBefore returns a *Refused with the findings, or a note about the comparison with another machine.
func (r *Runner) searchBefore(ctx context.Context, t *tree.Tree, m *Manifest, before *DonorValues) (note string, err error) {
	later, err := r.effects(t, before)
	if err != nil {
		return "", err
	}
	report, err := scan.Tree(ctx, t.Dir(), scan.Options{
		Identities: m.Identities(), Literals: literals(t, before), Owner: Owner(r.Profile, r.Allow...), Changed: later.of, Base: Base(r.Profile),
		Hashes: r.UnknownFiles.Compares(),
	})
	if err != nil {
		return "", err
	}
	why, note := r.whyUnknown(report)
	r.noteEqual(report)
	reasons := Reasons{Findings: report.Findings, Count: report.Count}
	if why != "" {
		reasons.Whys = append(reasons.Whys, why)
	}
	if reasons.none() {
		return note, nil
	}
	return "", &Refused{reasons}
}

// leftovers returns removed files that still have another name.
func leftovers(t *tree.Tree, b *HiddenFiles) map[scan.Inode]string {
	left := map[scan.Inode]string{}
	trees := []*tree.Tree{t}
	if b != nil {
		trees = append(trees, b.Tree)
	}
	for _, t := range trees {
		for inode, name := range t.Linked() {
			left[scan.Inode(inode)] = name
		}
	}
	return left
}

// Base returns a function for scan.Options.Base: it is true for files that the profile installs, keeps or exempts, and
// for files that system programs create.
func Base(p *rules.Profile) func(string) bool {
	keeps := rules.Profile{Exempt: p.Exempt}
	for _, rule := range p.Rules {
		if rule.Action.Is(rules.Keep, rules.Install, rules.Record) {
			keeps.Rules = append(keeps.Rules, rules.Rule{Action: rules.Keep, Paths: rule.Paths, Reason: "of the profile"})
		}
	}
	own, made := Owner(&keeps), madeBySystem()
	return func(path string) bool { return made(path) || own(path).Keeps != "" }
}

// minIdentity is the size in bytes from which content is likely unique.
const minIdentity = 16

// Identities returns the hashes of removed identities, for searching copies of the disk.
func (m *Manifest) Identities() []scan.Value {
	var values []scan.Value
	add := func(ids []Identity) {
		for _, id := range ids {
			if id.Bytes > 0 && id.Bytes < minIdentity {
				continue
			}
			values = append(values, scan.Value{Path: id.Path, SHA256: id.SHA256, Bytes: id.Bytes})
		}
	}
	add(m.Inherited)
	for _, o := range m.Outcomes {
		if !o.Waived {
			add(o.Identities)
		}
	}
	return values
}

// Known returns the hashes of secrets that a run found and kept, with reasons.
func (m *Manifest) Known() map[string]string {
	known := map[string]string{}
	if m.Scan == nil {
		return known
	}
	for _, f := range m.Scan.Kept {
		if f.SHA256 != "" {
			known[f.SHA256] = f.Path + ": " + f.Kept
		}
	}
	return known
}

// SearchOfImage returns the options for a search of the unmounted disk after the run: all identities and values from before the run. Keys
// and tokens in files were found by the run itself, and are allowed with its reasons. Values that files have by design, such as the UUID of
// a file system, are not searched.
func (m *Manifest) SearchOfImage() scan.Options {
	values := slices.DeleteFunc(slices.Clone(m.literals), func(l scan.Literal) bool { return len(l.Allowed) > 0 })
	return scan.Options{Identities: m.Identities(), Literals: values, Known: m.Known(), FreeOnly: true}
}

// Owner returns a function that finds the rule that removes a path, and why the path may stay: a keeping rule, a waived rule,
// or an exemption.
func Owner(p *rules.Profile, allow ...string) func(string) scan.Owner {
	runner := Runner{Profile: p, Allow: allow}
	type claim struct {
		fixed string
		paths *regexp.Regexp
		owner scan.Owner
	}
	var keeps, removes []claim
	for _, e := range p.Exempt {
		for _, pattern := range e.Paths {
			keeps = append(keeps, claim{fixedPart(pattern), below(pattern), scan.Owner{Keeps: "exempt: " + e.Reason}})
		}
	}
	for i := range p.Rules {
		rule := &p.Rules[i]
		if rule.Names != "" {
			continue
		}
		for _, pattern := range rule.Paths {
			c := claim{fixedPart(pattern), below(pattern), scan.Owner{Rule: rule.ID, Keeps: runner.whyWaived(rule)}}
			if rule.Action == rules.Keep && c.owner.Keeps == "" {
				c.owner.Keeps = rule.Reason
			}
			if c.owner.Keeps != "" {
				keeps = append(keeps, c)
			} else if rule.Action.Is(rules.Delete, rules.Regenerate, rules.Truncate, rules.Forget) {
				removes = append(removes, c)
			}
		}
	}
	claims := slices.Concat(keeps, removes)
	return func(path string) scan.Owner {
		for _, c := range claims {
			if strings.HasPrefix(path, c.fixed) && c.paths.MatchString(strings.TrimPrefix(path, "/")) {
				return c.owner
			}
		}
		return scan.Owner{}
	}
}

// fixedPart returns the beginning of a pattern without wildcards.
func fixedPart(pattern string) string {
	if i := strings.IndexAny(pattern, "*?[\\"); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// below returns the regular expression of a pattern and everything below its matches.
func below(pattern string) *regexp.Regexp {
	whole := expression(strings.Split(tree.Rel(pattern), "/")).String()
	return compiled(strings.TrimSuffix(whole, "$") + `(?:/.*)?$`)
}
