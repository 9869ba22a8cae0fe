package drive

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/controller/rebuild"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/nodecache"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/replace"
	"github.com/kamino-dev/kamino/internal/replace/plan"
)

// Rebuilds rebuilds nodes for policies.
type Rebuilds struct {
	Options
	Cluster *cluster.Connection
	Cloud   cloud.Provider
	Nodes   *nodecache.Nodes
	// Policies reads policies.
	Policies client.Reader
	Recorder events.EventRecorder
	// Ended, if set, receives the end of a node's rebuild: plan.Release, plan.GiveBack or plan.Keep.
	Ended func(plan.Action)
}

// Take reserves the next node: see policy.Decider.Rebuild.
func (k *Rebuilds) Take(ctx context.Context, wish policy.Rebuild) (policy.Taken, error) {
	r := k.replacement(wish.Pool.ID, wish.Policy, wish.Settings, wish.Failures)
	r.Image, r.From, r.To, r.MaxUnavailable = wish.Image, wish.From, wish.To, wish.MaxUnavailable
	report, err := r.Take(ctx)
	taken := policy.Taken{Waiting: report.Choice.Waiting, Alone: report.Choice.Alone}
	for _, step := range report.Steps {
		if step.Action == plan.Take {
			taken.Node = step.Node
		}
	}
	return taken, err
}

// Rebuilder returns the controller that advances rebuilds.
func (k *Rebuilds) Rebuilder() *rebuild.Rebuilder {
	return &rebuild.Rebuilder{Reserved: k.Nodes.Reserved, Replacement: k.replacementOf, Did: k.did, Log: k.Log.WithName("rebuild")}
}

// replacementOf returns the replacement of a reservation's Lease, with the current settings of its policy, or with defaults for a
// deleted policy. Nil if no Lease confirms the rebuild of the node: the sweep reports such a node.
func (k *Rebuilds) replacementOf(ctx context.Context, n *corev1.Node, shadow *v1alpha1.Reservation) (*replace.Replacement, error) {
	held, err := (node.Reservations{Kube: k.Cluster.Kube, Namespace: k.Namespace, Now: k.Now}).Confirmed(ctx, n)
	if err != nil || !replace.Held(held) || !held.Same(shadow.Holder) {
		return nil, err
	}
	of, err := membership.OfNode(ctx, k.Cloud, n)
	if err != nil {
		return nil, err
	}
	var p v1alpha1.PrototypePolicy
	err = k.Policies.Get(ctx, client.ObjectKey{Name: held.Rebuild.Policy}, &p)
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return nil, fmt.Errorf("policy %s: %w", held.Rebuild.Policy, err)
	}
	spec := p.Spec.Defaulted()
	r := k.replacement(of.Pool, held.Rebuild.Policy, spec.Settings, spec.Failures)
	r.From, r.To, r.Policy.Gone = held.Rebuild.From, held.Rebuild.To, gone
	return r, nil
}

func (k *Rebuilds) replacement(pool cloud.PoolID, name string, settings v1alpha1.Settings, failures v1alpha1.FailureSettings) *replace.Replacement {
	settings = settings.Defaulted()
	failures = v1alpha1.PrototypePolicySpec{Failures: failures}.Defaulted().Failures
	r := &replace.Replacement{
		Kube: k.Cluster.Kube, Namespace: k.Namespace, Cloud: k.Cloud, Pool: pool, Drain: settings.Drain, Kured: k.Kured, OwnNode: k.OwnNode, Now: k.Now,
		ReadyTimeout: settings.OutOfService.Deadline.Duration,
		Policy:       &replace.Policy{Name: name, Limit: int(failures.Limit), Backoff: failures.Backoff.Duration},
		Nodes: func(_ context.Context, do func(*corev1.Node) error) error {
			for _, n := range k.Nodes.Of(pool) {
				if err := do(n); err != nil {
					return err
				}
			}
			return nil
		},
	}
	if k.Recorder != nil {
		r.Event = func(n *corev1.Node, kind, reason, note string) {
			k.Recorder.Eventf(n, nil, kind, reason, "Rebuild", "%s", note)
		}
	}
	return r
}

func (k *Rebuilds) did(step replace.Step) {
	switch step.Action {
	case plan.Release, plan.GiveBack, plan.Keep:
		if k.Ended != nil {
			k.Ended(step.Action)
		}
	case plan.Wait, plan.Take, plan.Cordon, plan.Evict, plan.Ask, plan.Drop:
	}
}
