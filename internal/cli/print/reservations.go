package print

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/wording"
)

// ReservationReport lists reserved nodes with their holders, and leftovers of deleted captures.
type ReservationReport struct {
	Nodes     []reservations.Node     `json:"nodes"`
	Leftovers []reservations.Leftover `json:"leftovers,omitempty"`
	// Pools with nodes in the cluster.
	Pools []cloud.PoolID `json:"-"`
	// Facts say who releases a node.
	Facts attention.Facts `json:"-"`
}

// Reservations writes the reserved nodes.
func Reservations(w io.Writer, format output.Format, report ReservationReport, now time.Time) error {
	if format.Machine() {
		return output.Value(w, format, report)
	}
	if len(report.Nodes) == 0 && len(report.Leftovers) == 0 {
		_, err := fmt.Fprintln(w, "No node is reserved.")
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
		rows = append(rows, []string{n.Name, holderOf(n), since, state, attention.ReleasedBy(n, report.Facts)})
	}
	if len(rows) > 0 {
		if err := table(w, layoutOf(format, "NODE"), []string{"NODE", "HOLDER", "RESERVED FOR", "NODE IS", "RELEASED BY"}, rows); err != nil {
			return err
		}
	}
	for _, l := range report.Leftovers {
		if l.HeldBy != "" {
			if err := output.Prose(w, fmt.Sprintf("Leftover of deleted prototype %s: %s %s, which %s uses. Run `%s`; the controller then deletes the %s.\n",
				l.Prototype, l.Kind, l.Name, l.HeldBy, l.Release, l.Kind)); err != nil {
				return err
			}
			continue
		}
		then := "The controller deletes leftovers; without a controller, r"
		if l.Kind == reservations.TrialNode { // which no controller of Kamino deletes
			then = "R"
		}
		err := output.Prose(w, fmt.Sprintf("Leftover of deleted prototype %s: %s %s. %sun `%s`.\n", l.Prototype, l.Kind, l.Name, then, l.Command()))
		if err != nil {
			return err
		}
	}
	return nil
}

// holderOf names the holder of a node, with problems of the holder.
func holderOf(n reservations.Node) string {
	switch n.State {
	case reservations.Unreadable:
		return "unreadable"
	case reservations.Stripped:
		return "none (no reservation)"
	case reservations.ByUnknown:
		return n.Holder.Brief() + " (unknown)"
	case reservations.Orphaned:
		return n.Holder.String() + " (gone)"
	case reservations.Unconfirmed:
		return n.Holder.Brief() + " (unconfirmed)"
	default:
		return n.Holder.String()
	}
}

// DeletedLeftovers lists the leftovers that `kamino return-node --leftovers` deleted.
type DeletedLeftovers struct {
	Leftovers []reservations.Leftover `json:"leftovers"`
	DryRun    bool                    `json:"dryRun"`
}

// ClearedAway writes the removed objects.
func ClearedAway(w io.Writer, format output.Format, c DeletedLeftovers) error {
	if format.Machine() {
		return output.Value(w, format, c)
	}
	text := ""
	if c.DryRun {
		text = "Dry run: nothing is changed.\n"
	}
	if len(c.Leftovers) == 0 {
		text += "No capture left resources.\n"
	}
	for _, l := range c.Leftovers {
		text += fmt.Sprintf("%s %s of prototype %s %s.\n",
			strings.ToUpper(l.Kind[:1])+l.Kind[1:], l.Name, l.Prototype, verb(c.DryRun, "is removed", "would be removed"))
	}
	return output.Prose(w, text)
}

// ReturnedNode is the result of `kamino return-node`.
type ReturnedNode struct {
	Node   string          `json:"node"`
	Holder v1alpha1.Holder `json:"holder"`
	DryRun bool            `json:"dryRun"`
	// NodeOnly is true if the instance does not change.
	NodeOnly bool `json:"nodeOnly,omitempty"`
	// State of the node at the last read; empty for a dry run.
	State v1alpha1.DonorState `json:"state,omitempty"`
}

// Returned writes it.
func Returned(w io.Writer, format output.Format, r ReturnedNode) error {
	if format.Machine() {
		return output.Value(w, format, r)
	}
	text := fmt.Sprintf("Node %s is released. Last known state: %s.", r.Node, r.State)
	switch {
	case r.DryRun && r.NodeOnly:
		text = fmt.Sprintf("Dry run: nothing is changed.\nKamino would delete the reservation and its annotations from node %s, and uncordon the node. "+
			"The instance would not change.", r.Node)
	case r.DryRun:
		text = fmt.Sprintf("Dry run: nothing is changed.\nKamino would release node %s from %s: start the instance if stopped, "+
			"delete snapshot and pod, unprotect and uncordon the node.", r.Node, r.Holder)
	case r.State == v1alpha1.DonorReady:
		text = fmt.Sprintf("Node %s is back in service and Ready.", r.Node)
	}
	return output.Prose(w, text+"\n")
}

// DonorFound is the state of a returned donor at the last look, as the end of a sentence; empty for a Ready donor, or
// without a look.
func DonorFound(p *v1alpha1.Prototype) string {
	if p.Status.Donor == nil {
		return ""
	}
	switch p.Status.Donor.State {
	case v1alpha1.DonorNotReady:
		return " and was not Ready at the last check"
	case v1alpha1.DonorOff:
		return " and was stopped at the last check"
	case v1alpha1.DonorNodeGone:
		return "; its Node was missing at the last check"
	case v1alpha1.DonorGone:
		return "; its instance was missing at the last check"
	case v1alpha1.DonorReady, v1alpha1.DonorRemoved:
	}
	return ""
}

// donorIs describes the place of a donor that is no longer reserved.
func donorIs(p *v1alpha1.Prototype) string {
	if removed(p) {
		return "is removed"
	}
	if DonorFound(p) != "" {
		return "is no longer reserved"
	}
	return "is back in service"
}

// removed reports a donor that an earlier version of Kamino removed.
func removed(p *v1alpha1.Prototype) bool {
	return p.Status.Donor != nil && p.Status.Donor.State == v1alpha1.DonorRemoved
}

// letGo describes the donor after a failed capture, as far as known.
func letGo(p *v1alpha1.Prototype) string {
	if removed(p) {
		return "removed, because the node could not rejoin"
	}
	return "returned to service" + DonorFound(p)
}

// LetGoFirst describes the donor's release in a deleted capture.
func LetGoFirst(p *v1alpha1.Prototype) string {
	if p.Spec.StaysInService() {
		return "released, and stays in service"
	}
	return "returned to service"
}
