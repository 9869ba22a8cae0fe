package drive

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

// Growth is the new nodes that a pool gets behind a capture.
type Growth struct {
	Cluster   *cluster.Connection
	Cloud     cloud.Provider
	Prototype *v1alpha1.Prototype
	// Since the pool began to grow.
	Since time.Time
	// Want is by how many nodes it grows.
	Want int
}

// NewNode is one that has come and is Ready.
type NewNode struct {
	Name string
	// BuiltFrom is the version that its instance was built from, empty for another image; or why the cloud can't tell.
	BuiltFrom string
	Err       error
}

// GrowthOf reads off the Prototype by how much its capture let the pool grow, and when. Nil if it did not.
func GrowthOf(c *cluster.Connection, provider cloud.Provider, p *v1alpha1.Prototype) *Growth {
	g := &Growth{Cluster: c, Cloud: provider, Prototype: p, Want: int(p.Spec.Settings.Recipe.NewNodes)}
	for _, step := range p.Status.Steps {
		if step.Phase == v1alpha1.PhaseScalingOut {
			g.Since = step.StartedAt.Truncate(time.Second) // as a Node's age is kept
			break
		}
	}
	if g.Want == 0 || g.Since.IsZero() {
		return nil
	}
	return g
}

// growthTempo is the pause between two looks for nodes that are to come.
const growthTempo = 3 * time.Second

// Await waits until as many nodes as wanted are Ready, or until now is past the deadline, and returns those that are. Its
// error is the context's, or one of the API server that waiting does not mend; at the deadline, that of the last look.
func (g *Growth) Await(ctx context.Context, deadline time.Time, now func() time.Time) ([]*corev1.Node, error) {
	for {
		ready, err := g.ready(ctx)
		switch {
		case ctx.Err() != nil:
			return ready, ctx.Err()
		case err != nil && cluster.NotAllowed(err), err == nil && len(ready) >= g.Want, now().After(deadline):
			return ready, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(growthTempo):
		}
	}
}

// ready are the pool's Ready nodes that have come since.
func (g *Growth) ready(ctx context.Context) (ready []*corev1.Node, err error) {
	its, err := membership.OfPrototype(ctx, g.Cloud, g.Prototype, nil)
	switch {
	case err != nil:
		return nil, err
	case its.Pool == "":
		return nil, fmt.Errorf("the donor of prototype %s belongs to no pool: %s", g.Prototype.Name, its.Why)
	}
	err = membership.Each(ctx, g.Cluster.Kube, g.Cloud, "", func(n *corev1.Node, of cloud.Membership) error {
		if of.Pool == its.Pool && !n.CreationTimestamp.Time.Before(g.Since) && nodestate.Ready(n) {
			ready = append(ready, n.DeepCopy())
		}
		return nil
	})
	return ready, err
}

// BuiltFrom tells of each node what it was built from.
func (g *Growth) BuiltFrom(ctx context.Context, nodes []*corev1.Node) []NewNode {
	told := make([]NewNode, len(nodes))
	its, err := membership.OfPrototype(ctx, g.Cloud, g.Prototype, nil)
	if err != nil {
		its.Pool = "" // what the instance itself tells counts
	}
	for i, n := range nodes {
		instance, err := g.Cloud.Instance(ctx, cloud.InstanceID(n.Spec.ProviderID))
		told[i] = NewNode{Name: n.Name, BuiltFrom: g.Cloud.BuiltFrom(its.Pool, instance), Err: err}
	}
	return told
}
