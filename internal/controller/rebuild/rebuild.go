// Package rebuild carries on the nodes that a policy has taken to have them rebuilt, each to its end, whatever became of the
// policy meanwhile. It decides nothing: which node is taken is package policy's, and the next step package replace's. What it
// works from stands on the nodes, so that a process that begins goes on where the last one ended.
package rebuild

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/replace"
)

// Rebuilder carries nodes on. All fields are needed, but those that say otherwise.
type Rebuilder struct {
	// Reserved lists the nodes that carry a reservation.
	Reserved func() []*corev1.Node
	// Replacement is what the node is rebuilt by, as the Lease of its reservation and its policy say; nil if no Lease confirms what
	// is on the Node, which is then left alone.
	Replacement func(ctx context.Context, n *corev1.Node, held *v1alpha1.Reservation) (*replace.Replacement, error)
	// Did, if set, is told of each step.
	Did func(replace.Step)
	// Every is the time between two looks: 5 seconds if zero.
	Every time.Duration
	Log   logr.Logger

	// at work on nodes, by name: what a replacement keeps is when it looked, and asks its cloud by.
	work map[string]job
}

type job struct {
	begun time.Time
	*replace.Replacement
}

// stepTime bounds one step of one node, so that a cloud that hangs does not hold up the others for long.
const stepTime = 2 * time.Minute

// NeedLeaderElection makes a manager start this in one process only.
func (r *Rebuilder) NeedLeaderElection() bool { return true }

// Start carries on until the context ends. What fails is logged and tried again.
func (r *Rebuilder) Start(ctx context.Context) error {
	every := r.Every
	if every == 0 {
		every = 5 * time.Second
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		r.Pass(ctx)
	}
}

// Pass moves each node that is being rebuilt for a policy one step on.
func (r *Rebuilder) Pass(ctx context.Context) {
	working := map[string]job{}
	for _, n := range r.Reserved() {
		held, err := v1alpha1.ReservationOf(n.Annotations)
		if err != nil || !replace.Held(held) || ctx.Err() != nil {
			continue
		}
		j := r.work[n.Name]
		if j.Replacement == nil || !j.begun.Equal(held.ReservedAt.Time) {
			replacement, err := r.Replacement(ctx, n, held)
			if err != nil {
				r.Log.Error(err, "node is not rebuilt yet", "node", n.Name)
				continue
			}
			if replacement == nil {
				continue
			}
			j = job{held.ReservedAt.Time, replacement}
		}
		working[n.Name] = j
		r.step(ctx, j, n.Name)
	}
	r.work = working
}

func (r *Rebuilder) step(ctx context.Context, j job, name string) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	step, err := j.Advance(ctx, name)
	if err != nil && ctx.Err() == nil {
		r.Log.Error(err, "node is not rebuilt", "node", name)
	}
	if step.Says != "" {
		r.Log.V(1).Info("rebuilds", "node", name, "says", step.Says)
	}
	if r.Did != nil {
		r.Did(step)
	}
}
