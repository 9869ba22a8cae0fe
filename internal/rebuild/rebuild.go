// Package rebuild rebuilds the nodes of a pool that run an old version or image. Each node is reserved, cordoned,
// drained with respect for budgets, rebuilt by the cloud from the recipe, and returned to service.
//
// A pass reads the nodes, asks package plan, and does one step with each reserved node. Then it reserves further nodes
// within the limit. Records are written on the node before each action, and failures when the node returns. Any process
// can therefore make the next pass.
//
// Package history decides which version is bad and changes recipes.
package rebuild

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/rebuild/plan"
)

// ErrStopped is returned if the recipe changed to another version during the rebuild.
var ErrStopped = errors.New("the recipe was changed")

// Replacement rebuilds nodes. Its Cloud must be able to rebuild (CanRebuild). Besides its fields it remembers only earlier messages and
// requests: another Replacement with the same fields can continue at any moment.
type Replacement struct {
	Kube  kubernetes.Interface
	Cloud Cloud
	Pool  cloud.PoolID
	// Namespace of the Leases of reservations: Kamino's own namespace. DefaultNamespace if empty.
	Namespace string
	// From is the version to be replaced. To is the version in the pool's recipe.
	From, To string
	// Image is the image to be replaced, as the cloud writes it, instead of a version. From is then only its name in
	// messages.
	Image string
	// MaxUnavailable is the limit of the pool's nodes out of service at once, for any reason. Zero means 1.
	MaxUnavailable int
	// AllAtOnce reserves all nodes at the same time, without draining and without regard to budgets.
	AllAtOnce bool
	// Drain are the drain settings. A zero timeout means 15 minutes.
	Drain v1alpha1.DrainSettings
	// Kured is kured's DaemonSet as NAMESPACE/NAME. No node is reserved while kured reboots another node, except with
	// AllAtOnce. Empty: kured is ignored.
	Kured string
	// ReadyTimeout is the time from the start of a node's rebuild until it is Ready. Zero means 30 minutes.
	ReadyTimeout time.Duration
	// OwnNode is the node of this process; empty outside a node. It is left alone.
	OwnNode string
	// Policy is the policy behind the rebuild. Nil means a request by a person: earlier failures are then retried at
	// once.
	Policy *Policy
	// Nodes calls do for the Nodes of the pool. Nil lists the cluster's Nodes.
	Nodes func(ctx context.Context, do func(*corev1.Node) error) error
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// Recorder records events about nodes. May be nil.
	Recorder events.EventRecorder

	roster poolSnapshot
	// began is the time of the first pass. An overdue node gets its time again from then on, and failures since then
	// are not retried.
	began  time.Time
	failed map[string]cloud.Refusal
	// stays has the nodes with an annotation against disruption. Each node is checked once.
	stays map[string]string
	// askedAt is when the cloud was last asked about a node. Each request costs quota.
	askedAt map[string]time.Time
	// unannounced are the nodes without an event for their first request yet. The answer may come after a failed pass.
	unannounced map[string]bool
}

// Policy limits a rebuild that a policy requested.
type Policy struct {
	// Name is recorded on each reserved node, so that the controller can continue.
	Name string
	// Limit is the number of failures of one node, and Backoff the pause after the first failure. The pause doubles up
	// to a day.
	Limit   int
	Backoff time.Duration
	// Gone is true if the policy is deleted. A node then returns to service unless the cloud was already asked.
	Gone bool
}

// Step is a step with its node.
type Step struct {
	Node string
	plan.Step
}

// waiting is a step that changes nothing, with its news.
func waiting(says string) plan.Step {
	return plan.Step{Decision: plan.Decision{Do: plan.Wait}, Says: says}
}

// Report is the result of a pass.
type Report struct {
	// Steps are the steps of the pass, in order.
	Steps []Step
	// Taken are the nodes in progress.
	Taken []string
	// Choice is the choice from the last list of nodes.
	Choice plan.Choice
	// After is the pause before the next pass; zero after a step with a direct successor.
	After time.Duration
}

// pollInterval is the pause between two passes without progress.
const pollInterval = 5 * time.Second

// Pass moves each reserved node one step on, and reserves further nodes within the limit. Only permanent errors are
// returned. Finished steps stay done, and reserved nodes stay reserved.
func (r *Replacement) Pass(ctx context.Context) (Report, error) {
	report := Report{After: pollInterval}
	if err := r.begin(); err != nil {
		return report, err
	}
	if r.roster.at.IsZero() {
		if err := r.list(ctx, &report); err != nil {
			return report, err
		}
	}
	var trouble []error
	for _, name := range slices.Sorted(maps.Keys(r.roster.taken)) {
		step, err := r.Advance(ctx, name)
		if err != nil {
			trouble = append(trouble, err)
		}
		if err == nil || step.Refusal != nil {
			report.add(step)
		}
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
	}
	if err := errors.Join(trouble...); err != nil {
		return report, err
	}
	err := r.takeAll(ctx, &report)
	report.Taken, report.Choice = slices.Sorted(maps.Keys(r.roster.taken)), r.roster.choice
	return report, err
}

// Take reserves the next node, if possible, and reports the node or what delays the choice. Advance continues the
// rebuild.
func (r *Replacement) Take(ctx context.Context) (Report, error) {
	report := Report{After: pollInterval}
	if err := r.begin(); err != nil {
		return report, err
	}
	if err := r.list(ctx, &report); err != nil {
		return report, err
	}
	var refused []cloud.Refusal
	var err error
	if r.roster.choice = plan.Choose(r.roster.pool); r.roster.choice.Take != "" {
		refused, err = Refuse(ctx, r.Cloud, r.Pool)
	}
	if err == nil && refused == nil {
		_, err = r.takeNext(ctx, &report)
	}
	report.Taken, report.Choice = slices.Sorted(maps.Keys(r.roster.taken)), r.roster.choice
	for _, r := range refused {
		report.Choice.Waiting = r.Message
	}
	return report, err
}

// begin sets the defaults and the memory of a replacement.
func (r *Replacement) begin() error {
	if !r.Cloud.CanRebuild(r.Pool) {
		return &cloud.Error{Kind: cloud.Unsupported, Op: "rebuild nodes", Message: "this provider cannot rebuild instances"}
	}
	if r.failed != nil {
		return nil
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	if r.Drain.Timeout.Duration <= 0 {
		r.Drain.Timeout.Duration = 15 * time.Minute
	}
	if r.ReadyTimeout <= 0 {
		r.ReadyTimeout = 30 * time.Minute
	}
	r.MaxUnavailable = max(r.MaxUnavailable, 1)
	r.began, r.failed, r.stays, r.askedAt = r.Now(), map[string]cloud.Refusal{}, map[string]string{}, map[string]time.Time{}
	r.unannounced = map[string]bool{}
	return nil
}

// add appends a step. After a step that changed something the next pass is due at once.
func (r *Report) add(step Step) {
	r.Steps = append(r.Steps, step)
	switch step.Do {
	case plan.Take, plan.Cordon, plan.Release, plan.ReturnToService, plan.Drop:
		r.After = 0
	case plan.Wait, plan.Evict, plan.Ask, plan.Keep:
	}
}

// holder is the holder of all nodes that are rebuilt to this version in this pool, in any process.
func (r *Replacement) holder() v1alpha1.Holder {
	return v1alpha1.ReplacementHolder(r.Cloud.PoolName(r.Pool), string(r.Pool), r.To)
}

// reservations returns the access to the Leases.
func (r *Replacement) reservations() node.Reservations {
	return node.Reservations{Kube: r.Kube, Namespace: r.Namespace, Now: r.Now}
}

// owns reports whether the reservation on a Node is this replacement's.
func (r *Replacement) owns(reservation *v1alpha1.Reservation) bool {
	return reservation.Same(r.holder())
}

func (r *Replacement) event(n *corev1.Node, kind, reason, format string, args ...any) {
	if r.Recorder != nil {
		r.Recorder.Eventf(n, nil, kind, reason, "Rebuild", format, args...)
	}
}
