package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/unverified"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// Replacement is a capture whose donor is replaced: the pool grows by a node first, and the cloud deletes the donor's
// instance.
type Replacement struct {
	// Command is the cost of the command, Requests the requests to Azure.
	Command  CommandCost `json:"command"`
	Requests Requests    `json:"requests"`
	// Simulated is the duration in simulated time.
	Simulated time.Duration `json:"simulated"`
}

// replacementPool has nodes that join with kubeadm. The pool is in the sandbox of the other capture.
var replacementPool = pool.Spec{Name: "pool2", Nodes: 2, Max: 10, Profile: "bootstrap"}

// measureLeaving captures a node of a second pool.
func (o Options) measureLeaving(ctx context.Context, w *world.World) (*Replacement, error) {
	if err := w.AddPool(ctx, replacementPool.Complete()); err != nil {
		return nil, err
	}
	donor := ""
	for _, m := range w.Fleet().Machines() {
		if replacementPool.Is(m.Pool) && (donor == "" || m.Node < donor) {
			donor = m.Node
		}
	}
	w.Cloud().ResetStats()
	o.Say("capturing %s, a donor that does not return", donor)
	child, err := measured(ctx, o.programs(w.Environment()), o.Kamino, unverified.Capture(donor)...)
	if err != nil {
		return nil, err
	}
	stats := w.Cloud().Stats()
	return &Replacement{
		Command: child, Simulated: time.Duration(float64(child.Wall) * o.TimeScale),
		Requests: Requests{Counted: stats.Reads + stats.Writes, Polls: stats.Polls + stats.Repeats, ByOperation: stats.ByOperation},
	}, nil
}

// replacementRows compare a capture with removal and a capture without removal.
func (r Capture) replacementRows() [][3]string {
	if r.Replacement == nil {
		return nil
	}
	l := r.Replacement
	whole := func(c CommandCost, counted Requests, took time.Duration) string {
		return fmt.Sprintf("CPU %.2f s, %s, %d requests and %d polls, %.1f min of the cloud's time",
			c.CPU.Seconds(), mebibytes(c.PeakMemory), counted.Counted, counted.Polls, took.Minutes())
	}
	return [][3]string{
		{"a capture whose donor returns", whole(r.Command, r.Requests, r.took()), fmt.Sprintf("at most %.0f s", maxReturned.Seconds())},
		{"a capture with a removed donor, and a pool that grew before", whole(l.Command, l.Requests, l.Simulated),
			fmt.Sprintf("at most %.0f s", maxReplaced.Seconds())},
	}
}

func (r Capture) replacementChecks() []check {
	if r.Replacement == nil {
		return nil
	}
	return []check{{"time of a capture with a removed donor", r.Replacement.Simulated > maxReplaced}}
}
