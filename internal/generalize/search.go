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

// search looks for secrets and for the donor's identities on the whole disk.
func (r *Runner) search(ctx context.Context, t *tree.Tree, m *Manifest) (*scan.Report, error) {
	report, err := scan.Tree(ctx, t.Dir(), scan.Options{Identities: m.Identities(), Owner: r.Profile.Owner(r.Allow...), Base: r.Profile.Base()})
	if err == nil && r.Below != nil {
		err = r.searchHidden(ctx, m, report)
	}
	return report, err
}

// Base says whether a file is one that every machine of its kind has although no package owns it: what a
// profile installs or keeps, what is exempt, and what programs of the system make.
func (p *Profile) Base() func(string) bool {
	var own []*regexp.Regexp
	for _, e := range p.Exempt {
		for _, pattern := range e.Paths {
			own = append(own, below(pattern))
		}
	}
	for i := range p.Rules {
		if is(p.Rules[i].Action, Keep, Install, Record) {
			for _, pattern := range p.Rules[i].Paths {
				own = append(own, below(pattern))
			}
		}
	}
	made := madeBySystem()
	return func(path string) bool {
		if made.MatchString(path) {
			return true
		}
		return slices.ContainsFunc(own, func(e *regexp.Regexp) bool { return e.MatchString(path[1:]) })
	}
}

// minIdentity is the size, in bytes, from which on content is likely to be unlike any other.
const minIdentity = 16

// Identities are the hashes of what a run removed, to be looked for in copies of the disk.
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

// Known are the hashes of secrets that a run found and let stay, with the reasons.
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

// Owner returns which rule a path belongs to, and whether it may stay: because a rule keeps it, because
// the rule is allowed to be broken by name, or because it is exempt.
func (p *Profile) Owner(allow ...string) func(string) scan.Owner {
	runner := Runner{Profile: p, Allow: allow}
	type claim struct {
		paths *regexp.Regexp
		owner scan.Owner
	}
	var keeps, removes []claim
	for _, e := range p.Exempt {
		for _, pattern := range e.Paths {
			keeps = append(keeps, claim{below(pattern), scan.Owner{Keeps: "exempt: " + e.Reason}})
		}
	}
	for i := range p.Rules {
		rule := &p.Rules[i]
		for _, pattern := range rule.Paths {
			c := claim{below(pattern), scan.Owner{Rule: rule.ID, Keeps: runner.whyWaived(rule)}}
			if rule.Action == Keep && c.owner.Keeps == "" {
				c.owner.Keeps = rule.Reason
			}
			if c.owner.Keeps != "" {
				keeps = append(keeps, c)
			} else if is(rule.Action, Delete, Regenerate, Truncate, Edit, Refuse) {
				removes = append(removes, c)
			}
		}
	}
	return func(path string) scan.Owner {
		for _, c := range append(keeps[:len(keeps):len(keeps)], removes...) {
			if c.paths.MatchString(strings.TrimPrefix(path, "/")) {
				return c.owner
			}
		}
		return scan.Owner{}
	}
}

// below is the regular expression of a pattern, and of everything below what it names.
func below(pattern string) *regexp.Regexp {
	whole := expression(strings.Split(tree.Rel(pattern), "/")).String()
	return regexp.MustCompile(strings.TrimSuffix(whole, "$") + `(?:/.*)?$`)
}

// whyFound says in a sentence what a scan found.
func whyFound(f *scan.Finding) string {
	should := "no rule knows the path: add one, or exempt it with a reason"
	if f.Rule != "" {
		should = "rule " + f.Rule + " should have seen to it"
	}
	return fmt.Sprintf("secrets: %s in %s; %s", f.What, f.Where(), should)
}
