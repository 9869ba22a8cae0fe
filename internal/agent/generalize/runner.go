package generalize

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// Runner applies a profile to a tree.
type Runner struct {
	Profile *rules.Profile
	// Tool is the version of the binary, for manifest and proof.
	Tool    string
	Subject RunSubject
	// Names are further host names of the machine, besides /etc/hostname.
	Names []string
	// Allow names the rules to waive. Only allowable rules can be waived.
	Allow []string
	// Spare are the writable directories of the working pod's container, as paths of the machine. Their content stays.
	Spare []string
	// Returning is the MachineKey of a donor that starts again from the disk; empty for a copy.
	Returning string
	// Quiet masks the tools that install patches without Kamino, on the clones only. Preflight then inspects a returning donor.
	Quiet bool
	// Below has the files hidden by mounts; nil if they cannot be seen.
	Below *HiddenFiles
	// UnknownFiles is whether files of unknown origin may stay. Default: they may.
	UnknownFiles v1alpha1.UnknownFiles
	// Peer has the files of unknown origin of another machine of the pool, and PeerName its name. A name without files
	// means a failed inspection. For Preflight.
	Peer     *scan.Summary
	PeerName string
	// DryRun reports without changes.
	DryRun bool
	// Now is the clock for the line in the ancestry log.
	Now func() time.Time

	skip func(*rules.Rule) bool
}

// Refusals returns a *Refused if the tree must not be generalized. Refusals changes nothing. Run begins with it.
func (r *Runner) Refusals(t *tree.Tree) error {
	for _, id := range r.Allow {
		i := slices.IndexFunc(r.Profile.Rules, func(rule rules.Rule) bool { return rule.ID == id })
		if i < 0 || !r.Profile.Rules[i].Allowable {
			return NewRefused(fmt.Sprintf("rule %q is not allowable; allowable rules: %s", id, r.allowable()))
		}
	}
	if err := RefuseMounts(t); err != nil {
		return err
	}
	before, err := LookBefore(t, r.Profile, r.Names...)
	if err != nil {
		return err
	}
	var whys []string
	for i := range r.Profile.Rules {
		rule := &r.Profile.Rules[i]
		if !rule.AppliesTo(before.OS) || r.waived(rule) {
			continue
		}
		more, err := r.refusals(t, rule, before)
		if err != nil {
			return err
		}
		whys = append(whys, more...)
	}
	whys = append(whys, unwritable(t, ManifestPath, GenerationsPath+"/1.json", ReturningPath, unfinishedPath)...)
	if whys = append(whys, outOfSpace(r.Profile, t, t.Room)...); len(whys) > 0 {
		return NewRefused(whys...)
	}
	return nil
}

// Preflight returns a *Refused if a running machine must not be generalized, as far as known. Preflight also searches for
// secrets that no rule removes, and changes nothing. note describes the comparison with another machine, if any.
func (r *Runner) Preflight(ctx context.Context, t *tree.Tree) (note string, err error) {
	if err := r.Refusals(t); err != nil {
		return "", err
	}
	if err := r.RefuseQuiet(t); err != nil {
		return "", err
	}
	before, err := LookBefore(t, r.Profile, r.Names...)
	if err != nil {
		return "", err
	}
	m := &Manifest{}
	if err := m.inherit(t, before); err != nil {
		return "", NewRefused(err.Error())
	}
	if err := r.broken(t, before, true); err != nil {
		return "", err
	}
	look := *r
	look.DryRun = true
	for i := range r.Profile.Rules {
		if rule := &r.Profile.Rules[i]; rule.Identity && rule.AppliesTo(before.OS) {
			m.Outcomes = append(m.Outcomes, look.apply(t, rule, before))
		}
	}
	return look.searchBefore(ctx, t, m, before)
}

// refusals returns why one rule forbids a run.
func (r *Runner) refusals(t *tree.Tree, rule *rules.Rule, before *DonorValues) ([]string, error) {
	if rule.Names != "" {
		return r.notSwap(t, rule, before)
	}
	if rule.Action.Is(rules.Install, rules.Record) {
		return unplaced(t, rule)
	}
	found, err := findAll(t, rule)
	if err != nil {
		return nil, err
	}
	var whys []string
	switch rule.Action {
	case rules.Regenerate:
		whys, err = r.unmade(t, rule, before, found)
	case rules.Edit:
		whys, err = r.uneditable(t, rule, before, found)
	case rules.Refuse:
		return r.refused(t, rule, found)
	case rules.Truncate:
		whys, err = linkedFiles(t, rule)
	case rules.Delete:
		whys, err = needed(r.Profile, t, rule, before, found)
	case rules.Forget:
		return linked(t, rule, found), nil
	default:
		return nil, nil
	}
	if err != nil || len(whys) > 0 {
		return whys, err
	}
	return r.protected(t, rule, before, found), nil
}

// without returns the matches for which drop is false.
func without(found []tree.Match, drop func(tree.Match) bool) []tree.Match {
	return slices.DeleteFunc(slices.Clone(found), drop)
}

// protected returns why a rule cannot change its matches: they are behind a link, or the kernel will refuse.
func (r *Runner) protected(t *tree.Tree, rule *rules.Rule, before *DonorValues, found []tree.Match) []string {
	found = without(found, func(m tree.Match) bool {
		return rule.Excepts(m.Name) || before.protects(m.Path) || rule.Only == "files" && m.Info.IsDir()
	})
	if whys := linked(t, rule, found); len(whys) > 0 {
		return whys
	}
	for _, m := range found {
		if isLink(m) {
			continue
		}
		if at := t.Immutable(m.Path); at != "" {
			return []string{fmt.Sprintf("rule %s: /%s cannot be changed, because the file or directory is immutable or append-only: run chattr -i -a /%s", rule.ID, at, at)}
		}
	}
	return nil
}

// refused returns the match of a refusing rule.
func (r *Runner) refused(t *tree.Tree, rule *rules.Rule, found []tree.Match) ([]string, error) {
	found = without(found, func(m tree.Match) bool {
		return rule.Excepts(m.Name) || rule.Only == "files" && m.Info.IsDir() || !contains(rule, t, m.Path) || rule.Pattern != "" &&
			rule.Agent == "" && removes(r.Profile, t, m.Path)
	})
	if len(found) == 0 {
		return nil, nil
	}
	why := whyContained(rule, t, found[0].Path)
	return []string{fmt.Sprintf("rule %s: /%s %s (%d found). %s", rule.ID, found[0].Path, why, len(found), rule.Reason)}, nil
}

// unmade returns why nothing creates the matches of a rule again.
func (r *Runner) unmade(t *tree.Tree, rule *rules.Rule, before *DonorValues, found []tree.Match) ([]string, error) {
	if r.allowed(rule) {
		return nil, nil
	}
	found = without(found, func(m tree.Match) bool {
		return rule.Excepts(m.Name) || before.protects(m.Path) || !contains(rule, t, m.Path)
	})
	if len(found) == 0 {
		return nil, nil
	}
	why, err := noMaker(r.Profile, t, rule)
	if err != nil || why == "" {
		return nil, err
	}
	if rule.Allowable {
		why += fmt.Sprintf(". To remove the files all the same, pass --allow %s, or exempt the rule with refusal: true", rule.ID)
	}
	return []string{fmt.Sprintf("rule %s: /%s must be removed, and nothing creates it again: %s", rule.ID, found[0].Path, why)}, nil
}

// uneditable returns why an editor refuses the matches of a rule, after the edits of the other rules.
func (r *Runner) uneditable(t *tree.Tree, rule *rules.Rule, before *DonorValues, found []tree.Match) ([]string, error) {
	refuse := editors[rule.Editor].refuse
	if r.allowed(rule) {
		refuse = nil
	}
	found = without(found, func(m tree.Match) bool {
		return removes(r.Profile, t, m.Path) || slices.Contains(before.allNamed(), m.Path) || isNoText(t, rule, m)
	})
	for _, m := range found {
		if !m.Info.Mode().IsRegular() {
			return []string{fmt.Sprintf("rule %s: /%s is not a regular file, and Kamino does not edit it: replace it with a file", rule.ID, m.Path)}, nil
		}
		if refuse == nil {
			continue
		}
		content, err := t.Read(m.Path)
		if err != nil {
			return nil, err
		}
		for i := range r.Profile.Rules {
			if other := &r.Profile.Rules[i]; other.Editor == "drop-lines" && other.Matches(m.Path) && other.AppliesTo(before.OS) && !r.waived(other) {
				content = blankLines(content, other)
			}
		}
		if why := refuse(t, m.Path, content, before); why != "" {
			return []string{fmt.Sprintf("rule %s: /%s: %s. To change the file without a refusal, pass --allow %s, or exempt the rule with refusal: true", rule.ID, m.Path, why, rule.ID)}, nil
		}
	}
	return nil, nil
}

// notSwap checks visible and hidden files.
func (r *Runner) notSwap(t *tree.Tree, rule *rules.Rule, before *DonorValues) ([]string, error) {
	whys, err := notSwap(r.Profile, t, rule, before)
	if err != nil || r.Below == nil {
		return whys, err
	}
	more, err := notSwap(r.Profile, r.Below.Tree, rule, before)
	for _, why := range more {
		if !slices.Contains(whys, why) {
			whys = append(whys, why)
		}
	}
	return whys, err
}

func (r *Runner) allowable() string {
	var ids []string
	for _, rule := range r.Profile.Rules {
		if rule.Allowable {
			ids = append(ids, rule.ID)
		}
	}
	return strings.Join(ids, ", ")
}

func (r *Runner) waived(rule *rules.Rule) bool { return r.whyWaived(rule) != "" }

// allowed reports whether the user allowed a rule by name.
func (r *Runner) allowed(rule *rules.Rule) bool {
	return rule.Allowable && (slices.Contains(r.Allow, rule.ID) || slices.ContainsFunc(r.Profile.Exempt, func(e rules.Exemption) bool {
		return e.Refusal && e.Rule == rule.ID
	}))
}

// whyWaived returns why a rule is not applied; empty if it is.
func (r *Runner) whyWaived(rule *rules.Rule) string {
	if r.allowed(rule) && rule.Action.Is(rules.Refuse, rules.Delete) {
		return "allowed by name"
	}
	return r.Profile.Exempted(rule.ID)
}

// Run applies the profile, verifies the tree, and leaves the manifest in it. Run returns a *Refused if nothing was
// changed, and the manifest with an *UnprovenError if a rule is not met.
func (r *Runner) Run(ctx context.Context, t *tree.Tree) (*Manifest, error) {
	if err := r.Refusals(t); err != nil {
		return nil, err
	}
	before, err := LookBefore(t, r.Profile, r.Names...)
	if err != nil {
		return nil, err
	}
	for _, dir := range r.Spare {
		before.spared = append(before.spared, tree.Rel(dir))
	}
	if err := r.broken(t, before, false); err != nil {
		return nil, err
	}
	m := &Manifest{
		Tool: r.Tool, Profile: r.Profile.Name, ProfileVersion: r.Profile.Version, RulesDigest: r.Profile.RulesDigest, RunSubject: r.Subject,
		OS: before.OS, UnknownFiles: r.UnknownFiles, DryRun: r.DryRun, Outcomes: []Outcome{}, Exempt: r.Profile.Exempt, Credentials: credentials(r.Profile, t, before),
	}
	m.literals = literals(t, before)
	if err := m.inherit(t, before); err != nil {
		return nil, NewRefused(err.Error())
	}
	if m.Quiet, m.unmasks, err = r.quietPaths(t); err == nil {
		err = r.keepForDonor(t, m)
	}
	if err != nil {
		return m, unproven(fmt.Sprintf("keep the files for the donor's return: %v; nothing was removed", err))
	}
	if err := r.begin(t); err != nil {
		return m, err
	}
	if err := r.applyAll(ctx, t, m, before); err != nil {
		return m, err
	}
	r.quieten(t, m)
	m.Unused = unused(r.Profile, t, m)
	if r.DryRun {
		m.expect()
		_, err := r.searchBefore(ctx, t, m, before)
		return m, err
	}
	r.combineVerdicts(m, Verify(t, r.Profile, before))
	if why := cmp.Or(r.whyNotReturned(t, m), whyNotQuiet(t, m)); why != "" {
		return m, unproven(why)
	}
	if _, err := t.FreePreallocated(ctx); err != nil {
		return m, unproven(err.Error())
	}
	if m.Scan, err = r.search(ctx, t, m); err != nil {
		return m, unproven(err.Error())
	}
	if t.Running() {
		m.judgeAgain(Verify(t, r.Profile, before))
	}
	if err := writeManifest(t, m); err != nil {
		return m, err
	}
	return m, m.unmet()
}

// unfinishedPath is a file on the disk from the first change to the end of the run. Until then the manifest on the disk, if
// any, is of an earlier run.
const unfinishedPath = "/var/lib/kamino/unfinished"

// begin leaves the file that shows an unfinished run.
func (r *Runner) begin(t *tree.Tree) error {
	if r.DryRun {
		return nil
	}
	const text = "A run of kamino-node generalize changed this disk, and did not come to its end. The disk must not be copied.\n"
	if err := t.Replace(tree.Rel(unfinishedPath), []byte(text), 0o644); err != nil {
		return unproven(fmt.Sprintf("mark the beginning of the run: %v; nothing was removed", err))
	}
	return nil
}

// Unfinished reports whether a run changed the disk and did not come to its end.
func Unfinished(t *tree.Tree) bool {
	_, err := t.Lstat(tree.Rel(unfinishedPath))
	return err == nil
}

// expect sets the verdicts of a dry run: a run applies each rule that is not waived, because nothing refused it.
func (m *Manifest) expect() {
	for i := range m.Outcomes {
		o := &m.Outcomes[i]
		if o.Waived {
			continue
		}
		m.Rules++
		if o.Met = o.Why == ""; o.Met {
			m.Met++
		}
	}
}

// applyAll applies the rules in order. Without a successful Install nothing is removed.
func (r *Runner) applyAll(ctx context.Context, t *tree.Tree, m *Manifest, before *DonorValues) error {
	for i := range r.Profile.Rules {
		rule := &r.Profile.Rules[i]
		if !rule.AppliesTo(before.OS) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("interrupted before rule %s, and the disk must not be copied: %w", rule.ID, err)
		}
		o := r.apply(t, rule, before)
		m.Outcomes = append(m.Outcomes, o)
		if rule.Action == rules.Install && o.Why != "" {
			return unproven(fmt.Sprintf("%s: %s; without the program that makes a new identity, nothing was removed", rule.ID, o.Why))
		}
	}
	if r.Below == nil {
		return nil
	}
	if err := r.treatHidden(m, before); err != nil {
		return unproven(err.Error())
	}
	return nil
}

// combineVerdicts combines the errors of the run with the verdicts of the second look.
func (r *Runner) combineVerdicts(m *Manifest, verdicts []RuleCheck) {
	for i := range m.Outcomes {
		o := &m.Outcomes[i]
		if o.Waived {
			continue
		}
		m.Rules++
		why := "the second check did not reach the rule"
		if j := slices.IndexFunc(verdicts, func(v RuleCheck) bool { return v.Rule == o.Rule }); j >= 0 {
			why = verdicts[j].Why
		}
		if why != "" {
			o.fail(why)
		}
		if o.Met = o.Why == ""; o.Met {
			m.Met++
		}
	}
}

// judgeAgain adds the verdicts of a look after the search: a process that still runs may have written meanwhile.
func (m *Manifest) judgeAgain(verdicts []RuleCheck) {
	for _, v := range verdicts {
		i := slices.IndexFunc(m.Outcomes, func(o Outcome) bool { return o.Rule == v.Rule })
		if v.Why == "" || i < 0 || !m.Outcomes[i].Met {
			continue
		}
		m.Outcomes[i].fail("after the search: " + v.Why)
		m.Outcomes[i].Met = false
		m.Met--
	}
}

// writeManifest writes the manifest into the tree.
func writeManifest(t *tree.Tree, m *Manifest) error {
	content, err := m.Encode()
	if err != nil {
		return err
	}
	if err := archive(t, content); err != nil {
		return fmt.Errorf("keep the manifest of an earlier run: %w", err)
	}
	if err := t.Replace(tree.Rel(ManifestPath), content, 0o644); err != nil {
		return err
	}
	_, err = t.Remove(tree.Rel(unfinishedPath), nil)
	return err
}

func findAll(t *tree.Tree, rule *rules.Rule) ([]tree.Match, error) {
	var all []tree.Match
	// Directories of logs have many thousand files.
	seen := map[string]bool{}
	for _, pattern := range rule.Paths {
		found, err := t.Glob(tree.Rel(pattern))
		if err != nil {
			return nil, fmt.Errorf("rule %s: look for %s: %w", rule.ID, pattern, err)
		}
		for _, m := range found {
			if !seen[m.Path] {
				seen[m.Path], all = true, append(all, m)
			}
		}
	}
	return all, nil
}
