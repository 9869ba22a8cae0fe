// Package rebuild finishes rebuilds of nodes for policies, also after a change of the policy. Package policy selects the
// node, and package replace decides the next step. The nodes hold the state, so a new process continues.
package rebuild

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/replace"
)

// Rebuilder advances rebuilds. All fields are required unless the comment says otherwise.
type Rebuilder struct {
	// Reserved lists the nodes with a reservation.
	Reserved func() []*corev1.Node
	// Replacement returns the replacement of a node, from the reservation's Lease and the policy. Nil if no Lease confirms
	// the annotation of the Node: Rebuilder leaves such a node alone.
	Replacement func(ctx context.Context, n *corev1.Node, held *v1alpha1.Reservation) (*replace.Replacement, error)
	// Did, if set, receives each step.
	Did func(replace.Step)
	// Every is the time between two passes. Default: 5 seconds.
	Every time.Duration
	Log   logr.Logger

	// jobs by node name. A Replacement keeps the time of the last look and the read cache.
	work map[string]job
}

type job struct {
	begun time.Time
	*replace.Replacement
}

// stepTime limits one step of one node, so that a cloud that hangs does not block other nodes for long.
const stepTime = 2 * time.Minute

// NeedLeaderElection lets a manager start the Rebuilder in one process only.
func (r *Rebuilder) NeedLeaderElection() bool { return true }

// Start runs passes until the context ends. Start logs errors and tries again.
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

// Pass advances each rebuild for a policy by one step.
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
