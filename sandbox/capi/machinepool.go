package capi

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A machine pool of Cluster API's provider for Azure is a scale set. The provider writes the model and the size,
// creates an object for each instance, and chooses the instances to delete. selection.go makes the same choice.

// ScaleSet is the state of a scale set.
type ScaleSet struct {
	// There: the scale set exists. Image is the image of the model, and Capacity the wanted number of instances.
	There     bool
	Image     any
	Capacity  int64
	Instances []ScaleSetInstance
}

// ScaleSetInstance is an instance of a scale set.
type ScaleSetInstance struct {
	ProviderID, Number string
	// Image of the instance.
	Image any
	Runs  bool
}

// ScaleSets creates scale sets. Calls return at once, and are repeated. A pool is its object: Spec is the whole spec.
type ScaleSets interface {
	Get(ctx context.Context, pool Machine) (ScaleSet, error)
	// Apply sets the model and the size, which Apply never reduces. Existing instances stay unchanged.
	Apply(ctx context.Context, pool Machine, capacity int64) error
	// Drop starts to delete an instance and reduces the size, and reports whether the instance is gone.
	Drop(ctx context.Context, pool Machine, number string) (gone bool, err error)
}

const (
	kindPool         = "AzureMachinePool"
	kindPoolMachine  = "AzureMachinePoolMachine"
	labelCluster     = "cluster.x-k8s.io/cluster-name"
	labelPool        = "cluster.x-k8s.io/pool-name"
	labelOfPool      = "azuremachinepool.infrastructure.cluster.x-k8s.io/machine-pool"
	annotationDelete = "cluster.x-k8s.io/delete-machine"
)

// GateDeployment is the Deployment of the provider's manager, with the feature gates in its arguments.
var GateDeployment = types.NamespacedName{Namespace: "capz-system", Name: "capz-controller-manager"}

// gateSkip is the feature gate that keeps instances of older models.
const gateSkip = "SkipMachinePoolModelReconciliation"

// RunMachinePools runs the machine pools of the infrastructure provider for Azure until the context ends.
// GateDeployment holds the feature gates.
func RunMachinePools(ctx context.Context, config *rest.Config, sets ScaleSets, log logr.Logger) error {
	mgr, err := newManager(config, log)
	if err != nil {
		return err
	}
	r := &poolReconciler{client: mgr.GetClient(), direct: mgr.GetAPIReader(), sets: sets}
	err = ctrl.NewControllerManagedBy(mgr).Named(kindPool).For(empty(infrastructureAzure.WithKind(kindPool))).
		Watches(empty(coreVersion.WithKind("MachinePool")), handler.EnqueueRequestsFromMapFunc(infrastructureNamed)).
		Watches(empty(coreVersion.WithKind("Machine")), handler.EnqueueRequestsFromMapFunc(ofPool(labelPool))).
		Watches(empty(infrastructureAzure.WithKind(kindPoolMachine)), handler.EnqueueRequestsFromMapFunc(ofPool(labelOfPool))).
		Complete(r)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// poolReconciler maintains a scale set for each AzureMachinePool.
type poolReconciler struct {
	client client.Client
	direct client.Reader
	sets   ScaleSets
}

// infrastructureNamed is the infrastructure object of a MachinePool.
func infrastructureNamed(_ context.Context, o client.Object) []reconcile.Request {
	mp, is := o.(*unstructured.Unstructured)
	if !is {
		return nil
	}
	name, _, _ := unstructured.NestedString(mp.Object, "spec", "template", "spec", "infrastructureRef", "name")
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: mp.GetNamespace(), Name: name}}}
}

// ofPool maps an object to its pool by a label. Both kinds of pools must have the same name, as here.
func ofPool(label string) handler.MapFunc {
	return func(_ context.Context, o client.Object) []reconcile.Request {
		name, found := o.GetLabels()[label]
		if !found {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: name}}}
	}
}

// poolObservation is an observation of a pool.
type poolObservation struct {
	o, mp    *unstructured.Unstructured
	pool     Machine
	set      ScaleSet
	machines []unstructured.Unstructured
	skips    bool
	external bool
	desired  int64
}

// Reconcile implements reconcile.Reconciler.
func (r *poolReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o := empty(infrastructureAzure.WithKind(kindPool))
	if err := r.client.Get(ctx, request.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	look := &poolObservation{o: o, pool: Machine{UID: string(o.GetUID()), Namespace: o.GetNamespace(), Name: o.GetName(), Kind: kindPool,
		Labels: o.GetLabels(), Spec: spec}}
	if o.GetDeletionTimestamp() != nil {
		return r.remove(ctx, look)
	}
	if look.mp = machinePoolOf(ctx, r.client, o); look.mp == nil || o.GetAnnotations()["cluster.x-k8s.io/paused"] != "" {
		return reconcile.Result{}, nil
	}
	var found bool
	var err error
	if look.pool.Data, found, err = bootstrapOf(ctx, r.direct, look.mp, "spec", "template", "spec"); err != nil || !found {
		return reconcile.Result{RequeueAfter: pollInterval}, err
	}
	if controllerutil.AddFinalizer(o, finalizer) {
		return reconcile.Result{}, ignoreConflict(r.client.Update(ctx, o))
	}
	if look.set, err = r.sets.Get(ctx, look.pool); err != nil {
		return reconcile.Result{}, err
	}
	for _, step := range []func(context.Context, *poolObservation) error{r.replicas, r.apply, r.objects, r.choose, r.status} {
		if err := step(ctx, look); err != nil {
			return reconcile.Result{}, ignoreConflict(err)
		}
	}
	if look.settled() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: pollInterval}, nil
}

// settled: all instances run and have objects, and the size is as wanted.
func (l *poolObservation) settled() bool {
	idle := !slices.ContainsFunc(l.set.Instances, func(i ScaleSetInstance) bool { return !i.Runs })
	return idle && int64(len(l.set.Instances)) == l.set.Capacity && l.set.Capacity == l.desired && len(l.machines) == len(l.set.Instances)
}

// machinePoolOf returns the MachinePool that owns the pool, or nil.
func machinePoolOf(ctx context.Context, c client.Reader, o *unstructured.Unstructured) *unstructured.Unstructured {
	return ownerOf(ctx, c, o, "MachinePool")
}

// machineAbove returns the Machine that owns an object, or nil.
func machineAbove(ctx context.Context, c client.Reader, o *unstructured.Unstructured) *unstructured.Unstructured {
	return ownerOf(ctx, c, o, "Machine")
}

// ownerOf is the owner of a kind of Cluster API's core; nil if there is none.
func ownerOf(ctx context.Context, c client.Reader, o *unstructured.Unstructured, kind string) *unstructured.Unstructured {
	for _, ref := range o.GetOwnerReferences() {
		owner := empty(coreVersion.WithKind(kind))
		if ref.Kind == kind && c.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}, owner) == nil && owner.GetUID() == ref.UID {
			return owner
		}
	}
	return nil
}

// replicas reads the wanted number: from the MachinePool, or from the scale set if another controller sets the size.
// In the second case, replicas writes the number to the MachinePool.
func (r *poolReconciler) replicas(ctx context.Context, l *poolObservation) error {
	by, found := l.mp.GetAnnotations()["cluster.x-k8s.io/replicas-managed-by"]
	l.external = found && by != "false"
	l.desired, _, _ = unstructured.NestedInt64(l.mp.Object, "spec", "replicas")
	if !l.external || !l.set.There || l.desired == l.set.Capacity {
		return nil
	}
	l.desired = l.set.Capacity
	if err := unstructured.SetNestedField(l.mp.Object, l.desired, "spec", "replicas"); err != nil {
		return err
	}
	return r.client.Update(ctx, l.mp)
}

// apply writes model and size.
func (r *poolReconciler) apply(ctx context.Context, l *poolObservation) error {
	want, _, _ := unstructured.NestedFieldCopy(l.pool.Spec, "template", "image")
	changed := !reflect.DeepEqual(want, l.set.Image)
	latest := func(i ScaleSetInstance) bool { return reflect.DeepEqual(i.Image, want) }
	older := func(i ScaleSetInstance) bool { return !latest(i) }
	mixed := slices.ContainsFunc(l.set.Instances, latest) && slices.ContainsFunc(l.set.Instances, older)
	capacity := l.desired
	if l.set.There && !l.external && (changed || mixed) { // the size decreases again when instances are chosen
		capacity += l.number("maxSurge", 1)
	}
	if l.set.There && !changed && capacity <= l.set.Capacity {
		return nil
	}
	err := r.sets.Apply(ctx, l.pool, max(capacity, l.set.Capacity))
	if err == nil {
		l.set, err = r.sets.Get(ctx, l.pool)
	}
	return err
}

// number of instances in the strategy. Percentages are not simulated.
func (l *poolObservation) number(field string, fallback int64) int64 {
	n, found, err := unstructured.NestedInt64(l.pool.Spec, "strategy", "rollingUpdate", field)
	if !found || err != nil {
		return fallback
	}
	return n
}

// objects creates an object for each instance, and deletes the instances of deleted objects.
func (r *poolReconciler) objects(ctx context.Context, l *poolObservation) error {
	if err := r.list(ctx, l); err != nil {
		return err
	}
	there := map[string]bool{}
	for i := range l.machines {
		m := &l.machines[i]
		number, _, _ := unstructured.NestedString(m.Object, "spec", "instanceID")
		there[number] = true
		if m.GetDeletionTimestamp() != nil {
			if err := r.drop(ctx, l, m, number); err != nil {
				return err
			}
		}
	}
	for _, i := range l.set.Instances {
		if there[i.Number] {
			continue
		}
		m := empty(infrastructureAzure.WithKind(kindPoolMachine))
		m.SetNamespace(l.pool.Namespace)
		m.SetName(l.pool.Name + "-" + i.Number)
		m.SetLabels(map[string]string{labelCluster: l.o.GetLabels()[labelCluster], labelPool: l.mp.GetName(), labelOfPool: l.pool.Name})
		m.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: infrastructureAzure.String(), Kind: kindPool, Name: l.pool.Name, UID: l.o.GetUID()}})
		m.SetFinalizers([]string{finalizer})
		m.Object["spec"] = map[string]any{"providerID": i.ProviderID, "instanceID": i.Number}
		if err := r.client.Create(ctx, m); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return r.list(ctx, l)
}

func (r *poolReconciler) list(ctx context.Context, l *poolObservation) error {
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(infrastructureAzure.WithKind(kindPoolMachine + "List"))
	err := r.direct.List(ctx, all, client.InNamespace(l.pool.Namespace), client.MatchingLabels{labelOfPool: l.pool.Name})
	l.machines = all.Items
	slices.SortFunc(l.machines, func(a, b unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return err
}

// drop releases an object when its instance is gone.
func (r *poolReconciler) drop(ctx context.Context, l *poolObservation, m *unstructured.Unstructured, number string) error {
	gone, err := r.sets.Drop(ctx, l.pool, number)
	if err != nil || !gone {
		return err
	}
	controllerutil.RemoveFinalizer(m, finalizer)
	if err := client.IgnoreNotFound(r.client.Update(ctx, m)); err != nil {
		return err
	}
	l.set, err = r.sets.Get(ctx, l.pool)
	return err
}

// choose deletes the Machines of the chosen instances.
func (r *poolReconciler) choose(ctx context.Context, l *poolObservation) error {
	if l.external { // the owner of the replicas chooses
		return nil
	}
	var all []poolMachine
	owners := map[string]*unstructured.Unstructured{}
	for _, m := range l.machines {
		owner := machineAbove(ctx, r.direct, &m)
		if owner == nil || m.GetDeletionTimestamp() != nil { // the Machine does not exist yet, or the object is being deleted
			continue
		}
		owners[m.GetName()] = owner
		_, marked := owner.GetAnnotations()[annotationDelete]
		at := l.instance(&m)
		all = append(all, poolMachine{name: m.GetName(), ready: at.Runs, latest: reflect.DeepEqual(at.Image, l.set.Image), marked: marked})
	}
	var err error
	if l.skips, err = r.featureGate(ctx); err != nil {
		return err
	}
	for _, name := range instancesToDelete(all, int(l.desired), int(l.number("maxUnavailable", 0)), l.skips) {
		if err := client.IgnoreNotFound(r.client.Delete(ctx, owners[name])); err != nil {
			return err
		}
	}
	return nil
}

// featureGate reads the feature gate of the provider.
func (r *poolReconciler) featureGate(ctx context.Context) (on bool, err error) {
	d := &appsv1.Deployment{}
	if err := r.direct.Get(ctx, GateDeployment, d); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		on = on || slices.ContainsFunc(c.Args, func(arg string) bool { return strings.Contains(arg, gateSkip+"=true") })
	}
	return on, nil
}

func (l *poolObservation) instance(m *unstructured.Unstructured) (found ScaleSetInstance) {
	number, _, _ := unstructured.NestedString(m.Object, "spec", "instanceID")
	for _, i := range l.set.Instances {
		if i.Number == number {
			return i
		}
	}
	return found
}

// status writes the status of the pool and its instances.
func (r *poolReconciler) status(ctx context.Context, l *poolObservation) error {
	ready, ids := int64(0), []any{}
	for i := range l.machines {
		m := &l.machines[i]
		at := l.instance(m)
		if at.ProviderID == "" {
			continue
		}
		ids = append(ids, at.ProviderID)
		if at.Runs {
			ready++
		}
		status := map[string]any{"ready": at.Runs, "latestModelApplied": reflect.DeepEqual(at.Image, l.set.Image), "provisioningState": "Succeeded",
			"instanceName": m.GetName()}
		if have, _, _ := unstructured.NestedMap(m.Object, "status"); reflect.DeepEqual(have, status) || m.GetDeletionTimestamp() != nil {
			continue
		}
		m.Object["status"] = status
		if err := r.client.Status().Update(ctx, m); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	if have, _, _ := unstructured.NestedSlice(l.o.Object, "spec", "providerIDList"); !reflect.DeepEqual(have, ids) && (len(have) > 0 || len(ids) > 0) {
		if err := unstructured.SetNestedSlice(l.o.Object, ids, "spec", "providerIDList"); err != nil {
			return err
		}
		if err := r.client.Update(ctx, l.o); err != nil {
			return err
		}
	}
	status := map[string]any{"ready": true, "replicas": ready, "provisioningState": "Succeeded", "infrastructureMachineKind": kindPoolMachine}
	if have, _, _ := unstructured.NestedMap(l.o.Object, "status"); reflect.DeepEqual(have, status) {
		return nil
	}
	l.o.Object["status"] = status
	return r.client.Status().Update(ctx, l.o)
}

// remove releases a pool when its instances are gone.
func (r *poolReconciler) remove(ctx context.Context, l *poolObservation) (reconcile.Result, error) {
	set, err := r.sets.Get(ctx, l.pool)
	if err != nil || !slices.Contains(l.o.GetFinalizers(), finalizer) {
		return reconcile.Result{}, err
	}
	for _, i := range set.Instances {
		if gone, err := r.sets.Drop(ctx, l.pool, i.Number); err != nil || !gone {
			return reconcile.Result{RequeueAfter: pollInterval}, err
		}
	}
	controllerutil.RemoveFinalizer(l.o, finalizer)
	return reconcile.Result{RequeueAfter: time.Second}, ignoreConflict(client.IgnoreNotFound(r.client.Update(ctx, l.o)))
}
