package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/internal/reservations"
	"github.com/kamino-dev/kamino/internal/wording"
)

// reservations finds nodes that no running capture releases, and leftovers of deleted captures. Both are warnings:
// captures of other nodes still work.
func (d *Doctor) reservations(ctx context.Context) {
	seen := true
	for _, err := range []error{d.captureError, d.leaseError} {
		if err != nil {
			seen = false
			d.add(Finding{Level: Warn, Check: CheckReservations, Message: "unknown whether running captures reserve nodes: " + sentence(err)})
		}
	}
	working := 0
	for _, n := range d.reservedNodes {
		if !n.Left() {
			working++
		} else if d.captureError == nil || !byCaptures(n) {
			d.add(Finding{Level: Warn, Check: CheckReservations, Message: d.describeReservation(n), Remedy: remedyFor(n)})
		}
	}
	left, err := reportLeftovers(ctx, d)
	switch {
	case !seen || err != nil:
	case working == len(d.reservedNodes) && left == 0 && working > 0:
		d.ok(CheckReservations, "", "%s reserved by running captures, and no other node is reserved", wording.Are(working, "node"))
	case len(d.reservedNodes)+left == 0:
		d.ok(CheckReservations, "", "no node is reserved, and no capture left resources")
	}
}

// reportLeftovers adds a warning for each leftover of a deleted capture, and returns the number.
func reportLeftovers(ctx context.Context, d *Doctor) (int, error) {
	if d.Leftovers == nil {
		return 0, nil
	}
	found, err := d.Leftovers(ctx, d.ordered())
	if err != nil {
		d.add(Finding{Level: Warn, Check: CheckReservations, Message: "leftovers of deleted captures are unknown: " + sentence(err)})
	}
	for _, l := range found {
		d.add(Finding{Level: Warn, Check: CheckReservations, Message: fmt.Sprintf("%s %s is a leftover of the deleted prototype %s", l.Kind, l.Name, l.Prototype),
			Remedy: "wait for the controller, or run kamino release-node --leftovers"})
	}
	return len(found), err
}

// remedyFor is the command that releases a node of no running capture.
func remedyFor(n reservations.Node) string {
	switch {
	case !n.Returnable():
		return "wait, or run `kamino release-node` of the Kamino version that reserved the node"
	case !n.Believed():
		return "kamino release-node " + n.Name + " --node-only"
	}
	return "kamino release-node " + n.Name
}

// byCaptures reports whether only the list of Prototypes can show that no running capture holds the node.
func byCaptures(n reservations.Node) bool {
	return n.State == reservations.Orphaned || n.State == reservations.Unconfirmed || n.State == reservations.Stripped
}

// describeReservation names the holder of a node, and since when.
func (d *Doctor) describeReservation(n reservations.Node) string {
	since := ""
	if !n.Since.IsZero() {
		since = fmt.Sprintf(" for %s", d.Now().Sub(n.Since).Round(time.Minute))
	}
	switch n.State {
	case reservations.ByReplacement:
		return fmt.Sprintf("node %s is reserved%s by %s, which is running or was interrupted", n.Name, since, n.Holder)
	case reservations.ByUnknown:
		return fmt.Sprintf("node %s is reserved%s by %s", n.Name, since, n.Holder)
	case reservations.Unreadable:
		return fmt.Sprintf("node %s has an unreadable reservation", n.Name)
	case reservations.Stripped:
		return fmt.Sprintf("node %s is cordoned and scale-in protected, but has no Kamino reservation: either the reservation was deleted, or you cordoned the node yourself", n.Name)
	case reservations.Unconfirmed:
		return fmt.Sprintf("node %s has a reservation by %s without a Lease of Kamino: any user who may annotate Nodes can write the annotation, so Kamino ignores the reservation",
			n.Name, n.Holder.Brief())
	case reservations.Orphaned, reservations.ByCapture:
	}
	return fmt.Sprintf("node %s is reserved%s by %s, which is deleted or has ended", n.Name, since, n.Holder)
}
