package runner

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	policycontroller "github.com/kamino-dev/kamino/internal/controller/policy"
	"github.com/kamino-dev/kamino/internal/metrics"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/pool/nodejoin"
	"github.com/kamino-dev/kamino/internal/rebuild"
	"github.com/kamino-dev/kamino/internal/rebuild/plan"
	"github.com/kamino-dev/kamino/internal/selection"
)

// decider returns the Decider of a controller. Decisions and captures do not share a rate limit for requests.
func (k *Controller) decider(manager ctrl.Manager, c *cluster.Connection, provider cloud.Provider, looks *policy.PoolCache) *policy.Decider {
	nodes, patcher := nodecache.NewNodes(provider), patcher(c, k.Options)
	looks.Intents = &policy.Intents{Kube: c.Kube, Namespace: k.Namespace}
	return &policy.Decider{
		Read: manager.GetCache(), Client: c.Client, Cloud: provider, Nodes: nodes, PoolCache: looks,
		OwnNode: k.OwnNode, Now: k.Now, Joins: joins(c, k.Options), Leased: leased(c, k.Options),
		Recorder: noteLimiter{manager.GetEventRecorder(eventSource)}, Log: k.Log.WithName("policy"),
		PatchChecks: policy.PatchChecks{Check: patcher.Check, Sweep: patcher.SweepChecks}, Permissions: provider.Permissions,
		NewNodes: newNodes(c, k.Options, nodes, k.now()),
		Observers: policy.Observers{
			Choice: func(pool policy.PoolRef, choice selection.Choice) {
				k.Counts.Decided(pool.ID, pool.Name, len(choice.Candidates), policy.Refused(choice))
			},
			Gone: func(pool policy.PoolRef) {
				if len(nodes.Of(pool.ID)) == 0 {
					k.Counts.PoolGone(pool.ID)
					return
				}
				k.Counts.Decided(pool.ID, pool.Name, 0, nil) // the pool still exists, but no policy decides
			},
			Rollback: func(pool policy.PoolRef) { k.Counts.CountRollback(pool.Name) }, JoinHealth: k.reportJoins, Patches: k.Counts.Patches,
			Stalled: k.Counts.PoliciesStalled, Degraded: k.Counts.CapturesRefused,
		},
	}
}

// now is the controller's clock.
func (k *Controller) now() time.Time {
	if k.Now == nil {
		return time.Now()
	}
	return k.Now()
}

// reportJoins exports the join tracking to Prometheus.
func (k *Controller) reportJoins(reported []policy.JoinHealth) {
	pools := make([]metrics.PoolJoins, len(reported))
	for i, p := range reported {
		pools[i] = metrics.PoolJoins{Pool: p.Pool.Name, Version: p.Version, Of: p.Tally, Suspect: p.Suspect, OfSuspect: p.SuspectTally,
			RolledBack: p.Frozen, Stays: p.Stays}
	}
	k.Counts.Joins(pools)
}

// rebuilds returns the controller of rebuilds for policies with spec.rebuild.
func (k *Controller) rebuilds(manager ctrl.Manager, provider cloud.Provider, decider *policy.Decider) *rebuild.Controller {
	return &rebuild.Controller{
		Kube: k.Cluster.Kube, Cloud: provider, Nodes: decider.Nodes, Policies: k.Cluster.Client, Namespace: k.Namespace, Kured: k.Kured,
		OwnNode: k.OwnNode, Now: k.Now, Log: k.Log.WithName("rebuild"),
		Recorder: noteLimiter{manager.GetEventRecorder(eventSource)}, Ended: func(a plan.Action) { k.Counts.NodeRebuilt(a == plan.Release) },
	}
}

// each calls several observers of an engine, in this order.
func each(observers ...func(ctx context.Context, before, after *v1alpha1.Prototype)) func(ctx context.Context, before, after *v1alpha1.Prototype) {
	return func(ctx context.Context, before, after *v1alpha1.Prototype) {
		for _, observe := range observers {
			observe(ctx, before, after)
		}
	}
}

// watchPolicies adds the policy controller to the manager. Definitions of an earlier release have no policies: captures
// continue, and the log names the missing definition.
func (k *Controller) watchPolicies(ctx context.Context, manager ctrl.Manager, c *cluster.Connection, decider *policy.Decider) error {
	err := c.Client.List(ctx, &v1alpha1.PrototypePolicyList{})
	switch {
	case apierrors.IsNotFound(err):
		k.Log.Info("this cluster has no definition of PrototypePolicies, so the controller follows no policy: run `" + v1alpha1.DefinitionsCommand +
			"`, then restart the controller")
		return nil
	case err != nil:
		return fmt.Errorf("list prototypepolicies: %w", err)
	}
	waits := func(ctx context.Context) (bool, error) { return nodejoin.PodsWait(ctx, c.Kube, k.now()) }
	return (&policycontroller.Reconciler{Pass: decider.Pass, Nodes: decider.Nodes, PodsWait: waits,
		Expect: func() bool { return decider.Growth.Expect(k.now()) }}).SetupWithManager(manager)
}
