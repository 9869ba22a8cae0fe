package generalize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// HiddenFiles has the files hidden by mounts: the files are on the disk and in every copy, but invisible under the mounts.
type HiddenFiles struct {
	// Tree is the machine's root without mounts.
	Tree *tree.Tree
	// Points are the mount points, as paths of the machine.
	Points []string
}

// hides reports whether a path of the tree is below a mount point. The mount point itself is not hidden: removing it
// would remove the mount.
func (b *HiddenFiles) hides(p string) bool {
	return slices.ContainsFunc(b.Points, func(point string) bool { return strings.HasPrefix(p, tree.Rel(point)+"/") })
}

// outermost returns the mount points below no other mount point.
func (b *HiddenFiles) outermost() []string {
	return slices.DeleteFunc(slices.Clone(b.Points), func(point string) bool {
		return slices.ContainsFunc(b.Points, func(other string) bool { return strings.HasPrefix(point, strings.TrimSuffix(other, "/")+"/") })
	})
}

// treatHidden applies the rules to hidden files, and verifies the result. Findings and changes go into the outcomes.
func (r *Runner) treatHidden(m *Manifest, seen *DonorValues) error {
	before, err := LookBefore(r.Below.Tree, r.Profile, seen.Names...)
	if err != nil {
		return fmt.Errorf("look below mount points: %w", err)
	}
	before.OS, before.id, before.spared = seen.OS, seen.id, seen.spared
	for i := range r.Profile.Rules {
		rule := &r.Profile.Rules[i]
		at := slices.IndexFunc(m.Outcomes, func(o Outcome) bool { return o.Rule == rule.ID })
		if at < 0 || m.Outcomes[at].Waived || !rule.Action.Is(rules.Refuse, rules.Edit, rules.Forget, rules.Delete, rules.Regenerate) {
			continue
		}
		o := &m.Outcomes[at]
		step := applied{runner: r, tree: r.Below.Tree, rule: rule, before: before, Outcome: o}
		if err := step.hidden(); err != nil {
			o.fail("below a mount point: " + err.Error())
		}
		if r.DryRun {
			continue
		}
		if why, err := whyHidden(r.Below, rule, before); err != nil || why != "" {
			o.fail("below a mount point: " + why + errorText(err))
		}
	}
	return nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// hidden applies one rule to the files below mount points.
func (a *applied) hidden() error {
	below := a.runner.Below
	matches, err := a.before.matches(a.tree, a.rule)
	if err != nil {
		return err
	}
	matches = slices.DeleteFunc(matches, func(m tree.Match) bool { return !below.hides(m.Path) || !a.concerns(m) })
	for _, m := range matches {
		a.found(a.before.masked(m.Path))
		if a.rule.Identity {
			a.identify(m)
		}
	}
	if a.runner.DryRun || len(matches) == 0 || a.rule.Action == rules.Forget || a.runner.skip != nil && a.runner.skip(a.rule) {
		return nil
	}
	return a.act(matches)
}

// whyHidden names the first hidden path that breaks a rule.
func whyHidden(b *HiddenFiles, r *rules.Rule, before *DonorValues) (why string, err error) {
	if r.Unless != nil && holds(b.Tree, r.Unless) {
		return "", nil
	}
	if r.Names != "" {
		return "", nil // named files are searched in the visible tree
	}
	count := 0
	err = search(b.Tree, r, func(m tree.Match) error {
		if !b.hides(m.Path) {
			return nil
		}
		wrong, err := whyWrong(b.Tree, r, before, m)
		if wrong == "" || err != nil {
			return err
		}
		if count++; count == 1 {
			why = wrong
		}
		return nil
	})
	if count > 1 {
		why += fmt.Sprintf(" (%d found)", count)
	}
	return why, err
}

// whyWrong returns the fault of one path that a rule names.
func whyWrong(t *tree.Tree, r *rules.Rule, before *DonorValues, m tree.Match) (string, error) {
	p := m.Path
	switch r.Action {
	case rules.Edit:
		content, err := t.Read(p)
		if err != nil {
			return "", err
		}
		if wrong := editors[r.Editor].check(t, p, content, r, before); wrong != "" {
			return "/" + p + ": " + wrong, nil
		}
		return "", nil
	case rules.Forget:
		return "", errors.New("/" + p + " is there: container stores below a mount point are not looked into")
	case rules.Refuse:
		if !contains(r, t, p) {
			return "", nil
		}
		return "/" + p + " is there", nil
	default:
		if r.Only == "files" && m.Info.IsDir() || r.Excepts(m.Name) || before.protects(p) || m.Info.IsDir() && holdsKept(t, r, before, m) {
			return "", nil
		}
		return "/" + p + " is there", nil
	}
}

// searchHidden searches the hidden files for secrets and identities, and adds the findings to the report.
func (r *Runner) searchHidden(ctx context.Context, m *Manifest, report *scan.Report) error {
	if len(r.Below.Points) == 0 {
		return nil
	}
	more, err := scan.Tree(ctx, r.Below.Tree.Dir(), scan.Options{
		Identities: m.Identities(), Literals: m.literals, Owner: Owner(r.Profile, r.Allow...), Base: Base(r.Profile), Dirs: r.Below.outermost(),
		Leftovers: leftovers(r.Below.Tree, nil),
	})
	if err != nil {
		return fmt.Errorf("below mount points: %w", err)
	}
	report.Add(more)
	return nil
}
