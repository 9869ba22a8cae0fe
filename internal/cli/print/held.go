package print

import (
	"fmt"
	"io"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/held"
)

// HeldReport is who holds which nodes, and what captures have left that are gone.
type HeldReport struct {
	Nodes []held.Node     `json:"nodes"`
	Left  []held.Leftover `json:"left,omitempty"`
}

// returns says who gives a node back.
var returns = map[held.State]string{
	held.ByCapture:     "by itself",
	held.ByReplacement: "the same rollback again, or kamino return",
	held.Orphaned:      "kamino return, or a controller",
	held.Unreadable:    "kamino return",
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
		holder, since, state := n.Holder.String(), None, "not Ready"
		switch n.State {
		case held.Unreadable:
			holder = "unreadable"
		case held.Orphaned:
			holder += " (gone)"
		default:
		}
		if !n.Since.IsZero() {
			since = Duration(now.Sub(n.Since))
		}
		if n.Ready {
			state = "Ready"
		}
		if n.Cordoned {
			state += ", cordoned"
		}
		rows = append(rows, []string{n.Name, holder, since, state, returns[n.State]})
	}
	if len(rows) > 0 {
		if err := table(w, []string{"NODE", "HOLDER", "HELD FOR", "NODE IS", "GIVEN BACK"}, rows); err != nil {
			return err
		}
	}
	for _, l := range report.Left {
		if _, err := fmt.Fprintf(w, "Left by prototype %s, which is gone: %s %s; a controller removes it.\n", l.Prototype, l.Kind, l.Name); err != nil {
			return err
		}
	}
	return nil
}

// Return is what `kamino return` has done.
type Return struct {
	Node   string          `json:"node"`
	Holder v1alpha1.Holder `json:"holder"`
	DryRun bool            `json:"dryRun"`
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
	case v1alpha1.DonorReady:
	}
	return ""
}

// donorIs says of a donor that is held no longer where it is.
func donorIs(p *v1alpha1.Prototype) string {
	if DonorFound(p) != "" {
		return "is held no longer"
	}
	return "is back in service"
}
