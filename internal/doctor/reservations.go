package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/wording"
)

// reserved finds nodes that no running capture releases, and leftovers of deleted captures. Both are warnings: captures of
// other nodes still work.
func reserved(ctx context.Context, c *observed) (found []Finding) {
	for _, err := range []error{c.captureError, c.leaseError} {
		if err != nil {
			found = append(found, warn("", "unknown whether running captures reserve nodes: %s", sentence(err)))
		}
	}
	working := 0
	for _, n := range c.reservedNodes {
		if !n.Left() {
			working++
		} else if c.captureError == nil || !byCaptures(n) {
			found = append(found, warn(remedyFor(n), "%s", describeReservation(n, c.Now())))
		}
	}
	if c.Leftovers != nil {
		left, err := c.Leftovers(ctx, c.ordered())
		if err != nil {
			found = append(found, warn("", "leftovers of deleted captures are unknown: %s", sentence(err)))
		}
		for _, l := range left {
			found = append(found, warn("wait for the controller, or run kamino return-node --leftovers", "%s %s is a leftover of the deleted prototype %s",
				l.Kind, l.Name, l.Prototype))
		}
	}
	switch {
	case len(found) > 0:
		return found
	case working > 0:
		return []Finding{ok("%s reserved by running captures, and no other node is reserved", wording.Are(working, "node"))}
	}
	return []Finding{ok("no node is reserved, and no capture left resources")}
}

// remedyFor is the command that releases a node of no running capture.
func remedyFor(n reservations.Node) string {
	switch {
	case !n.Returnable():
		return "wait, or run `kamino return-node` of the Kamino version that reserved the node"
	case !n.Believed():
		return "kamino return-node " + n.Name + " --node-only"
	}
	return "kamino return-node " + n.Name
}

// byCaptures reports whether only the list of Prototypes can show that no running capture holds the node.
func byCaptures(n reservations.Node) bool {
	return n.State == reservations.Orphaned || n.State == reservations.Unconfirmed || n.State == reservations.Stripped
}

// describeReservation names the holder of a node, and since when.
func describeReservation(n reservations.Node, now time.Time) string {
	since := ""
	if !n.Since.IsZero() {
		since = fmt.Sprintf(" for %s", now.Sub(n.Since).Round(time.Minute))
	}
	switch n.State {
	case reservations.ByReplacement:
		return fmt.Sprintf("node %s is reserved%s by %s, which is running or was interrupted", n.Name, since, n.Holder)
	case reservations.ByUnknown:
		return fmt.Sprintf("node %s is reserved%s by %s", n.Name, since, n.Holder)
	case reservations.Unreadable:
		return fmt.Sprintf("node %s has an unreadable reservation", n.Name)
	case reservations.Stripped:
		return fmt.Sprintf("node %s is cordoned and scale-in protected, but has no Kamino reservation: either the reservation was deleted, "+
			"or you cordoned the node yourself", n.Name)
	case reservations.Unconfirmed:
		return fmt.Sprintf("node %s has a reservation by %s without a Lease of Kamino: any user who may annotate Nodes can write the annotation, "+
			"so Kamino ignores the reservation",
			n.Name, n.Holder.Brief())
	case reservations.Orphaned, reservations.ByCapture:
	}
	return fmt.Sprintf("node %s is reserved%s by %s, which is deleted or has ended", n.Name, since, n.Holder)
}
