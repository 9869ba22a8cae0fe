package generalize

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/generalize/scan"
	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// search searches the whole disk for secrets and the donor's identities.
func (r *Runner) search(ctx context.Context, t *tree.Tree, m *Manifest) (*scan.Report, error) {
	report, err := scan.Tree(ctx, t.Dir(), scan.Options{
		Identities: m.Identities(), Literals: m.literals, Owner: r.Profile.Owner(r.Allow...), Base: r.Profile.Base(), Leftovers: leftovers(t, r.Below),
	})
	if err == nil && r.Below != nil {
		err = r.searchHidden(ctx, m, report)
	}
	return report, err
}

// searchBefore searches the disk before any change. It returns a *Refused with the findings that no rule removes, or a
// note about the comparison with another machine.
func (r *Runner) searchBefore(ctx context.Context, t *tree.Tree, before *DonorValues) (note string, err error) {
	o := scan.Options{Literals: literals(t, before), Owner: r.Profile.Owner(r.Allow...), Base: r.Profile.Base(), Hashes: r.listsUnknown()}
	if id, err := optional(t, "etc/machine-id"); err == nil && len(id) >= minIdentity {
		o.Identities = []scan.Value{{Path: "/etc/machine-id", SHA256: hash(id), Bytes: int64(len(id))}}
	}
	report, err := scan.Tree(ctx, t.Dir(), o)
	if err != nil {
		return "", err
	}
	named := before.allNamed()
	var whys []string
	for i := range report.Findings {
		if f := &report.Findings[i]; f.Rule == "" && !slices.Contains(named, tree.Rel(f.Path)) {
			whys = append(whys, whyFound(f))
		}
	}
	why, note := r.whyUnknown(report, before)
	if why != "" {
		whys = append(whys, why)
	}
	if len(whys) == 0 {
		return note, nil
	}
	return "", &Refused{Whys: whys}
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
func (p *Profile) Base() func(string) bool {
	keeps := Profile{Exempt: p.Exempt}
	for _, rule := range p.Rules {
		if is(rule.Action, Keep, Install, Record) {
			keeps.Rules = append(keeps.Rules, Rule{Action: Keep, Paths: rule.Paths, Reason: "of the profile"})
		}
	}
	own, made := keeps.Owner(), madeBySystem()
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

// Owner returns a function that finds the rule of a path, and why the path may stay: a keeping rule, a waived rule, or
// an exemption.
func (p *Profile) Owner(allow ...string) func(string) scan.Owner {
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
			if rule.Action == Keep && c.owner.Keeps == "" {
				c.owner.Keeps = rule.Reason
			}
			if c.owner.Keeps != "" {
				keeps = append(keeps, c)
			} else if is(rule.Action, Delete, Regenerate, Truncate, Edit, Forget, Refuse) {
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
	return regexp.MustCompile(strings.TrimSuffix(whole, "$") + `(?:/.*)?$`)
}

// whyFound describes a finding in a sentence.
func whyFound(f *scan.Finding) string {
	should := "no rule covers the path: add a rule, or exempt the path with a reason"
	if f.Rule != "" {
		should = "rule " + f.Rule + " should have removed the file"
	}
	return fmt.Sprintf("secrets: %s in %s; %s", f.What, f.Where(), should)
}
