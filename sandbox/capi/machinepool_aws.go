package capi

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A machine pool of Cluster API's provider for AWS is an Auto Scaling group: the provider writes its launch template, and its size unless
// somebody else has that, and has an object for each instance. The group chooses what goes, and replaces what is missing.

// Group is one as it is.
type Group struct {
	// There tells that it was made. ID is what AWS calls it, Image that of its template's latest version, and Desired how many instances
	// it is meant to have in service.
	There     bool
	ID, Image string
	Desired   int64
	Instances []GroupInstance
}

// GroupInstance is one of its instances, in standby or not.
type GroupInstance struct {
	ProviderID, ID, Image string
}

// Groups are made somewhere. Their calls return at once, and are repeated. A pool is its object's: Spec is all of it.
type Groups interface {
	Look(ctx context.Context, pool Machine) (Group, error)
	// Publish has the pool's launch template have a latest version as its spec and its data say, and makes it if there is none.
	Publish(ctx context.Context, pool Machine) error
	// Create makes the group, whose instances are of the template's latest version.
	Create(ctx context.Context, pool Machine, desired int64) error
	Resize(ctx context.Context, pool Machine, desired int64) error
	// Refresh begins to replace all instances.
	Refresh(ctx context.Context, pool Machine) error
	// Delete begins to remove the group with all that is in it, and tells whether it is gone.
	Delete(ctx context.Context, pool Machine) (gone bool, err error)
	// See tells whether an instance runs, or is gone; Terminate begins to end it, whatever group it is in.
	See(ctx context.Context, id string) (runs, gone bool, err error)
	Terminate(ctx context.Context, id string) error
}

const kindGroupPool = "AWSMachinePool"

// groupEvery is how often a group is looked at, of whose changes no object tells. The provider's own pause is of three minutes.
const groupEvery = time.Second

// RunGroups is the part of the infrastructure provider for AWS that has machine pools, until the context ends, with its feature gate
// MachinePoolMachines on.
func RunGroups(ctx context.Context, config *rest.Config, groups Groups, log logr.Logger) error {
	mgr, err := newManager(config, log)
	if err != nil {
		return err
	}
	pools := &groupReconciler{client: mgr.GetClient(), direct: mgr.GetAPIReader(), groups: groups}
	err = ctrl.NewControllerManagedBy(mgr).Named(kindGroupPool).For(empty(infrastructureAWS.WithKind(kindGroupPool))).
		Watches(empty(coreVersion.WithKind("MachinePool")), handler.EnqueueRequestsFromMapFunc(infrastructureNamed)).Complete(pools)
	if err != nil {
		return err
	}
	machines := &groupMachineReconciler{mgr.GetClient(), groups}
	if err := ctrl.NewControllerManagedBy(mgr).Named("AWSMachines of pools").For(empty(infrastructureAWS.WithKind("AWSMachine"))).Complete(machines); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// inGroup tells whether an object is that of an instance in a group, which nobody makes for it.
func inGroup(o *unstructured.Unstructured) bool {
	_, of := o.GetLabels()[labelPool]
	return of && o.GetKind() == "AWSMachine"
}

// groupReconciler keeps a group for each AWSMachinePool.
type groupReconciler struct {
	client client.Client
	direct client.Reader
	groups Groups
}

// groupLook is one look at a pool.
type groupLook struct {
	o, mp *unstructured.Unstructured
	pool  Machine
	group Group
}

// Reconcile implements reconcile.Reconciler.
func (r *groupReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o := empty(infrastructureAWS.WithKind(kindGroupPool))
	if err := r.client.Get(ctx, request.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	look := &groupLook{o: o, pool: Machine{UID: string(o.GetUID()), Namespace: o.GetNamespace(), Name: o.GetName(), Kind: kindGroupPool, Labels: o.GetLabels(), Spec: spec}}
	if o.GetDeletionTimestamp() != nil {
		return r.remove(ctx, look)
	}
	if look.mp = machinePoolOf(ctx, r.client, o); look.mp == nil || o.GetAnnotations()["cluster.x-k8s.io/paused"] != "" || clusterGone(ctx, r.client, look.mp) {
		return reconcile.Result{}, nil
	}
	if ofCluster, err := clusterPaused(ctx, r.client, o); err != nil || ofCluster {
		return reconcile.Result{RequeueAfter: groupEvery}, err
	}
	var found bool
	var err error
	if look.pool.Data, found, err = bootstrapOf(ctx, r.direct, look.mp, "spec", "template", "spec"); err != nil || !found {
		return reconcile.Result{RequeueAfter: again}, err
	}
	if controllerutil.AddFinalizer(o, finalizer) {
		return reconcile.Result{}, ignoreConflict(r.client.Update(ctx, o))
	}
	if look.group, err = r.groups.Look(ctx, look.pool); err != nil {
		return reconcile.Result{}, err
	}
	for _, step := range []func(context.Context, *groupLook) error{r.template, r.size, r.objects, r.say} {
		if err := step(ctx, look); err != nil {
			return reconcile.Result{}, ignoreConflict(err)
		}
	}
	return reconcile.Result{RequeueAfter: groupEvery}, nil
}

// template makes a version of the launch template for another image, and has all instances replaced by ones of it unless that is switched
// off.
func (r *groupReconciler) template(ctx context.Context, l *groupLook) error {
	want, _, _ := unstructured.NestedString(l.pool.Spec, "awsLaunchTemplate", "ami", "id")
	if l.group.Image == want {
		return nil
	}
	if err := r.groups.Publish(ctx, l.pool); err != nil {
		return err
	}
	l.group.Image = want
	if off, _, _ := unstructured.NestedBool(l.pool.Spec, "refreshPreferences", "disable"); off || !l.group.There {
		return nil
	}
	return r.groups.Refresh(ctx, l.pool)
}

// size has the group have the MachinePool's replicas, or the MachinePool the group's where somebody else has them.
func (r *groupReconciler) size(ctx context.Context, l *groupLook) error {
	replicas, _, _ := unstructured.NestedInt64(l.mp.Object, "spec", "replicas")
	by, found := l.mp.GetAnnotations()["cluster.x-k8s.io/replicas-managed-by"]
	switch {
	case !l.group.There:
		return r.groups.Create(ctx, l.pool, replicas)
	case replicas == l.group.Desired:
		return nil
	case !found || by == "false":
		return r.groups.Resize(ctx, l.pool, replicas)
	}
	if err := unstructured.SetNestedField(l.mp.Object, l.group.Desired, "spec", "replicas"); err != nil {
		return err
	}
	return r.client.Update(ctx, l.mp)
}

// objects has one object for each instance, and deletes the Machines of those that are in the group no more.
func (r *groupReconciler) objects(ctx context.Context, l *groupLook) error {
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(infrastructureAWS.WithKind("AWSMachineList"))
	if err := r.direct.List(ctx, all, client.InNamespace(l.pool.Namespace), client.MatchingLabels{labelPool: l.mp.GetName()}); err != nil {
		return err
	}
	there := map[string]bool{}
	for i := range all.Items {
		m := &all.Items[i]
		id, _, _ := unstructured.NestedString(m.Object, "spec", "instanceID")
		there[id] = true
		if slices.ContainsFunc(l.group.Instances, func(g GroupInstance) bool { return g.ID == id }) {
			continue
		}
		gone := m
		if owner := machineAbove(ctx, r.direct, m); owner != nil {
			gone = owner
		}
		if err := client.IgnoreNotFound(r.client.Delete(ctx, gone)); err != nil {
			return err
		}
	}
	kind, _, _ := unstructured.NestedString(l.pool.Spec, "awsLaunchTemplate", "instanceType")
	for _, i := range l.group.Instances {
		if there[i.ID] {
			continue
		}
		m := empty(infrastructureAWS.WithKind("AWSMachine"))
		m.SetNamespace(l.pool.Namespace)
		m.SetName(l.pool.Name + "-" + i.ID)
		m.SetLabels(map[string]string{labelCluster: l.o.GetLabels()[labelCluster], labelPool: l.mp.GetName()})
		m.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: infrastructureAWS.String(), Kind: kindGroupPool, Name: l.pool.Name, UID: l.o.GetUID()}})
		m.Object["spec"] = map[string]any{"providerID": i.ProviderID, "instanceID": i.ID, "instanceType": kind, "ami": map[string]any{"id": i.Image}}
		if err := r.client.Create(ctx, m); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return nil
}

// say writes what the provider knows of the pool.
func (r *groupReconciler) say(ctx context.Context, l *groupLook) error {
	ids := []any{}
	for _, i := range l.group.Instances {
		ids = append(ids, i.ProviderID)
	}
	slices.SortFunc(ids, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	have, _, _ := unstructured.NestedSlice(l.o.Object, "spec", "providerIDList")
	if id, _, _ := unstructured.NestedString(l.o.Object, "spec", "providerID"); id != l.group.ID || !reflect.DeepEqual(have, ids) && len(have)+len(ids) > 0 {
		_ = unstructured.SetNestedField(l.o.Object, l.group.ID, "spec", "providerID")
		_ = unstructured.SetNestedSlice(l.o.Object, ids, "spec", "providerIDList")
		if err := r.client.Update(ctx, l.o); err != nil {
			return err
		}
	}
	status := map[string]any{"ready": l.group.There, "replicas": int64(len(ids)), "infrastructureMachineKind": "AWSMachine"}
	if have, _, _ := unstructured.NestedMap(l.o.Object, "status"); reflect.DeepEqual(have, status) {
		return nil
	}
	l.o.Object["status"] = status
	return r.client.Status().Update(ctx, l.o)
}

// remove lets a pool go once its group is gone.
func (r *groupReconciler) remove(ctx context.Context, l *groupLook) (reconcile.Result, error) {
	if !slices.Contains(l.o.GetFinalizers(), finalizer) {
		return reconcile.Result{}, nil
	}
	if gone, err := r.groups.Delete(ctx, l.pool); err != nil || !gone {
		return reconcile.Result{RequeueAfter: again}, err
	}
	controllerutil.RemoveFinalizer(l.o, finalizer)
	return reconcile.Result{RequeueAfter: groupEvery}, ignoreConflict(client.IgnoreNotFound(r.client.Update(ctx, l.o)))
}

// groupMachineReconciler tells of each AWSMachine of a pool whether its instance runs, and ends the instance of one that is deleted.
type groupMachineReconciler struct {
	client client.Client
	groups Groups
}

// Reconcile implements reconcile.Reconciler.
func (r *groupMachineReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o := empty(infrastructureAWS.WithKind("AWSMachine"))
	if err := r.client.Get(ctx, request.NamespacedName, o); err != nil || !inGroup(o) || clusterGone(ctx, r.client, o) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if paused, err := clusterPaused(ctx, r.client, o); err != nil || paused {
		return reconcile.Result{RequeueAfter: groupEvery}, err
	}
	id, _, _ := unstructured.NestedString(o.Object, "spec", "instanceID")
	if o.GetDeletionTimestamp() == nil && machineAbove(ctx, r.client, o) == nil {
		return reconcile.Result{}, nil
	}
	if o.GetDeletionTimestamp() == nil && controllerutil.AddFinalizer(o, finalizer) {
		return reconcile.Result{}, ignoreConflict(r.client.Update(ctx, o))
	}
	runs, gone, err := r.groups.See(ctx, id)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case o.GetDeletionTimestamp() == nil:
		return reconcile.Result{RequeueAfter: 3 * groupEvery}, tellReady(ctx, r.client, o, runs, "")
	case !slices.Contains(o.GetFinalizers(), finalizer):
		return reconcile.Result{}, nil
	case !gone:
		return reconcile.Result{RequeueAfter: again}, r.groups.Terminate(ctx, id)
	}
	controllerutil.RemoveFinalizer(o, finalizer)
	return reconcile.Result{}, ignoreConflict(client.IgnoreNotFound(r.client.Update(ctx, o)))
}
