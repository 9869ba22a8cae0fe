package plan

import (
	"strings"
	"testing"
)

// TestUnreservedNodeIsDropped: a node that this replacement does not hold is dropped, and the sentence has the reason.
func TestUnreservedNodeIsDropped(t *testing.T) {
	for name, test := range map[string]struct {
		node   Node
		reason string
		says   string
	}{
		"returned to service":   {Node{Released: true}, "", "is released"},
		"no Lease confirms it":  {Node{Unconfirmed: true}, Unconfirmed, "without a Lease of Kamino"},
		"annotation is gone":    {Node{}, ReservationLost, "is gone"},
		"another holder has it": {Node{By: "prototype x"}, ReservationLost, "prototype x"},
	} {
		for _, n := range nodes() {
			n.Held, n.Gone = false, false
			n.Released, n.Unconfirmed, n.By = test.node.Released, test.node.Unconfirmed, test.node.By
			step := Next(n)
			reason, text := "", step.Says
			if step.Refusal != nil {
				reason, text = step.Refusal.Reason, step.Refusal.Message
			}
			if step.Do != Drop || reason != test.reason || !strings.Contains(text, test.says) {
				t.Fatalf("%s: %+v: %s, %s: %s", name, n, step.Do, reason, text)
			}
		}
	}
}

// TestARebuildWithoutItsPolicy returns a node to service if no rebuild was requested, and leaves a node that takes pods
// alone.
func TestARebuildWithoutItsPolicy(t *testing.T) {
	for _, n := range nodes() {
		if n.Gone || !n.Held {
			continue
		}
		n.Unattended, n.PolicyGone = true, true
		step := Next(n)
		if !n.Asked && step.Do != ReturnToService {
			t.Fatalf("%+v: %s, want %s", n, step.Do, ReturnToService)
		}
		if n.Asked && !n.Cordoned && n.Ready && !n.Rebooted && step.Do != Keep {
			t.Fatalf("%+v: %s, want %s", n, step.Do, Keep)
		}
	}
}
