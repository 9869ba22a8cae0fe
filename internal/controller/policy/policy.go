// Package policy is the controller of PrototypePolicies: it keeps the cluster's nodes in mind, as far as a
// decision reads them, and has package policy decide whenever one of them, a policy or a Prototype has news, and
// again when that package asked for it.
//
// It decides only when to decide. A heartbeat of a node is no news: it costs neither a pass nor a question to
// the cloud.
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
	"github.com/kamino-dev/kamino/internal/nodecache"
	decide "github.com/kamino-dev/kamino/internal/policy"
)

// gather is how long news wait for others, so that many nodes that change at once cost one pass. What is there at
// the start waits for nobody: no pass is made before all of it has come.
const gather = time.Second

// everything is the only request: a pass decides about all pools that have news.
var everything = reconcile.Request{NamespacedName: client.ObjectKey{Name: "all"}}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Reconciler makes passes over the policies.
type Reconciler struct {
	// Pass is policy.Decider's.
	Pass func(ctx context.Context) (after time.Duration, err error)
	// Nodes are what Pass decides on. The controller keeps them up to date.
	Nodes *nodecache.Nodes
	// PodsWait, if set, tells whether pods wait for nodes: newcomer.PodsWait. Expect is policy.Growth's then: it is told, and says
	// whether that is worth a pass.
	PodsWait func(ctx context.Context) (bool, error)
	Expect   func() bool

	begun   sync.Once
	hurries bool
}

// Reconcile makes one pass. One that did not get through is logged and made again.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	after, err := r.Pass(ctx)
	r.begun.Do(r.settle)
	if ctx.Err() != nil {
		return reconcile.Result{}, nil // the process ends; whoever comes next decides
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "pass over the policies did not get through", "retryAfter", after)
	}
	return reconcile.Result{RequeueAfter: max(after, gather)}, nil
}

// SetupWithManager registers the controller with a manager whose cache is made by nodecache.InformerOptions.
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

// ask for a pass: at once for what was there when the controller started, soon for what is new.
func ask(q queue, initial bool) {
	if initial {
		q.Add(everything)
	} else {
		q.AddAfter(everything, gather)
	}
}

// onNode keeps Nodes and asks for a pass when that was news.
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

// onChange asks for a pass when an object appears, goes, or changes in what is news of its kind.
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

// policyNews are a new spec, a wish to try again, and a deletion. The status is this controller's own writing.
func policyNews(before, after *v1alpha1.PrototypePolicy) bool {
	return before.Generation != after.Generation || before.UID != after.UID ||
		before.Annotations[v1alpha1.RetryAnnotation] != after.Annotations[v1alpha1.RetryAnnotation] ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
}
