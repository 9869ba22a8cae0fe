package print

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/held"
	"github.com/kamino-dev/kamino/internal/wording"
)

// HeldReport is who holds which nodes, and what captures have left that are gone.
type HeldReport struct {
	Nodes []held.Node     `json:"nodes"`
	Left  []held.Leftover `json:"left,omitempty"`
	// Pools that there are nodes of.
	Pools []cloud.PoolID `json:"-"`
}

// returns says who gives a node back.
var returns = map[held.State]string{
	held.ByCapture:     "by itself",
	held.ByReplacement: "the same rollback again, or kamino return",
	held.ByUnknown:     "a newer version of Kamino",
	held.Orphaned:      "kamino return, or a controller",
	held.Unreadable:    "kamino return",
	held.Stripped:      "kamino return, unless you keep it so",
	held.Unconfirmed:   "kamino return, and see who wrote that",
}

// returnedBy says who gives the node back, or removes one that cannot return.
func returnedBy(n held.Node) string {
	switch {
	case n.InService:
		return "kamino return, for it takes pods"
	case !n.Leaves:
		return returns[n.State]
	case n.State == held.ByCapture:
		return "never: its capture removes it"
	}
	return "never: it is removed by " + returns[n.State]
}

// Held writes the nodes that are held.
func Held(w io.Writer, format Format, report HeldReport, now time.Time) error {
	if format.Machine() {
		return Value(w, format, report)
	}
	if len(report.Nodes) == 0 && len(report.Left) == 0 {
		_, err := fmt.Fprintln(w, "No node is held.")
		return err
	}
	var rows [][]string
	for _, n := range report.Nodes {
		since, state := None, "not Ready"
		if !n.Since.IsZero() {
			since = wording.Duration(now.Sub(n.Since))
		}
		if n.Ready {
			state = "Ready"
		}
		if n.Cordoned {
			state += ", cordoned"
		}
		rows = append(rows, []string{n.Name, holderOf(n), since, state, returnedBy(n)})
	}
	if len(rows) > 0 {
		if err := table(w, []string{"NODE", "HOLDER", "HELD FOR", "NODE IS", "GIVEN BACK"}, rows); err != nil {
			return err
		}
	}
	for _, l := range report.Left {
		if _, err := fmt.Fprintf(w, "Left by prototype %s, which is gone: %s %s; a controller or `kamino return --leftovers` removes it.\n", l.Prototype, l.Kind, l.Name); err != nil {
			return err
		}
	}
	return nil
}

// holderOf names the holder of a node, and says what is wrong with the holder.
func holderOf(n held.Node) string {
	switch n.State {
	case held.Unreadable:
		return "unreadable"
	case held.Stripped:
		return "nobody (no reservation)"
	case held.ByUnknown:
		return n.Holder.Brief() + " (unknown)"
	case held.Orphaned:
		return n.Holder.String() + " (gone)"
	case held.Unconfirmed:
		return n.Holder.Brief() + " (unconfirmed)"
	default:
		return n.Holder.String()
	}
}

// HeldLines tells, with the remedies, of the nodes that nobody gives back, and of what was left: a part of a status.
func HeldLines(report HeldReport, now time.Time) []string {
	var lines []string
	for _, n := range report.Nodes {
		if !n.Left() {
			continue
		}
		line := fmt.Sprintf("Node %s is held", n.Name)
		if !n.Since.IsZero() {
			line += " for " + wording.Duration(now.Sub(n.Since))
		}
		lines = append(lines, line+heldBy(n))
	}
	for _, l := range report.Left {
		lines = append(lines, fmt.Sprintf("Prototype %s is gone and has left %s %s: a controller or `kamino return --leftovers` removes it", l.Prototype, l.Kind, l.Name))
	}
	return lines
}

// heldBy says by whom a node is held that nobody gives back who is known to be at work, and what to do.
func heldBy(n held.Node) string {
	back := fmt.Sprintf("`kamino return %s` gives it back", n.Name)
	if !n.Believed() {
		back = fmt.Sprintf("`kamino return %s --node-only` gives it back", n.Name)
	}
	if n.Leaves {
		back = fmt.Sprintf("it cannot join again, and `kamino return %s` removes it", n.Name)
	}
	switch n.State {
	case held.ByReplacement:
		return fmt.Sprintf(" by %s: the same rollback again goes on, and %s", n.Holder, back)
	case held.ByUnknown:
		return fmt.Sprintf(" by %s: the version that took it gives it back", n.Holder)
	case held.Unreadable:
		return " by a reservation that can't be read: " + back
	case held.Stripped:
		return " without a reservation: " + back
	case held.Unconfirmed:
		return fmt.Sprintf(" by %s, which no Lease of Kamino's confirms: see who writes annotation %s, and %s", n.Holder.Brief(), v1alpha1.ReservationAnnotation, back)
	case held.Orphaned, held.ByCapture:
	}
	return fmt.Sprintf(" by %s, which is gone or has ended: %s", n.Holder, back)
}

// Cleared is what `kamino return --leftovers` has removed.
type Cleared struct {
	Left   []held.Leftover `json:"left"`
	DryRun bool            `json:"dryRun"`
}

// ClearedAway writes it.
func ClearedAway(w io.Writer, format Format, c Cleared) error {
	if format.Machine() {
		return Value(w, format, c)
	}
	text := ""
	if c.DryRun {
		text = "Dry run: nothing is changed.\n"
	}
	if len(c.Left) == 0 {
		text += "No capture has left anything behind.\n"
	}
	is := "is removed"
	if c.DryRun {
		is = "would be removed"
	}
	for _, l := range c.Left {
		text += fmt.Sprintf("%s %s of prototype %s %s.\n", strings.ToUpper(l.Kind[:1])+l.Kind[1:], l.Name, l.Prototype, is)
	}
	_, err := io.WriteString(w, text)
	return err
}

// Return is what `kamino return` has done.
type Return struct {
	Node   string          `json:"node"`
	Holder v1alpha1.Holder `json:"holder"`
	DryRun bool            `json:"dryRun"`
	// Leaves tells that it is removed instead.
	Leaves bool `json:"leaves,omitempty"`
	// NodeOnly tells that nothing of its instance is changed.
	NodeOnly bool `json:"nodeOnly,omitempty"`
	// State of the node at the last look; empty for a dry run.
	State v1alpha1.DonorState `json:"state,omitempty"`
}

// Returned writes it.
func Returned(w io.Writer, format Format, r Return) error {
	if format.Machine() {
		return Value(w, format, r)
	}
	text := fmt.Sprintf("Node %s is given back, and was %s at the last look.", r.Node, r.State)
	switch {
	case r.DryRun && r.NodeOnly:
		text = fmt.Sprintf("Dry run: nothing is changed.\nNode %s would lose its reservation and the annotations of a hold, and be uncordoned. Its instance would stay as it is.", r.Node)
	case r.DryRun && r.Leaves:
		text = fmt.Sprintf("Dry run: nothing is changed.\nNode %s would be taken from %s and removed, with its instance, snapshot and pod: it cannot join again.", r.Node, r.Holder)
	case r.State == v1alpha1.DonorRemoved:
		text = fmt.Sprintf("Node %s is removed, with its instance: it could not join again.", r.Node)
	case r.DryRun:
		text = fmt.Sprintf("Dry run: nothing is changed.\nNode %s would be taken from %s and given back as it was: started if it is off, uncordoned, unprotected, with snapshot and pod removed.", r.Node, r.Holder)
	case r.State == v1alpha1.DonorReady:
		text = fmt.Sprintf("Node %s is given back, and is Ready.", r.Node)
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// DonorFound is what the last look found a donor to be that was given back, as the end of a sentence; empty if it was
// Ready, or nobody looked.
func DonorFound(p *v1alpha1.Prototype) string {
	if p.Status.Donor == nil {
		return ""
	}
	switch p.Status.Donor.State {
	case v1alpha1.DonorNotReady:
		return " and was not Ready at the last look"
	case v1alpha1.DonorOff:
		return " and was off at the last look"
	case v1alpha1.DonorNodeGone:
		return "; its Node was gone at the last look"
	case v1alpha1.DonorGone:
		return "; its instance was gone at the last look"
	case v1alpha1.DonorReady, v1alpha1.DonorRemoved:
	}
	return ""
}

// donorIs says of a donor that is held no longer where it is.
func donorIs(p *v1alpha1.Prototype) string {
	if removed(p) {
		return "is removed"
	}
	if DonorFound(p) != "" {
		return "is held no longer"
	}
	return "is back in service"
}

// removed tells of a donor that does not return, and is gone.
func removed(p *v1alpha1.Prototype) bool {
	return p.Status.Donor != nil && p.Status.Donor.State == v1alpha1.DonorRemoved
}

// letGo says what became of a donor whose capture has failed, as far as it was looked at.
func letGo(p *v1alpha1.Prototype) string {
	if removed(p) {
		return "removed, because it could not join again"
	}
	return "given back" + DonorFound(p)
}

// LetGoFirst says what a capture that is deleted does with its donor.
func LetGoFirst(p *v1alpha1.Prototype) string {
	if p.Spec.Settings.DonorLeaves() {
		return "given back, or removed if its disk was touched"
	}
	return "given back"
}
