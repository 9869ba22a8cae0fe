package print

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/imagecount"
	"github.com/kamino-dev/kamino/internal/wording"
)

// ChangeResult is what a verb has done to a pool's history, or would do.
type ChangeResult struct {
	// Verb as it is called: rollback, quarantine, release, retire.
	Verb string `json:"verb"`
	Pool string `json:"pool"`
	// Version that it is about; for a rollback the one that the pool leaves.
	Version string `json:"version"`
	// To is the version that a rollback goes to.
	To string `json:"to,omitempty"`
	// Quarantined is the reason that stands on Version afterwards.
	Quarantined string `json:"quarantined,omitempty"`
	DryRun      bool   `json:"dryRun"`
	// Changed is false if all was so already, or for a dry run.
	Changed bool `json:"changed"`
	// Nodes that were built from Version; nil if nobody could count them.
	Nodes []string `json:"nodes"`
	// Rebuilt nodes run To now; NotRebuilt ones don't, each with the reason. Waiting says what kept the others.
	Rebuilt    []string          `json:"rebuilt,omitempty"`
	NotRebuilt map[string]string `json:"notRebuilt,omitempty"`
	Waiting    string            `json:"waiting,omitempty"`
	// Lines say all that in sentences.
	Lines []string `json:"-"`
}

// WriteChangeResult writes it; a dry run says so first.
func WriteChangeResult(w io.Writer, format Format, d ChangeResult) error {
	if format.Machine() {
		return Value(w, format, d)
	}
	lines := d.Lines
	if d.DryRun {
		lines = append([]string{"Dry run: nothing is changed."}, lines...)
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// Marked is what a quarantine is, or its end.
func Marked(verb string, m history.Mark, dryRun bool) ChangeResult {
	why, is := m.Tags[cloud.TagQuarantined], "is"
	switch {
	case m.Done:
		is = "is already"
	case dryRun:
		is = "would be"
	}
	d := ChangeResult{Verb: verb, Pool: m.Pool, Version: m.Version, Quarantined: why, DryRun: dryRun, Changed: !m.Done && !dryRun, Nodes: m.Nodes}
	if why == "" {
		d.say("Version %s of pool %s %s not quarantined.", m.Version, m.Pool, is)
		return d
	}
	d.say("Version %s of pool %s %s quarantined: %s", m.Version, m.Pool, is, why)
	d.say("%s", staying(m.Version, m.Nodes))
	if m.Prior == "" {
		d.say("Pool %s has no version left for a rollback.", m.Pool)
	}
	return d
}

// Acknowledged is what it is to acknowledge that a pool went back by itself.
func Acknowledged(a history.Acknowledgement, dryRun bool) ChangeResult {
	d := ChangeResult{Verb: "release", Pool: a.Pool, DryRun: dryRun, Changed: !a.Done && !dryRun}
	if a.Done {
		d.say("Pool %s has no automatic rollback to acknowledge.", a.Pool)
		return d
	}
	is := "is"
	if dryRun {
		is = "would be"
	}
	for i, r := range a.Returns {
		if i == 0 {
			d.Version, d.To = r.Version, r.To
		}
		if r.RollingBack {
			d.say("The rollback of pool %s from version %s %s cancelled: the pool stays on the version.", a.Pool, r.Version, is)
		} else {
			d.say("The automatic rollback of pool %s from version %s %s acknowledged.", a.Pool, r.Version, is)
		}
		if r.Bad {
			d.say("Version %s stays quarantined; to lift the quarantine: `kamino release %s %s`.", r.Version, a.Pool, r.Version)
		}
	}
	if dryRun {
		d.say("The policy of pool %s would capture its nodes again.", a.Pool)
	} else {
		d.say("The policy of pool %s captures its nodes again, within half an hour.", a.Pool)
	}
	return d
}

// Retired is what a retirement is.
func Retired(r history.Retirement, dryRun bool) ChangeResult {
	is := "is being deleted"
	if dryRun && !r.Done {
		is = "would be deleted"
	}
	d := ChangeResult{Verb: "retire", Pool: r.Pool, Version: r.Version, DryRun: dryRun, Changed: !r.Done && !dryRun, Nodes: r.Nodes}
	d.say("Version %s of pool %s %s.", r.Version, r.Pool, is)
	d.say("%s", staying(r.Version, r.Nodes))
	if r.Forgets {
		d.say("The quarantine is deleted too: nodes of version %s, and nodes last patched before its capture, may become donors.", r.Version)
	}
	return d
}

// Promoted is what a promotion is, with the Secret in which is kept what the recipe lost; empty if it lost nothing.
func Promoted(p history.Promotion, change cloud.RecipeChange, saved string, dryRun bool) ChangeResult {
	d := ChangeResult{Verb: "promote", Pool: p.Pool, Version: p.Version, To: p.Version, DryRun: dryRun, Changed: !p.Done && !dryRun}
	if p.Done {
		d.say("The recipe of pool %s already names version %s.", p.Pool, p.Version)
		return d
	}
	builds, loses, from := "now builds new nodes from version %s instead of %s.", "The recipe lost %s.", change.From
	if dryRun {
		builds, loses = "would build new nodes from version %s instead of %s.", "The recipe would lose %s."
	}
	if from == "" {
		from = "no image"
	}
	d.say("Pool %s "+builds, p.Pool, p.Version, from)
	if len(change.Removes) > 0 {
		d.say(loses, strings.Join(cloud.DescribeFields(change.Removes), ", "))
	}
	if p.Trial != "" {
		d.say("Its trial: %s.", p.Trial)
	} else {
		d.say("The version had no trial node.")
	}
	if saved != "" {
		d.say("Secret %s keeps the removed fields that the cloud returns.", saved)
	}
	d.say("Running nodes do not change.")
	return d
}

// Pace is how nodes are rebuilt that run a version which must go.
type Pace struct {
	MaxUnavailable int
	AllAtOnce      bool
}

// RolledBack is what a rollback is; pace is nil if the nodes that run the version stay as they are.
func RolledBack(r history.Rollback, pace *Pace, dryRun bool) ChangeResult {
	d := ChangeResult{
		Verb: "rollback", Pool: r.Pool, Version: r.From, To: r.To, Quarantined: r.Tags[cloud.TagQuarantined],
		DryRun: dryRun, Nodes: r.Nodes, Changed: !r.Done && !dryRun,
	}
	is, builds := "is quarantined", "now builds new nodes from version %s"
	if dryRun {
		is, builds = "would be quarantined", "would build new nodes from version %s"
	}
	if r.Done {
		d.say("Pool %s is already rolled back: the recipe names version %s, and version %s is quarantined.", r.Pool, r.To, r.From)
	} else {
		if d.Quarantined != "" {
			d.say("Version %s %s: %s", r.From, is, d.Quarantined)
		}
		if !r.Finishes.IsZero() {
			d.say("This finishes the automatic rollback to version %s, started at %s.", r.To, r.Finishes.UTC().Format(time.RFC3339))
		}
		d.say("Pool %s "+builds+".", r.Pool, r.To)
	}
	switch {
	case pace != nil:
		d.say("%s", pace.says(r, dryRun))
	case r.Done:
		d.say("If version %s is bad too, name an older version: kamino rollback %s --to VERSION", r.To, r.Pool)
	default:
		d.say("%s", staying(r.From, r.Nodes))
	}
	return d
}

// says what becomes of the nodes.
func (p *Pace) says(r history.Rollback, dryRun bool) string {
	are := "are rebuilt now"
	if len(r.Nodes) == 1 {
		are = "is rebuilt now"
	}
	if dryRun {
		are = "would be rebuilt"
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

// Rebuilt is what rebuilding the nodes of a pool's oldest image is; that has no name if all run what the recipe names.
func Rebuilt(h history.History, oldest imagecount.Image, pace Pace, dryRun bool) ChangeResult {
	d := ChangeResult{Verb: "rebuild", Pool: h.Pool, Version: oldest.Version, To: h.Recipe.Version, DryRun: dryRun}
	if d.Version == "" {
		d.Version = oldest.Name
	}
	how := "rebuilt now"
	if dryRun {
		how = "to be rebuilt"
	}
	if oldest.Name == "" {
		d.say("All nodes of pool %s already run version %s.", h.Pool, h.Recipe.Version)
	} else {
		d.say("%s %s, the oldest image of pool %s: %s from version %s, %d at a time.", runs(oldest.Count), d.Version, h.Pool, how, d.To, pace.MaxUnavailable)
	}
	return d
}

// Unfinished says how far the rebuilding of nodes came that did not get to its end, and what is left.
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

func (d *ChangeResult) say(format string, args ...any) {
	d.Lines = append(d.Lines, fmt.Sprintf(format, args...))
}

// staying says which nodes a verb leaves as they are.
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

// Unlooked says that a controller could not be told of what was done, if err is not nil: it sees it by itself.
func Unlooked(w io.Writer, err error) {
	if err != nil {
		fmt.Fprintf(w, "The controller was not notified and reacts within half an hour: %v\n", err)
	}
}
