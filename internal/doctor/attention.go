package doctor

import (
	"context"
	"slices"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/wording"
)

// needsPerson lists what needs a person, from all that was read. Without the list of Prototypes, a node may belong to a
// running capture, so only what the list cannot change is said.
func (c *observed) needsPerson(pools []attention.Pool, left []reservations.Leftover) []attention.Item {
	facts := attention.Facts{Now: c.Now(), Prototypes: c.prototypes, Policies: c.policies, Lease: c.leaseState, Pools: pools, Leftovers: left}
	for _, n := range c.reservedNodes {
		if c.captureError == nil || !byCaptures(n) {
			facts.Reserved = append(facts.Reserved, n)
		}
	}
	return attention.List(facts)
}

// byCaptures reports whether only the list of Prototypes can show that no running capture holds the node.
func byCaptures(n reservations.Node) bool {
	return n.State == reservations.Orphaned || n.State == reservations.Unconfirmed || n.State == reservations.Stripped
}

// checkOf is the check to which an item belongs.
func checkOf(i attention.Item) string {
	switch {
	case i.Kind == attention.ControllerAbsent:
		return CheckLease
	case i.Kind == attention.NodeLeft, i.Kind == attention.Leftover:
		return CheckReservations
	case i.Reason == v1alpha1.PolicyUnreadable:
		return CheckInstallation
	}
	return CheckAttention
}

// findingsOf are the items of a check as findings.
func findingsOf(items []attention.Item, check string) (found []Finding) {
	for _, i := range items {
		if checkOf(i) != check {
			continue
		}
		found = append(found, FindingOf(i))
	}
	return found
}

// FindingOf is an item as a finding, in the words of `kamino status`.
func FindingOf(i attention.Item) Finding {
	f := warn(i.Command, "%s", i.Sentence())
	f.Check, f.Subject = checkOf(i), i.Pool
	refuses := i.Kind == attention.PoolRolledBack || i.Kind == attention.PoolRollingBack // captures
	if i.Severity == attention.Critical || refuses || f.Check == CheckInstallation {
		f.Level, f.Reason = Fail, i.Reason
	}
	return f
}

// attentive finds what needs a person about the cluster, and about pools that have no checks of their own.
func attentive(_ context.Context, c *observed) []Finding {
	items := slices.DeleteFunc(c.needsPerson(nil, nil), func(i attention.Item) bool {
		if i.Pool == "" {
			return false
		}
		for _, m := range c.pools {
			if m.name == i.Pool {
				return true
			}
		}
		return c.Only != "" && (c.Cloud != nil || i.Pool != c.Only)
	})
	if found := findingsOf(items, CheckAttention); len(found) > 0 {
		return found
	}
	if c.captureError != nil || c.policyError != nil {
		return []Finding{warn("", "unknown whether captures or policies need you: they could not be read")}
	}
	return nil
}

// calm says that nothing waits for a person, unless another finding says what does.
func calm(found []Finding) []Finding {
	if slices.ContainsFunc(found, func(f Finding) bool {
		return f.Check == CheckAttention || f.Level != OK && (f.Check == CheckLease || f.Reason == v1alpha1.PolicyUnreadable)
	}) {
		return nil
	}
	return []Finding{ok("no capture and no policy waits for you")}
}

// saidOf returns the pool for the list of what needs a person.
func saidOf(ctx context.Context, p *poolView) attention.Pool {
	images, err := p.Cloud.Images(ctx, p.id)
	if err != nil { // a finding of the check of versions
		return attention.Pool{Name: p.name}
	}
	return attention.PoolOf(history.Of(history.Facts{Pool: p.pool, Images: images}))
}

// reserved finds nodes that no running capture releases, and leftovers of deleted captures. Both are warnings: captures of
// other nodes still work.
func reserved(ctx context.Context, c *observed) (found []Finding) {
	for _, err := range []error{c.captureError, c.leaseError} {
		if err != nil {
			found = append(found, warn("", "unknown whether running captures reserve nodes: %s", sentence(err)))
		}
	}
	var left []reservations.Leftover
	if c.Leftovers != nil {
		var err error
		if left, err = c.Leftovers(ctx, reservations.Union(c.ordered(), reservations.PoolsOf(c.prototypes)), c.seen); err != nil {
			found = append(found, warn("", "leftovers of deleted captures are unknown: %s", sentence(err)))
		}
	}
	found = append(found, findingsOf(c.needsPerson(nil, left), CheckReservations)...)
	working := 0
	for _, n := range c.reservedNodes {
		if !n.Left() {
			working++
		}
	}
	switch {
	case len(found) > 0, working > 0 && len(findingsOf(c.needsPerson(nil, nil), CheckLease)) > 0: // a failure of the Lease
		return found
	case working > 0:
		return []Finding{ok("%s reserved by running captures, and no other node is reserved", wording.Are(working, "node"))}
	}
	return []Finding{ok("no node is reserved, and no capture left resources")}
}

// lease says which process works on captures.
func lease(_ context.Context, c *observed) []Finding {
	if found := findingsOf(c.needsPerson(nil, nil), CheckLease); len(found) > 0 {
		return found
	}
	switch {
	case c.stateError != nil:
		return []Finding{warn("", "the holder of the Lease is unknown: %s", c.stateError)}
	case c.leaseState.Holder == "":
		return []Finding{ok("no controller is running: `kamino capture` does the work")}
	}
	return []Finding{ok("%s executes captures", c.leaseState.Holder)}
}

// unreadable finds policies and Prototypes with fields that cannot be decoded.
func unreadable(_ context.Context, c *observed) (found []Finding) {
	if c.policyError != nil {
		found = append(found, warn("", "unknown whether policies need more permissions: %s", c.policyError))
	}
	return append(found, findingsOf(c.needsPerson(nil, nil), CheckInstallation)...)
}
