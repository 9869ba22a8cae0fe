package rebuild

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/rebuild/plan"
)

// Controller rebuilds nodes for policies: Take reserves a node, and each pass advances each rebuild by one step. A pass
// also finishes rebuilds after a change of the policy. The nodes hold the state, so a new process continues.
type Controller struct {
	Kube  kubernetes.Interface
	Cloud Cloud
	Nodes *nodecache.Nodes
	// Policies reads policies.
	Policies client.Reader
	// Namespace, Kured, OwnNode, Now and Recorder: see Replacement.
	Namespace, Kured, OwnNode string
	Now                       func() time.Time
	Recorder                  events.EventRecorder
	// Ended, if set, receives the end of a node's rebuild: plan.Release, plan.ReturnToService or plan.Keep.
	Ended func(plan.Action)
	Log   logr.Logger

	// jobs by node name. A Replacement keeps the time of the last look and the read cache.
	work map[string]job
}

type job struct {
	begun time.Time
	*Replacement
}

const (
	// passInterval is the time between two passes.
	passInterval = 5 * time.Second
	// stepTime limits one step of one node, so that a cloud that hangs does not block other nodes for long.
	stepTime = 2 * time.Minute
)

// Request is a policy's request to reserve the next node of a pool's oldest image.
type Request struct {
	Pool   cloud.PoolID
	Policy string
	// Image is the image to replace, in the cloud's notation; From is its name, and To the version in the recipe.
	Image, From, To string
	Settings        v1alpha1.Settings
	Failures        v1alpha1.FailureSettings
	// MaxUnavailable is the number of the pool's nodes that may be out of service.
	MaxUnavailable int
}

// RequestResult is the result of a Request.
type RequestResult struct {
	// Node is the reserved node; empty if there is none, and then Waiting is the reason.
	Node    string
	Waiting string
	// Alone are the nodes that Kamino leaves alone, each with the reason.
	Alone map[string]cloud.Refusal
}

// Take reserves the next node.
func (c *Controller) Take(ctx context.Context, wish Request) (RequestResult, error) {
	r := c.replacement(wish.Pool, wish.Policy, wish.Settings, wish.Failures)
	r.Image, r.From, r.To, r.MaxUnavailable = wish.Image, wish.From, wish.To, wish.MaxUnavailable
	report, err := r.Take(ctx)
	taken := RequestResult{Waiting: report.Choice.Waiting, Alone: report.Choice.Alone}
	for _, step := range report.Steps {
		if step.Do == plan.Take {
			taken.Node = step.Node
		}
	}
	return taken, err
}

// NeedLeaderElection lets a manager start the Controller in one process only.
func (c *Controller) NeedLeaderElection() bool { return true }

// Start runs passes until the context ends. Start logs errors and tries again.
func (c *Controller) Start(ctx context.Context) error {
	ticker := time.NewTicker(passInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		c.Pass(ctx)
	}
}

// Pass advances each rebuild for a policy by one step.
func (c *Controller) Pass(ctx context.Context) {
	working := map[string]job{}
	for _, n := range c.Nodes.Reserved() {
		reservation, err := v1alpha1.ReservationOf(n.Annotations)
		if err != nil || !byPolicy(reservation) || ctx.Err() != nil {
			continue
		}
		j := c.work[n.Name]
		if j.Replacement == nil || !j.begun.Equal(reservation.ReservedAt.Time) {
			replacement, err := c.replacementOf(ctx, n, reservation)
			if err != nil {
				c.Log.Error(err, "node is not rebuilt yet", "node", n.Name)
				continue
			}
			if replacement == nil {
				continue
			}
			j = job{reservation.ReservedAt.Time, replacement}
		}
		working[n.Name] = j
		c.step(ctx, j, n.Name)
	}
	c.work = working
}

func (c *Controller) step(ctx context.Context, j job, name string) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	step, err := j.Advance(ctx, name)
	if err != nil && ctx.Err() == nil {
		c.Log.Error(err, "node is not rebuilt", "node", name)
	}
	if step.Says != "" {
		c.Log.V(1).Info("rebuilds", "node", name, "says", step.Says)
	}
	switch step.Do {
	case plan.Release, plan.ReturnToService, plan.Keep:
		if c.Ended != nil {
			c.Ended(step.Do)
		}
	case plan.Wait, plan.Take, plan.Cordon, plan.Evict, plan.Ask, plan.Drop:
	}
}

// byPolicy reports whether the reservation belongs to a rebuild for a policy.
func byPolicy(r *v1alpha1.Reservation) bool {
	return r != nil && r.Is(v1alpha1.HolderReplacement) && r.Rebuild != nil && r.Rebuild.Policy != ""
}

// replacementOf returns the replacement of a reservation's Lease, with the current settings of its policy, or with defaults for a
// deleted policy. Nil if no Lease confirms the rebuild of the node: the sweep reports such a node.
func (c *Controller) replacementOf(ctx context.Context, n *corev1.Node, shadow *v1alpha1.Reservation) (*Replacement, error) {
	held, err := (node.Reservations{Kube: c.Kube, Namespace: c.Namespace, Now: c.Now}).Confirmed(ctx, n)
	if err != nil || !byPolicy(held) || !held.Same(shadow.Holder) {
		return nil, err
	}
	of, err := membership.OfNode(ctx, c.Cloud, n)
	if err != nil {
		return nil, err
	}
	var p v1alpha1.PrototypePolicy
	err = c.Policies.Get(ctx, client.ObjectKey{Name: held.Rebuild.Policy}, &p)
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return nil, fmt.Errorf("policy %s: %w", held.Rebuild.Policy, err)
	}
	r := c.replacement(of.Pool, held.Rebuild.Policy, p.Spec.Settings, p.Spec.Failures)
	r.From, r.To, r.Policy.Gone = held.Rebuild.From, held.Rebuild.To, gone
	return r, nil
}

// replacement returns a replacement with the settings of a policy and the defaults.
func (c *Controller) replacement(pool cloud.PoolID, policy string, settings v1alpha1.Settings, failures v1alpha1.FailureSettings) *Replacement {
	settings, failures = settings.Defaulted(), v1alpha1.PrototypePolicySpec{Failures: failures}.Defaulted().Failures
	return &Replacement{
		Kube: c.Kube, Namespace: c.Namespace, Cloud: c.Cloud, Pool: pool, Drain: settings.Drain, Kured: c.Kured, OwnNode: c.OwnNode, Now: c.Now,
		Recorder: c.Recorder, ReadyTimeout: settings.OutOfService.Deadline.Duration,
		Policy: &Policy{Name: policy, Limit: int(failures.Limit), Backoff: failures.Backoff.Duration},
		Nodes: func(_ context.Context, do func(*corev1.Node) error) error {
			for _, n := range c.Nodes.Of(pool) {
				if err := do(n); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
