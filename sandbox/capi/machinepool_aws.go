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

// A machine pool of CAPA is an Auto Scaling group. CAPA writes the launch template, and the size unless managed elsewhere, and
// creates an object for each instance. The group chooses instances to delete, and replaces missing instances.

// Group is the state of a group.
type Group struct {
	// There: the group exists. ID is the ID in AWS, Image the image of the template's latest version, and
	// Desired the wanted number of instances in service.
	There     bool
	ID, Image string
	Desired   int64
	Instances []GroupInstance
}

// GroupInstance is an instance of a group, in service or in standby.
type GroupInstance struct {
	ProviderID, ID, Image string
}

// Groups creates groups. Calls return at once, and are repeated. A pool is its object: Spec is the whole spec.
type Groups interface {
	Get(ctx context.Context, pool Machine) (Group, error)
	// Publish creates a version of the pool's launch template from spec and data, and the template if missing. Publish cancels
	// an instance refresh, and deletes the older version between the default and the latest version.
	Publish(ctx context.Context, pool Machine) error
	// Create creates the group, with the latest version of the template.
	Create(ctx context.Context, pool Machine, desired int64) error
	Resize(ctx context.Context, pool Machine, desired int64) error
	// Refresh begins to replace all instances.
	Refresh(ctx context.Context, pool Machine) error
	// Delete starts to delete the group with its instances, and reports whether the group is gone.
	Delete(ctx context.Context, pool Machine) (gone bool, err error)
	// See returns the state of an instance. Terminate starts to terminate an instance in any group.
	See(ctx context.Context, id string) (MachineState, error)
	Terminate(ctx context.Context, id string) error
}

const kindGroupPool = "AWSMachinePool"

// GroupInterval is the interval of the real provider between two looks at a group, because no object shows its changes. Source:
// CAPA v2.13, exp/controllers/awsmachinepool_controller.go.
const GroupInterval = 3 * time.Minute

// newGroupShare is the part of the interval after which the provider looks at a new group: 15 seconds.
const newGroupShare = 12

// RunGroups runs the machine pools of the infrastructure provider for AWS until the context ends, with the feature
// gate MachinePoolMachines. The provider looks at a group after this interval, and if its object or the MachinePool changes.
func RunGroups(ctx context.Context, config *rest.Config, groups Groups, interval time.Duration, log logr.Logger) error {
	mgr, err := newManager(config, log)
	if err != nil {
		return err
	}
	pools := &groupReconciler{client: mgr.GetClient(), direct: mgr.GetAPIReader(), groups: groups, interval: interval}
	err = ctrl.NewControllerManagedBy(mgr).Named(kindGroupPool).For(empty(infrastructureAWS.WithKind(kindGroupPool))).
		Watches(empty(coreVersion.WithKind("MachinePool")), handler.EnqueueRequestsFromMapFunc(infrastructureNamed)).Complete(pools)
	if err != nil {
		return err
	}
	machines := &groupMachineReconciler{mgr.GetClient(), groups}
	machine := empty(infrastructureAWS.WithKind("AWSMachine"))
	if err := ctrl.NewControllerManagedBy(mgr).Named("AWSMachines of pools").For(machine).Complete(machines); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// inGroup: the object belongs to an instance in a group, and the group created the instance.
func inGroup(o *unstructured.Unstructured) bool {
	_, of := o.GetLabels()[labelPool]
	return of && o.GetKind() == "AWSMachine"
}

// groupReconciler maintains a group for each AWSMachinePool.
type groupReconciler struct {
	client   client.Client
	direct   client.Reader
	groups   Groups
	interval time.Duration
}

// groupObservation is an observation of a pool.
type groupObservation struct {
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
	look := &groupObservation{o: o, pool: Machine{UID: string(o.GetUID()), Namespace: o.GetNamespace(), Name: o.GetName(), Kind: kindGroupPool,
		Labels: o.GetLabels(), Spec: spec}}
	if o.GetDeletionTimestamp() != nil {
		return r.remove(ctx, look)
	}
	if look.mp = machinePoolOf(ctx, r.client, o); look.mp == nil || o.GetAnnotations()["cluster.x-k8s.io/paused"] != "" || clusterGone(ctx, r.client, look.mp) {
		return reconcile.Result{RequeueAfter: resyncInterval}, nil
	}
	if ofCluster, err := clusterPaused(ctx, r.client, o); err != nil || ofCluster {
		return reconcile.Result{RequeueAfter: resyncInterval}, err
	}
	var found bool
	var err error
	if look.pool.Data, found, err = bootstrapOf(ctx, r.direct, look.mp, "spec", "template", "spec"); err != nil || !found {
		return reconcile.Result{RequeueAfter: pollInterval}, err
	}
	if controllerutil.AddFinalizer(o, finalizer) {
		return reconcile.Result{}, ignoreConflict(r.client.Update(ctx, o))
	}
	if look.group, err = r.groups.Get(ctx, look.pool); err != nil {
		return reconcile.Result{}, err
	}
	for _, step := range []func(context.Context, *groupObservation) error{r.template, r.size, r.objects, r.writeStatus} {
		if err := step(ctx, look); err != nil {
			return reconcile.Result{}, ignoreConflict(err)
		}
	}
	if !look.group.There {
		return reconcile.Result{RequeueAfter: r.interval / newGroupShare}, nil
	}
	return reconcile.Result{RequeueAfter: r.interval}, nil
}

// template publishes a version of the launch template for another image, and starts an instance refresh unless
// refreshes are off.
func (r *groupReconciler) template(ctx context.Context, l *groupObservation) error {
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

// size writes the MachinePool's replicas to the group, or the group's size to the MachinePool if another controller
// sets the size.
func (r *groupReconciler) size(ctx context.Context, l *groupObservation) error {
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

// objects creates an object for each instance, and deletes the Machines of instances that have left the group.
func (r *groupReconciler) objects(ctx context.Context, l *groupObservation) error {
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

// writeStatus writes the status of the pool.
func (r *groupReconciler) writeStatus(ctx context.Context, l *groupObservation) error {
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

// remove releases a pool when its group is gone.
func (r *groupReconciler) remove(ctx context.Context, l *groupObservation) (reconcile.Result, error) {
	if !slices.Contains(l.o.GetFinalizers(), finalizer) {
		return reconcile.Result{}, nil
	}
	if gone, err := r.groups.Delete(ctx, l.pool); err != nil || !gone {
		return reconcile.Result{RequeueAfter: pollInterval}, err
	}
	controllerutil.RemoveFinalizer(l.o, finalizer)
	return reconcile.Result{}, ignoreConflict(client.IgnoreNotFound(r.client.Update(ctx, l.o)))
}

// groupMachineReconciler writes the status of each AWSMachine in a pool, and terminates the instance of a deleted
// AWSMachine.
type groupMachineReconciler struct {
	client client.Client
	groups Groups
}

// Reconcile implements reconcile.Reconciler.
func (r *groupMachineReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o := empty(infrastructureAWS.WithKind("AWSMachine"))
	if err := r.client.Get(ctx, request.NamespacedName, o); err != nil || !inGroup(o) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if paused, err := clusterPaused(ctx, r.client, o); err != nil || paused || clusterGone(ctx, r.client, o) {
		return reconcile.Result{RequeueAfter: resyncInterval}, err
	}
	id, _, _ := unstructured.NestedString(o.Object, "spec", "instanceID")
	if o.GetDeletionTimestamp() == nil && machineAbove(ctx, r.client, o) == nil {
		return reconcile.Result{RequeueAfter: resyncInterval}, nil
	}
	if o.GetDeletionTimestamp() == nil && controllerutil.AddFinalizer(o, finalizer) {
		return reconcile.Result{}, ignoreConflict(r.client.Update(ctx, o))
	}
	state, err := r.groups.See(ctx, id)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case o.GetDeletionTimestamp() == nil:
		return reconcile.Result{RequeueAfter: resyncInterval}, writeState(ctx, r.client, o, state, "")
	case !slices.Contains(o.GetFinalizers(), finalizer):
		return reconcile.Result{}, nil
	case state != Terminated:
		return reconcile.Result{RequeueAfter: pollInterval}, r.groups.Terminate(ctx, id)
	}
	controllerutil.RemoveFinalizer(o, finalizer)
	return reconcile.Result{}, ignoreConflict(client.IgnoreNotFound(r.client.Update(ctx, o)))
}
