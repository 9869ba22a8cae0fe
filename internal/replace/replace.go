// Package replace rebuilds the nodes of a pool that run what must go, a version or an image: each is taken, cordoned, drained
// with regard to budgets, rebuilt by its cloud from what the pool's recipe names, waited for, and given back as it was.
//
// A pass looks at the nodes, has package plan decide, and does one thing to each node that is taken; then it takes more,
// where there is room. What must not be forgotten is written on the node before anything is done to it, and why it could not
// be rebuilt when it is given back. So whoever makes the next pass, this process or another, goes on where the last one was.
//
// It does not decide which version is bad, nor point recipes at another one (package history and its callers).
package replace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/replace/plan"
)

// ErrStopped is returned where the recipe names another version than the nodes are to be rebuilt from.
var ErrStopped = errors.New("the recipe was changed")

// Replacement rebuilds nodes. Its Cloud must be Able. What it keeps of its passes beside its fields is what it has told, and
// when it looked: another one, with the same fields, goes on at any moment.
type Replacement struct {
	Kube  kubernetes.Interface
	Cloud cloud.Provider
	Pool  cloud.PoolID
	// Namespace of the Leases that say who holds which node: Kamino's own. DefaultNamespace if empty.
	Namespace string
	// From is the version that must go, To the one that the pool's recipe names.
	From, To string
	// Image that must go, as the cloud writes it, in place of a version; From then only names it.
	Image string
	// MaxUnavailable nodes of the pool may be out of service at once, those that are not Ready anyway
	// included; 1 if zero.
	MaxUnavailable int
	// AllAtOnce takes all nodes at the same time, drains none, and has no regard to budgets.
	AllAtOnce bool
	// Drain settings; a zero timeout stands for 15 minutes.
	Drain v1alpha1.DrainSettings
	// Kured is the DaemonSet of kured as NAMESPACE/NAME: while it holds its lock for another node, none is taken, unless
	// all are at once. None is looked for if it is empty.
	Kured string
	// ReadyTimeout is how long a node may take from its rebuild's begin until it is Ready: 30 minutes if zero.
	ReadyTimeout time.Duration
	// OwnNode is the node that this process runs on; empty if it runs on none. It is left alone.
	OwnNode string
	// Policy for which it is done; nil if a person asked, who has what failed before tried again at once.
	Policy *Policy
	// Nodes goes through the Nodes of the pool; nil asks the API server for all of the cluster.
	Nodes func(ctx context.Context, do func(*corev1.Node) error) error
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// Event is told what whoever looks at a node later should find: a type of corev1.Event, a reason, a sentence.
	// Nil for nobody.
	Event func(node *corev1.Node, kind, reason, note string)

	roster roster
	// began is when the first pass was made: a node that was late for somebody else has its time once more, and what failed
	// since is not tried again.
	began  time.Time
	failed map[string]cloud.Refusal
	// stays are nodes that ask to be left alone, and what asks: each is looked at once.
	stays map[string]string
	// askedAt is when the cloud was last asked about a node, which costs requests.
	askedAt map[string]time.Time
	// unannounced are nodes whose cloud this process asks first, until it answers. The answer may come after a pass that failed.
	unannounced map[string]bool
}

// Policy is what bounds a replacement that no person asked for.
type Policy struct {
	// Name is written on each node that is taken, so that the controller goes on with it.
	Name string
	// Limit of failed tries of one node, and Backoff after the first of them, which doubles up to a day.
	Limit   int
	Backoff time.Duration
	// Gone: there is no such policy any more. A node is given back unless its cloud was asked already.
	Gone bool
}

// Step is what was done to a node.
type Step struct {
	Node string
	plan.Step
}

// Report of a pass.
type Report struct {
	// Steps that were taken, in their order.
	Steps []Step
	// Taken nodes that are under way.
	Taken []string
	// Choice is what was seen of the rest when the nodes were last listed.
	Choice plan.Choice
	// After is when the next pass is due: at once where a step was taken that the next one follows.
	After time.Duration
}

// tempo is the pause between two passes while what is awaited comes by itself.
const tempo = 5 * time.Second

// Able tells whether the provider can do it.
func Able(provider cloud.Provider) bool {
	_, counts := cloud.As[cloud.Census](provider)
	_, rebuilds := cloud.As[cloud.Rebuilder](provider)
	return counts && rebuilds
}

// Pass moves each node that is taken one step on, and takes more where there is room. An error is one that does not pass by
// itself; what was done stays done, and a node that is taken stays taken.
func (r *Replacement) Pass(ctx context.Context) (Report, error) {
	report := Report{After: tempo}
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

// Take takes the next node, if one may be taken, and tells which; else what the choice waits for. It is the begin of a
// rebuild that Advance carries on.
func (r *Replacement) Take(ctx context.Context) (Report, error) {
	report := Report{After: tempo}
	if err := r.begin(); err != nil {
		return report, err
	}
	if err := r.list(ctx, &report); err != nil {
		return report, err
	}
	_, err := r.takeNext(ctx, &report)
	report.Taken, report.Choice = slices.Sorted(maps.Keys(r.roster.taken)), r.roster.choice
	return report, err
}

// begin makes what a replacement keeps beside its fields.
func (r *Replacement) begin() error {
	if !Able(r.Cloud) {
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

// add notes a step. Behind one that changed something the next is taken at once.
func (r *Report) add(step Step) {
	r.Steps = append(r.Steps, step)
	switch step.Action {
	case plan.Take, plan.Cordon, plan.Release, plan.GiveBack, plan.Drop:
		r.After = 0
	case plan.Wait, plan.Evict, plan.Ask, plan.Keep:
	}
}

// holder is who holds the nodes that go to this version in this pool, whoever started it.
func (r *Replacement) holder() v1alpha1.Holder {
	return v1alpha1.ReplacementHolder(r.Cloud.PoolName(r.Pool), string(r.Pool), r.To)
}

// reservations are the Leases that say who holds which node.
func (r *Replacement) reservations() node.Reservations {
	return node.Reservations{Kube: r.Kube, Namespace: r.Namespace, Now: r.Now}
}

// owns tells whether a node of the pool is held by this replacement, by what is on the Node.
func (r *Replacement) owns(reservation *v1alpha1.Reservation) bool {
	return reservation.Same(r.holder())
}

// Held tells whether the reservation is a replacement's that is done for a policy.
func Held(reservation *v1alpha1.Reservation) bool {
	return reservation != nil && reservation.Is(v1alpha1.HolderReplacement) && reservation.Rebuild != nil && reservation.Rebuild.Policy != ""
}

func (r *Replacement) event(n *corev1.Node, kind, reason, format string, args ...any) {
	if r.Event != nil {
		r.Event(n, kind, reason, fmt.Sprintf(format, args...))
	}
}
