package runner

import (
	"context"
	"slices"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// ChooseNode sets the node of a pioneer whose request names only the pool: the donor that a policy would choose. A
// running pioneer of the pool keeps its donor.
func (b *CaptureRequest) ChooseNode(ctx context.Context, pools *pool.Finder, name string) error {
	decider, _, err := b.Decider(ctx)
	if err != nil {
		return err
	}
	known := decider.Nodes.Pools()
	id, err := pools.Resolve(ctx, name, known)
	if err != nil {
		return err
	}
	if !slices.Contains(known, id) {
		return cluster.Refusef(
			"pool %s has no node in this cluster, and nothing was changed: grow the pool to two nodes first. Run `kamino status %s` to see the recipe",
			b.Cloud.PoolName(id), id)
	}
	plan, all, err := b.planOf(ctx, decider, id)
	if err != nil {
		return err
	}
	of, err := membership.OfPrototypes(ctx, b.Cloud, all)
	if err != nil {
		return err
	}
	b.ofPool = true
	if p := runningPioneer(plan.Pool.Its(all, of)); p != nil {
		b.Node = p.Spec.Donor.NodeName
		return nil
	}
	if best := plan.Choice.Best; best != nil {
		b.Node = best.Name
		return nil
	}
	return cluster.Refusef("no node of pool %s can be the pioneer, and nothing was changed: %s", plan.Pool.Name, plan.Choice.Message)
}

// planOf judges the nodes of a pool with an empty policy that has the settings of the request.
func (b *CaptureRequest) planOf(ctx context.Context, decider *policy.Decider, id cloud.PoolID) (policy.Plan, []v1alpha1.Prototype, error) {
	p := policy.AdHoc(AdHocName, string(id))
	p.Spec.Settings = b.Settings
	p.Spec.Pioneer = &v1alpha1.PolicyPioneerSettings{PioneerSettings: *b.Pioneer}
	p.Spec = p.Spec.Defaulted()
	plans, err := decider.Plan(ctx, []v1alpha1.PrototypePolicy{p}, nil)
	if err != nil {
		return policy.Plan{}, nil, err
	}
	if len(plans.Pools) != 1 {
		return policy.Plan{}, nil, cluster.Refusef("pool %s is not readable, and nothing was changed: run `kamino plan %s`", id, id)
	}
	return plans.Pools[0], plans.Prototypes, plans.Pools[0].Trouble
}

// runningPioneer is the running pioneer of a pool; nil without a pioneer.
func runningPioneer(ofPool []v1alpha1.Prototype) *v1alpha1.Prototype {
	for i := range ofPool {
		if p := &ofPool[i]; p.Spec.Pioneer != nil && !p.Status.Terminal() {
			return p
		}
	}
	return nil
}
