package runner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/process"
)

// Growth tracks the new nodes that a pool gets after a capture.
type Growth struct {
	Cluster   *cluster.Connection
	Cloud     cloud.Provider
	Prototype *v1alpha1.Prototype
	// Since is the time at which the pool began to grow.
	Since time.Time
	// Want is the number of new nodes.
	Want int
}

// NewNode is a new Ready node.
type NewNode struct {
	Name string
	// BuiltFrom is the version of the instance, empty for another image. Err is the cloud's error.
	BuiltFrom string
	Err       error
}

// GrowthOf reads the growth of the pool from the Prototype. Nil if the capture did not grow the pool.
func GrowthOf(c *cluster.Connection, provider cloud.Provider, p *v1alpha1.Prototype) *Growth {
	g := &Growth{Cluster: c, Cloud: provider, Prototype: p, Want: int(p.Spec.Settings.Recipe.NewNodes)}
	for _, step := range p.Status.Steps {
		if step.Phase == v1alpha1.PhaseScalingOut {
			g.Since = step.StartedAt.Truncate(time.Second) // the precision of a Node's creation time
			break
		}
	}
	if g.Want == 0 || g.Since.IsZero() {
		return nil
	}
	return g
}

// growthInterval is the pause between two looks for new nodes.
const growthInterval = 3 * time.Second

// Await waits until Want nodes are Ready or the deadline is over, and returns the Ready nodes. The error is the context's,
// a permanent error of the API server or, at the deadline, the error of the last look.
func (g *Growth) Await(ctx context.Context, deadline time.Time, now func() time.Time) ([]*corev1.Node, error) {
	for {
		ready, err := g.ready(ctx)
		switch {
		case ctx.Err() != nil:
			return ready, ctx.Err()
		case err != nil && cluster.NotAllowed(err), err == nil && len(ready) >= g.Want, now().After(deadline):
			return ready, err
		}
		_ = process.Wait(ctx, growthInterval) // the next look reports the end of the context
	}
}

// ready are the pool's new Ready nodes.
func (g *Growth) ready(ctx context.Context) (ready []*corev1.Node, err error) {
	member, err := membership.OfPrototype(ctx, g.Cloud, g.Prototype, nil)
	switch {
	case err != nil:
		return nil, err
	case member.Pool == "":
		return nil, fmt.Errorf("the donor of prototype %s belongs to no pool: %s", g.Prototype.Name, member.Why)
	}
	err = membership.Each(ctx, g.Cluster.Kube, g.Cloud, "", func(n *corev1.Node, of cloud.Membership) error {
		if of.Pool == member.Pool && !n.CreationTimestamp.Time.Before(g.Since) && nodestate.Ready(n) {
			ready = append(ready, n.DeepCopy())
		}
		return nil
	})
	return ready, err
}

// BuiltFrom returns the version of each node.
func (g *Growth) BuiltFrom(ctx context.Context, nodes []*corev1.Node) []NewNode {
	reported := make([]NewNode, len(nodes))
	member, err := membership.OfPrototype(ctx, g.Cloud, g.Prototype, nil)
	if err != nil {
		member.Pool = "" // the facts of the instance itself are enough
	}
	for i, n := range nodes {
		instance, err := g.Cloud.Instance(ctx, cloud.InstanceID(n.Spec.ProviderID))
		reported[i] = NewNode{Name: n.Name, BuiltFrom: g.Cloud.BuiltFrom(member.Pool, instance), Err: err}
	}
	return reported
}
