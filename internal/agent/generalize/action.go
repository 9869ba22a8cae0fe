package generalize

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// maxIdentities is the number of hashed files of one rule in the manifest.
const maxIdentities = 64

// apply applies one rule. Errors go into the outcome, so that the other rules still run and the report is complete.
func (r *Runner) apply(t *tree.Tree, rule *rules.Rule, before *DonorValues) Outcome {
	o := Outcome{Rule: rule.ID, Action: rule.Action, Waived: r.waived(rule), Allowed: r.allowed(rule) && rule.Action.Is(rules.Regenerate, rules.Edit)}
	matches, err := before.matches(t, rule)
	if err != nil {
		o.fail(err.Error())
		return o
	}
	step := applied{runner: r, tree: t, rule: rule, before: before, Outcome: &o}
	if rule.Action == rules.Forget {
		if matches, err = step.withContainers(matches); err != nil {
			o.fail(err.Error())
		}
	}
	for _, m := range matches {
		if !step.concerns(m) {
			continue
		}
		o.found(before.masked(m.Path))
		if rule.Identity {
			step.identify(m)
		}
	}
	if o.Waived {
		o.Kept = r.whyWaived(rule)
		return o
	}
	if rule.Action == rules.Keep {
		o.Kept = rule.Reason
	}
	if r.DryRun || r.skip != nil && r.skip(rule) {
		return o
	}
	if err := step.act(matches); err != nil {
		o.fail(err.Error())
	}
	return o
}

// applied is one rule during its application.
type applied struct {
	*Outcome
	runner *Runner
	tree   *tree.Tree
	rule   *rules.Rule
	before *DonorValues
}

// concerns reports whether the rule applies to a match.
func (a *applied) concerns(m tree.Match) bool {
	if a.rule.Only == "files" && m.Info.IsDir() || a.rule.Excepts(m.Name) || a.rule.Action == rules.Regenerate && !contains(a.rule, a.tree, m.Path) {
		return false
	}
	// Stores have records of containers among the images that stay.
	return a.rule.Action.Is(rules.Keep, rules.Refuse, rules.Forget) || !a.before.protects(m.Path)
}

func (a *applied) act(matches []tree.Match) error {
	switch a.rule.Action {
	case rules.Record:
		return a.record()
	case rules.Install:
		return a.install()
	case rules.Edit:
		return a.each(matches, a.edit)
	case rules.Forget:
		return a.each(matches, a.forget)
	case rules.Regenerate:
		if why := whyNotMadeAgain(a.tree, a.rule); why != "" {
			return errors.New(why)
		}
		return a.each(matches, a.remove)
	case rules.Delete:
		if kept, err := a.unless(); kept || err != nil {
			return err
		}
		return a.each(matches, a.remove)
	case rules.Truncate:
		return a.truncate()
	default: // Refuse is handled earlier, and Keep needs no action.
		return nil
	}
}

// each acts on every match, and continues after an error.
func (a *applied) each(matches []tree.Match, act func(tree.Match) error) error {
	defer a.tree.Pass()()
	var problems []error
	for _, m := range matches {
		if !a.concerns(m) {
			continue
		}
		if why := whyNotFollowed(a.tree, m); why != "" {
			problems = append(problems, errors.New(why))
			continue
		}
		problems = append(problems, act(m))
	}
	return errors.Join(problems...)
}

func (a *applied) remove(m tree.Match) error {
	var keep func(string) bool
	if len(a.rule.Except) > 0 || a.before.protectsBelow(m.Path) {
		keep = func(p string) bool { return a.rule.Excepts(nameBelow(m, p)) || a.before.protects(p) }
	}
	removed, err := a.tree.Remove(m.Path, keep)
	a.Changed += removed.Files + removed.Dirs
	a.Bytes += removed.Bytes
	return err
}

// unless reports whether the rule's condition keeps the matches.
func (a *applied) unless() (bool, error) {
	u := a.rule.Unless
	if u == nil || a.Found == 0 {
		return false, nil
	}
	met, err := met(u, a.tree)
	if met {
		a.Kept = u.Reason
	}
	return met, err
}

func (a *applied) edit(m tree.Match) error {
	e := editors[a.rule.Editor]
	if isNoText(a.tree, a.rule, m) {
		return nil
	}
	if !m.Info.Mode().IsRegular() {
		return fmt.Errorf("/%s is not a regular file and is not edited", m.Path)
	}
	content, err := a.tree.Read(m.Path)
	if err != nil {
		return err
	}
	edited, to := e.edit(a.tree, m.Path, content, a.rule, a.before), m.Path
	if e.rename != nil {
		to = e.rename(m.Path, a.before)
	}
	if bytes.Equal(content, edited) && to == m.Path {
		return nil
	}
	a.Changed++
	if err := a.tree.Replace(to, edited, m.Info.Mode().Perm()); err != nil || to == m.Path {
		return err
	}
	_, err = a.tree.Remove(m.Path, nil)
	return err
}

// truncate empties files. Links are skipped: the target has its own rule, or the second look reports a non-empty file.
func (a *applied) truncate() error {
	for _, p := range a.rule.Paths {
		rel := tree.Rel(p)
		info, err := a.tree.Lstat(rel)
		switch {
		case errors.Is(err, fs.ErrNotExist) && a.rule.Present:
			continue
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			continue
		case err == nil && info.Mode().IsRegular() && info.Size() == 0:
			continue
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if err := a.tree.Replace(rel, nil, 0o444); err != nil {
			return err
		}
		a.Changed++
	}
	return nil
}

func (a *applied) install() error {
	p := tree.Rel(a.rule.Paths[0])
	if a.rule.Link != "" {
		if target, err := a.tree.Readlink(p); err == nil && target == a.rule.Link {
			return nil
		}
		a.Changed++
		return a.tree.Link(a.rule.Link, p)
	}
	if whyNotInstalled(a.tree, a.rule) == "" {
		return nil
	}
	// Replacing would keep the mode of the old file, but the profile sets the mode.
	if _, err := a.tree.Remove(p, nil); err != nil {
		return err
	}
	a.Changed++
	return a.tree.Replace(p, a.rule.Installed.Content, a.rule.Installed.Perm)
}

// record appends a line for this generation, unless the last line already is.
func (a *applied) record() error {
	p, err := followed(a.tree, tree.Rel(a.rule.Paths[0]))
	if err != nil {
		return err
	}
	content, err := optional(a.tree, p)
	if err != nil {
		return err
	}
	if recorded(content, a.before) {
		return nil
	}
	if len(content) > 0 && content[len(content)-1] != '\n' {
		content = append(content, '\n')
	}
	a.Changed++
	line := fmt.Sprintf("%s profile=%s/%s prototype=%s uid=%s node=%s %s%s\n", a.runner.Now().UTC().Format(time.RFC3339),
		a.runner.Profile.Name, a.runner.Profile.Version, dash(a.runner.Subject.Prototype), dash(string(a.runner.Subject.UID)),
		dash(strings.Join(a.before.Names[:min(1, len(a.before.Names))], "")), generationKey, dash(a.before.MachineID))
	return a.tree.Replace(p, append(content, line...), 0o644)
}

// generationKey precedes the hash of the machine ID. The hash distinguishes generations.
const generationKey = "machine-id-sha256="

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// recorded reports whether the last line of an ancestry log is for the machine's generation. A machine without a
// machine ID belongs to the generation of the last line.
func recorded(content []byte, before *DonorValues) bool {
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	_, id, found := strings.Cut(lines[len(lines)-1], generationKey)
	return found && (before.MachineID == "" || id == before.MachineID)
}

// identify hashes the regular files at and below a match.
func (a *applied) identify(m tree.Match) {
	err := a.tree.Walk(m.Path, func(p string, info fs.FileInfo) error {
		if len(a.Identities) >= maxIdentities {
			return fs.SkipAll
		}
		if !info.Mode().IsRegular() || info.Size() == 0 {
			return nil
		}
		sum, err := fileHash(a.tree, p)
		if err == nil {
			a.Identities = append(a.Identities, Identity{Path: "/" + p, SHA256: sum, Bytes: info.Size()})
		}
		return err
	})
	if err != nil {
		a.fail(fmt.Sprintf("hash what is removed: %v", err))
	}
}

func fileHash(t *tree.Tree, p string) (string, error) {
	f, err := t.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
