// Package prototype is the controller of Prototypes. The controller calls the capture engine after a change of a Prototype,
// of the generalize pod or of the donor's node. The engine also returns the time of the next pass.
//
// The controller decides only the time of a pass. Each pass of the engine reads all objects again and decides the next
// step.
package prototype

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// workers is the number of concurrent passes. A pass waits for a cloud only; the engine limits the number of reserved
// donors.
const workers = 8

// atOnce is the shortest delay that controller-runtime does not read as "never".
const atOnce = time.Millisecond

// Reconciler advances Prototypes, a pass at a time.
type Reconciler struct {
	// Pass is capture.Engine.Pass.
	Pass func(ctx context.Context, name string) (capture.Result, error)
}

// Reconcile runs one pass. After an error, Reconcile uses the engine's delay: the engine knows the cloud's Retry-After.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	result, err := r.Pass(ctx, request.Name)
	if err != nil {
		if ctx.Err() != nil {
			return reconcile.Result{}, nil // the process ends, and the next leader runs the pass
		}
		if apierrors.IsConflict(err) {
			log.FromContext(ctx).V(1).Info("pass met a conflict", "error", err.Error(), "retryAfter", result.After)
		} else {
			log.FromContext(ctx).Error(err, "pass failed", "retryAfter", result.After)
		}
	}
	if result.Done {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(result.After, atOnce)}, nil
}

// SetupWithManager registers the controller with a manager that has a cache with CacheOptions.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).
		Named("prototype").
		For(&v1alpha1.Prototype{}, builder.OnlyMetadata, builder.WithPredicates(news())).
		WatchesMetadata(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(prototypeOf)).
		WatchesMetadata(&v1alpha1.NodeOrder{}, handler.EnqueueRequestsFromMapFunc(ownerOf)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(holderOf), builder.WithPredicates(donorNews())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// CacheOptions limits a manager's cache to the metadata of Prototypes, of generalize pods and of orders.
func CacheOptions(namespace string) (cache.Options, error) {
	ours, err := labels.NewRequirement(v1alpha1.PrototypeLabel, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, err
	}
	pod := &metav1.PartialObjectMetadata{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	order := &metav1.PartialObjectMetadata{}
	order.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeOrder"))
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			pod:   {Namespaces: map[string]cache.Config{namespace: {}}, Label: labels.NewSelector().Add(*ours)},
			order: {Namespaces: map[string]cache.Config{namespace: {}}},
		},
	}, nil
}

// news passes a new Prototype and a deletion. The engine itself writes all other changes of a Prototype.
func news() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld, e.ObjectNew
			return before.GetGeneration() != after.GetGeneration() ||
				before.GetUID() != after.GetUID() ||
				before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// prototypeOf is the Prototype of a generalize pod.
func prototypeOf(_ context.Context, pod client.Object) []reconcile.Request {
	name := pod.GetLabels()[v1alpha1.PrototypeLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// ownerOf is the Prototype of an order: the order's pod has reported.
func ownerOf(_ context.Context, order client.Object) []reconcile.Request {
	for _, owner := range order.GetOwnerReferences() {
		if owner.Kind == "Prototype" {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: owner.Name}}}
		}
	}
	return nil
}

// donorNews passes changes that a capture waits for: the Ready condition of the donor, and a new boot.
func donorNews() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // the controller reads the Prototype itself at the start
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, isNode := e.ObjectOld.(*corev1.Node)
			after, isToo := e.ObjectNew.(*corev1.Node)
			return isNode && isToo && nodestate.BootOf(before) != nodestate.BootOf(after)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// holderOf is the Prototype that holds a node.
func holderOf(_ context.Context, node client.Object) []reconcile.Request {
	reservation, err := v1alpha1.ReservationOf(node.GetAnnotations())
	if err != nil || reservation == nil || !reservation.Is(v1alpha1.HolderPrototype) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: reservation.Name}}}
}
