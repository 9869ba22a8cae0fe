// Package replace rebuilds the nodes of a pool that run a version which must go: each is taken, cordoned, drained
// with regard to budgets, rebuilt by its cloud from what the pool's recipe names now, waited for, and given back
// as it was.
//
// It decides which node is next, how many may be out of service, and when one is given up. It does not decide
// which version is bad, nor point recipes at another one (package history and its callers).
//
// What a node's rebuilding must not forget is written on the node before anything is done to it, and everything
// else is looked at again in each pass. So whoever starts it again after a crash goes on where it was.
package replace

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// ErrStopped is returned where the recipe names another version than the nodes are to be rebuilt from.
var ErrStopped = errors.New("the recipe was changed")

// Replacer rebuilds nodes. Its Cloud must be Able.
type Replacer struct {
	Kube  kubernetes.Interface
	Cloud cloud.Provider
	Pool  cloud.PoolID
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
	// Now is the clock; time.Now if nil. Pause waits between two passes; 5 seconds if nil.
	Now   func() time.Time
	Pause func(ctx context.Context) error
	// Say is told of each step of a node, as part of a sentence: "is cordoned". Nil for nobody.
	Say func(node, what string)
	// Event is told what whoever looks at a node later should find: a type of corev1.Event, a reason, a sentence.
	// Nil for nobody.
	Event func(node *corev1.Node, kind, reason, note string)

	active map[string]*flight
	failed map[string]string
	done   []string
	// waiting names what keeps more nodes from being taken; empty if nothing does.
	waiting string
	// left is how many nodes are still to be taken, as of the last listing.
	left int
	// listedAt is when the nodes were last listed, and freed that one has left since; movedAt is when
	// anything last was under way.
	listedAt, movedAt time.Time
	freed             bool
	// lost nodes did not come back, and take the places of others.
	lost int
}

// flight is a node that is being rebuilt.
type flight struct {
	said     string
	rebuilds bool // the cloud was asked to
	begunAt  time.Time
	askedAt  time.Time
}

// Result tells what became of the nodes.
type Result struct {
	// Rebuilt nodes, in the order in which they came back.
	Rebuilt []string
	// Failed nodes, each with the reason. Those that were not rebuilt were given back; others are still taken.
	Failed map[string]string
	// Waiting says what kept the rest from being taken; empty if there is no rest.
	Waiting string
}

// Able tells whether the provider can do it.
func Able(provider cloud.Provider) bool {
	_, counts := cloud.As[cloud.Census](provider)
	_, rebuilds := cloud.As[cloud.Rebuilder](provider)
	return counts && rebuilds
}

// Run rebuilds until no node runs the version, or none can be taken any more. An error ends it early: what was
// done stays done, and a node that is taken stays taken until the next run.
func (r *Replacer) Run(ctx context.Context) (Result, error) {
	if !Able(r.Cloud) {
		return Result{}, &cloud.Error{Kind: cloud.Unsupported, Op: "rebuild nodes", Message: "this provider cannot rebuild instances"}
	}
	r.active, r.failed, r.done, r.lost, r.movedAt = map[string]*flight{}, map[string]string{}, nil, 0, r.now()
	if err := r.list(ctx); err != nil {
		return r.result(), err
	}
	for {
		over, err := r.pass(ctx)
		if err != nil || over {
			return r.result(), err
		}
		if err := r.pause(ctx); err != nil {
			return r.result(), err
		}
	}
}

const (
	// listEvery bounds how often all nodes and instances are listed while nothing can be taken.
	listEvery = 15 * time.Second
	// askEvery is how often the cloud is asked about a node that is being rebuilt and has not come back.
	askEvery = 20 * time.Second
)

// pass moves each node that is taken one step on, takes more where there is room, and tells whether it is over.
func (r *Replacer) pass(ctx context.Context) (over bool, err error) {
	for _, name := range sorted(r.active) {
		if err := r.step(ctx, name); err != nil {
			return false, err
		}
	}
	if len(r.active) < r.limit() && (r.freed || r.now().Sub(r.listedAt) >= listEvery) {
		if err := r.list(ctx); err != nil {
			return false, err
		}
	}
	if len(r.active) > 0 {
		r.movedAt = r.now()
		return false, nil
	}
	// Nothing is under way. What is left waits for something that is not ours to mend, and not for ever.
	return r.left == 0 || r.lost > 0 || r.now().Sub(r.movedAt) > r.readyTimeout(), nil
}

func (r *Replacer) limit() int {
	if r.AllAtOnce {
		return int(^uint(0) >> 1)
	}
	return max(r.MaxUnavailable, 1)
}

func (r *Replacer) result() Result {
	out := Result{Rebuilt: slices.Clone(r.done), Failed: r.failed}
	if r.left > 0 {
		out.Waiting = r.waiting
	}
	return out
}

// fail gives up on a node.
func (r *Replacer) fail(name, why string) {
	r.leave(name)
	r.failed[name] = why
	r.say(name, why)
}

// leave drops a node, whose place is free now.
func (r *Replacer) leave(name string) {
	delete(r.active, name)
	r.freed = true
}

func (r *Replacer) say(node, what string) {
	if r.Say != nil {
		r.Say(node, what)
	}
}

func (r *Replacer) event(n *corev1.Node, kind, reason, note string) {
	if r.Event != nil {
		r.Event(n, kind, reason, note)
	}
}

// sayOnce says what a node is at, when it is at something new.
func (r *Replacer) sayOnce(node, what string) {
	if f := r.active[node]; f != nil && f.said != what {
		f.said = what
		r.say(node, what)
	}
}

func (r *Replacer) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

func (r *Replacer) pause(ctx context.Context) error {
	if r.Pause != nil {
		return r.Pause(ctx)
	}
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (r *Replacer) drainTimeout() time.Duration {
	if d := r.Drain.Timeout.Duration; d > 0 {
		return d
	}
	return 15 * time.Minute
}

func (r *Replacer) readyTimeout() time.Duration {
	if r.ReadyTimeout > 0 {
		return r.ReadyTimeout
	}
	return 30 * time.Minute
}

func sorted[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
