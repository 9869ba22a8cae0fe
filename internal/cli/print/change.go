package print

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/wording"
)

// ChangeResult is the change of a pool's history by a verb, real or in a dry run.
type ChangeResult struct {
	// Verb is the name of the verb: rollback, quarantine, unquarantine, delete-version.
	Verb string `json:"verb"`
	Pool string `json:"pool"`
	// Version of the change; for a rollback the version that the pool leaves.
	Version string `json:"version"`
	// To is the target of a rollback.
	To string `json:"to,omitempty"`
	// Quarantined is the reason on Version after the change.
	Quarantined string `json:"quarantined,omitempty"`
	DryRun      bool   `json:"dryRun"`
	// Changed is false without a change, or for a dry run.
	Changed bool `json:"changed"`
	// Nodes with the image of Version; nil if unknown.
	Nodes []string `json:"nodes"`
	// Rebuilt nodes run To now. NotRebuilt nodes do not, each with the reason. Waiting is the reason of the other nodes.
	Rebuilt    []string          `json:"rebuilt,omitempty"`
	NotRebuilt map[string]string `json:"notRebuilt,omitempty"`
	Waiting    string            `json:"waiting,omitempty"`
	// Contents is the difference between the contents of two versions, in one line.
	Contents string `json:"contents,omitempty"`
	// Lines are the sentences about the change.
	Lines []string `json:"-"`
}

// WriteChangeResult writes the result; a dry run begins with a note.
func WriteChangeResult(w io.Writer, format output.Format, d ChangeResult) error {
	if format.Machine() {
		return output.Value(w, format, d)
	}
	lines := d.Lines
	if d.DryRun {
		lines = append([]string{"Dry run: nothing is changed."}, lines...)
	}
	return output.Prose(w, strings.Join(lines, "\n")+"\n")
}

// verb returns the form of a verb for a change, or for a dry run.
func verb(dryRun bool, is, would string) string {
	if dryRun {
		return would
	}
	return is
}

// Compare adds the difference between the contents of two versions, if known.
func (d *ChangeResult) Compare(line string) {
	if line != "" {
		d.Contents = line
		d.writeLine("Contents of version %s, %s.", d.Version, line)
	}
}

// Marked describes a quarantine, or the end of a quarantine.
func Marked(name string, m history.Mark, dryRun bool) ChangeResult {
	why, is := m.Tags[cloud.TagQuarantined], verb(dryRun, "is", "would be")
	if m.Done {
		is = "is already"
	}
	d := ChangeResult{Verb: name, Pool: m.Pool, Version: m.Version, Quarantined: why, DryRun: dryRun, Changed: !m.Done && !dryRun, Nodes: m.Nodes}
	if why == "" {
		d.writeLine("Version %s of pool %s %s not quarantined.", m.Version, m.Pool, is)
		return d
	}
	d.writeLine("Version %s of pool %s %s quarantined: %s", m.Version, m.Pool, is, why)
	d.writeLine("%s", staying(m.Version, m.Nodes))
	for _, child := range m.Freezes {
		d.writeLine("Version %s descends from version %s, and %s frozen until you decide: `kamino unquarantine %s %s`, or `kamino quarantine`.",
			child, m.Version, verb(dryRun && !m.Done, "is", "would be"), m.Pool, child)
	}
	if m.Prior == "" {
		d.writeLine("Pool %s has no version left for a rollback.", m.Pool)
	}
	return d
}

// Acknowledged describes the acknowledgement of an automatic rollback.
func Acknowledged(a history.Acknowledgement, dryRun bool) ChangeResult {
	d := ChangeResult{Verb: "acknowledge", Pool: a.Pool, DryRun: dryRun, Changed: !a.Done && !dryRun}
	if a.Done {
		d.writeLine("Pool %s has no automatic rollback to acknowledge.", a.Pool)
		return d
	}
	is := verb(dryRun, "is", "would be")
	for i, r := range a.AutoRollbacks {
		if i == 0 {
			d.Version, d.To = r.Version, r.To
		}
		if r.RollingBack {
			d.writeLine("The rollback of pool %s from version %s %s cancelled: the pool stays on the version.", a.Pool, r.Version, is)
		} else {
			d.writeLine("The automatic rollback of pool %s from version %s %s acknowledged.", a.Pool, r.Version, is)
		}
		if r.Bad {
			d.writeLine("Version %s stays quarantined; to lift the quarantine: `kamino unquarantine %s %s`.", r.Version, a.Pool, r.Version)
		}
	}
	d.writeLine("The policy of pool %s %s.", a.Pool, verb(dryRun, "captures its nodes again, within half an hour", "would capture its nodes again"))
	return d
}

// Retired describes a retirement.
func Retired(r history.Retirement, dryRun bool) ChangeResult {
	d := ChangeResult{Verb: "delete-version", Pool: r.Pool, Version: r.Version, DryRun: dryRun, Changed: !r.Done && !dryRun, Nodes: r.Nodes}
	d.writeLine("Version %s of pool %s %s.", r.Version, r.Pool, verb(dryRun && !r.Done, "is being deleted", "would be deleted"))
	d.writeLine("%s", staying(r.Version, r.Nodes))
	if r.Forgets {
		d.writeLine("The quarantine is deleted too: nodes of version %s, and nodes last patched before its capture, may become donors.", r.Version)
	}
	return d
}

// Promoted describes a promotion. saved is the Secret with the lost parts of the recipe; empty without lost parts. cautions
// are warnings about tools that can undo the promotion.
func Promoted(p history.Promotion, change cloud.RecipeChange, saved string, cautions []cloud.Refusal, dryRun bool) ChangeResult {
	d := ChangeResult{Verb: "promote", Pool: p.Pool, Version: p.Version, To: p.Version, DryRun: dryRun, Changed: !p.Done && !dryRun}
	if p.Done {
		d.writeLine("The recipe of pool %s already names version %s.", p.Pool, p.Version)
		return d
	}
	from := cmp.Or(change.From, "no image")
	if p.FromVersion != "" {
		from = "version " + p.FromVersion
	}
	d.writeLine("Pool %s %s new nodes from version %s instead of %s.", p.Pool, verb(dryRun, "now builds", "would build"), p.Version, from)
	if len(change.Removes) > 0 {
		d.writeLine("The recipe %s %s.", verb(dryRun, "lost", "would lose"), strings.Join(cloud.DescribeFields(change.Removes), ", "))
	}
	if p.Trial != "" {
		d.writeLine("Its trial: %s.", p.Trial)
	} else {
		d.writeLine("The version had no trial node.")
	}
	if saved != "" {
		d.writeLine("Secret %s keeps the recipe as it was before, as far as the cloud returns it.", saved)
	}
	d.writeLine("Running nodes do not change.")
	for _, c := range cautions {
		d.writeLine("Warning: %s. Remedy: %s.", c.What(), c.Remedy)
	}
	return d
}

// Pace limits the rebuild of nodes with a bad version.
type Pace struct {
	MaxUnavailable int
	AllAtOnce      bool
}

// RolledBack describes a rollback; pace is nil if the nodes of the version stay.
func RolledBack(r history.Rollback, pace *Pace, dryRun bool) ChangeResult {
	d := ChangeResult{
		Verb: "rollback", Pool: r.Pool, Version: r.From, To: r.To, Quarantined: r.Tags[cloud.TagQuarantined],
		DryRun: dryRun, Nodes: r.Nodes, Changed: !r.Done && !dryRun,
	}
	if r.Done {
		d.writeLine("Pool %s is already rolled back: the recipe names version %s, and version %s is quarantined.", r.Pool, r.To, r.From)
	} else {
		if d.Quarantined != "" {
			d.writeLine("Version %s %s quarantined: %s", r.From, verb(dryRun, "is", "would be"), d.Quarantined)
		}
		if !r.Finishes.IsZero() {
			d.writeLine("This finishes the automatic rollback to version %s, started at %s.", r.To, r.Finishes.UTC().Format(time.RFC3339))
		}
		d.writeLine("Pool %s %s new nodes from version %s.", r.Pool, verb(dryRun, "now builds", "would build"), r.To)
	}
	switch {
	case pace != nil:
		d.writeLine("%s", pace.describe(r, dryRun))
	case r.Done:
		d.writeLine("If version %s is bad too, name an older version: kamino rollback %s --to VERSION", r.To, r.Pool)
	default:
		d.writeLine("%s", staying(r.From, r.Nodes))
	}
	return d
}

// describe describes what happens to the nodes.
func (p *Pace) describe(r history.Rollback, dryRun bool) string {
	are := verb(dryRun, "are rebuilt now", "would be rebuilt")
	if len(r.Nodes) == 1 && !dryRun {
		are = "is rebuilt now"
	}
	how := fmt.Sprintf("%d at a time", p.MaxUnavailable)
	if p.AllAtOnce {
		how = "all at once"
	}
	switch {
	case r.Nodes == nil:
		return fmt.Sprintf("The nodes of version %s are not known yet; all nodes of the version %s from version %s, %s.", r.From, are, r.To, how)
	case len(r.Nodes) == 0:
		return fmt.Sprintf("No node runs version %s.", r.From)
	}
	return fmt.Sprintf("%s version %s and %s from version %s, %s: %s", runs(len(r.Nodes)), r.From, are, r.To, how, wording.Names(r.Nodes))
}

// Rebuilt describes the rebuild of the nodes of a pool's oldest image; oldest has no name if all nodes run the recipe's
// image.
func Rebuilt(h history.History, oldest imagecount.Image, pace Pace, dryRun bool) ChangeResult {
	d := ChangeResult{Verb: "rebuild", Pool: h.Pool, Version: oldest.Version, To: h.Recipe.Version, DryRun: dryRun}
	if d.Version == "" {
		d.Version = oldest.Name
	}
	if oldest.Name == "" {
		d.writeLine("All nodes of pool %s already run version %s.", h.Pool, h.Recipe.Version)
	} else {
		d.writeLine("%s %s, the oldest image of pool %s: %s from version %s, %d at a time.",
			runs(oldest.Count), d.Version, h.Pool, verb(dryRun, "rebuilt now", "to be rebuilt"), d.To, pace.MaxUnavailable)
	}
	return d
}

// Unfinished describes the progress and the rest of an incomplete rebuild.
func (d ChangeResult) Unfinished() (done, left string) {
	for _, name := range slices.Sorted(maps.Keys(d.NotRebuilt)) {
		left += fmt.Sprintf("\n  node %s %s", name, d.NotRebuilt[name])
	}
	if d.Waiting != "" {
		left += "\n  the other nodes wait: " + d.Waiting
	}
	first := fmt.Sprintf("pool %s is rolled back", d.Pool)
	if d.Verb == "rebuild" {
		first = fmt.Sprintf("pool %s has nodes of its oldest image", d.Pool)
	}
	if len(d.Rebuilt) == 0 {
		return first + ", but no node was rebuilt", left
	}
	return fmt.Sprintf("%s, and %s rebuilt, but not all", first, wording.Were(len(d.Rebuilt), "node")), left
}

func (d *ChangeResult) writeLine(format string, args ...any) {
	d.Lines = append(d.Lines, fmt.Sprintf(format, args...))
}

// staying names the nodes that a verb leaves unchanged.
func staying(version string, nodes []string) string {
	switch {
	case nodes == nil:
		return fmt.Sprintf("The nodes of version %s are unknown.", version)
	case len(nodes) == 0:
		return fmt.Sprintf("No node runs version %s.", version)
	case len(nodes) == 1:
		return fmt.Sprintf("1 node runs version %s and does not change: %s", version, nodes[0])
	default:
		return fmt.Sprintf("%d nodes run version %s and do not change: %s", len(nodes), version, wording.Names(nodes))
	}
}

// Launchable reports that the cloud still launches a quarantined version, if err is not nil.
func Launchable(w io.Writer, version string, err error) {
	if err != nil {
		_ = output.Prose(w, fmt.Sprintf("The cloud still launches version %s for clients that name it: %v\n", version, err))
	}
}

// Unlooked reports that the controller got no notice of the change, if err is not nil: the controller sees the change
// later.
func Unlooked(w io.Writer, err error) {
	if err != nil {
		_ = output.Prose(w, fmt.Sprintf("The controller was not notified and reacts within half an hour: %v\n", err))
	}
}
