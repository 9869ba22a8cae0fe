// Package policy is the controller of PrototypePolicies. The controller caches the fields of nodes that decisions need. The controller
// requests a pass of package policy after a change of a node, a policy or a Prototype. A pass also returns the time of the
// next pass.
//
// The controller decides only the time of a decision. A heartbeat of a node causes neither a pass nor a request to the
// cloud.
package policy

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	decide "github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
)

// gather is the time that changes wait for further changes, so that many changes cause one pass. Objects of the first list
// do not wait, because the first pass begins after the whole first list.
const gather = time.Second

// everything is the only request: a pass decides about all changed pools.
var everything = reconcile.Request{NamespacedName: client.ObjectKey{Name: "all"}}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Reconciler runs passes over the policies.
type Reconciler struct {
	// Pass is policy.Decider.Pass.
	Pass func(ctx context.Context) (after time.Duration, err error)
	// Nodes are the inputs of Pass. The controller updates Nodes.
	Nodes *nodecache.Nodes
	// PodsWait, if set, reports whether pods wait for nodes: nodejoin.PodsWait. Expect is policy.Growth.Expect, and reports
	// whether such pods need a pass.
	PodsWait func(ctx context.Context) (bool, error)
	Expect   func() bool

	begun   sync.Once
	hurries bool
}

// Reconcile runs one pass. After a failed pass, Reconcile logs the error and requests another pass.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	after, err := r.Pass(ctx)
	r.begun.Do(r.settle)
	if ctx.Err() != nil {
		return reconcile.Result{}, nil // the process ends, and the next leader decides
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "pass over the policies failed", "retryAfter", after)
	}
	return reconcile.Result{RequeueAfter: max(after, gather)}, nil
}

// SetupWithManager registers the controller with a manager that has a cache from nodecache.InformerOptions.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	cached := manager.GetCache()
	return ctrl.NewControllerManagedBy(manager).
		Named("policy").
		WatchesRawSource(source.Func(r.hurry)).
		WatchesRawSource(source.Func(r.watchGrowth)).
		WatchesRawSource(source.Kind(cached, &corev1.Node{}, r.onNode())).
		WatchesRawSource(source.Kind(cached, &v1alpha1.PrototypePolicy{}, onChange(policyNews))).
		WatchesRawSource(source.Kind(cached, &v1alpha1.Prototype{}, onChange(decide.News))).
		Complete(r)
}

// ask requests a pass: at once for objects of the first list, and after gather for changes.
func ask(q queue, initial bool) {
	if initial {
		q.Add(everything)
	} else {
		q.AddAfter(everything, gather)
	}
}

// onNode updates Nodes, and requests a pass after a relevant change.
func (r *Reconciler) onNode() handler.TypedEventHandler[*corev1.Node, reconcile.Request] {
	set := func(node *corev1.Node, q queue, initial bool) {
		if r.Nodes.Set(node) {
			ask(q, initial)
		}
	}
	return handler.TypedFuncs[*corev1.Node, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Node], q queue) {
			set(e.Object, q, e.IsInInitialList)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Node], q queue) {
			set(e.ObjectNew, q, false)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Node], q queue) {
			if r.Nodes.Delete(e.Object.Name) {
				ask(q, false)
			}
		},
	}
}

// onChange requests a pass after a creation, a deletion or a relevant change of an object.
func onChange[T client.Object](news func(before, after T) bool) handler.TypedEventHandler[T, reconcile.Request] {
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q queue) { ask(q, e.IsInInitialList) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) {
			if news(e.ObjectOld, e.ObjectNew) {
				ask(q, false)
			}
		},
		DeleteFunc: func(_ context.Context, _ event.TypedDeleteEvent[T], q queue) { ask(q, false) },
	}
}

// policyNews are a new spec, a retry and a deletion. The controller itself writes the status.
func policyNews(before, after *v1alpha1.PrototypePolicy) bool {
	return before.Generation != after.Generation || before.UID != after.UID ||
		before.Annotations[v1alpha1.RetryAnnotation] != after.Annotations[v1alpha1.RetryAnnotation] ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
}
