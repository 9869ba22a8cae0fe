package capi

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Machine is the request to an infrastructure provider.
type Machine struct {
	// UID of the first object of the machine. The UID makes repeated requests idempotent.
	UID string
	// Namespace, Name and Kind of the object.
	Namespace, Name, Kind string
	// Labels of the object contain its owner in Cluster API.
	Labels map[string]string
	// Spec is the object's.
	Spec map[string]any
	// Data for the first boot.
	Data []byte
}

// MachineState is the state of a machine in the cloud.
type MachineState string

// The states. A machine between two states is Pending.
const (
	Pending MachineState = "pending"
	Running MachineState = "running"
	Stopped MachineState = "stopped"
	// Terminated: the machine is gone, and its object stays.
	Terminated MachineState = "terminated"
)

// Maker creates machines. Calls return at once, and are repeated.
type Maker interface {
	// Ensure starts to create the machine unless the machine exists. The provider ID is empty until the cloud has accepted the
	// machine.
	Ensure(ctx context.Context, m Machine) (providerID string, state MachineState, err error)
	// Remove starts to delete the machine, and reports whether the machine is gone.
	Remove(ctx context.Context, m Machine) (gone bool, err error)
}

// Groups and kinds of the objects.
var (
	infrastructureAWS   = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2"}
	infrastructureAzure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}
	coreVersion         = schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}
)

// finalizer keeps an object of a machine until the machine is gone.
const finalizer = "sandbox.kamino.dev/machine"

// annotationMade is the UID of the machine's first object. After a move of the Cluster, the same machines have new
// objects.
const annotationMade = "sandbox.kamino.dev/made-for"

// pollInterval is the interval between polls of an unfinished machine, resyncInterval between polls of a finished machine. The
// provider for AWS has a resync of ten minutes, and also reacts to events.
const (
	pollInterval   = 200 * time.Millisecond
	resyncInterval = 3 * time.Second
)

// RunInfrastructure runs the infrastructure provider until the context ends. Objects of a kind without a maker
// wait.
func RunInfrastructure(ctx context.Context, config *rest.Config, makers map[string]Maker, log logr.Logger) error {
	ctrl.SetLogger(log) // the queues need a logger before the manager has one
	mgr, err := newManager(config, log)
	if err != nil {
		return err
	}
	for kind, gv := range map[string]schema.GroupVersion{"AWSMachine": infrastructureAWS, "AzureMachine": infrastructureAzure} {
		if makers[kind] == nil {
			continue
		}
		r := &machineReconciler{client: mgr.GetClient(), direct: mgr.GetAPIReader(), kind: gv.WithKind(kind), maker: makers[kind]}
		owner := empty(coreVersion.WithKind("Machine"))
		err := ctrl.NewControllerManagedBy(mgr).Named(kind).For(empty(gv.WithKind(kind))).
			Watches(owner, handler.EnqueueRequestsFromMapFunc(r.ofMachine)).Complete(r)
		if err != nil {
			return err
		}
		cluster := gv.WithKind(map[string]string{"AWSMachine": "AWSCluster", "AzureMachine": "AzureCluster"}[kind])
		if err := ctrl.NewControllerManagedBy(mgr).Named(cluster.Kind).For(empty(cluster)).Complete(&clusterReconciler{mgr.GetClient(), cluster}); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

// newManager is the manager of a part of the infrastructure provider.
func newManager(config *rest.Config, log logr.Logger) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	return ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: log,
		// The default reads unstructured objects from the API server, at each look at each machine.
		Client:     client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true), MaxConcurrentReconciles: 10}})
}

// bootstrapOf reads the bootstrap data that the spec at a path names. found is false until the data exist.
func bootstrapOf(ctx context.Context, c client.Reader, o *unstructured.Unstructured, path ...string) (data []byte, found bool, err error) {
	name, _, _ := unstructured.NestedString(o.Object, append(slices.Clone(path), "bootstrap", "dataSecretName")...)
	if name == "" {
		return nil, false, nil
	}
	secret := empty(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
	if err := c.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: name}, secret); err != nil {
		return nil, false, client.IgnoreNotFound(err)
	}
	text, _, _ := unstructured.NestedString(secret.Object, "data", "value")
	data, err = base64.StdEncoding.DecodeString(text)
	return data, err == nil, err
}

func empty(kind schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}

// clusterReconciler reports the network of each cluster as ready.
type clusterReconciler struct {
	client client.Client
	kind   schema.GroupVersionKind
}

// Reconcile implements reconcile.Reconciler.
func (r *clusterReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o := empty(r.kind)
	if err := r.client.Get(ctx, request.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if ready, _, _ := unstructured.NestedBool(o.Object, "status", "ready"); ready || o.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil
	}
	if err := unstructured.SetNestedField(o.Object, true, "status", "ready"); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.client.Status().Update(ctx, o)
}

// machineReconciler creates a machine for each object whose Machine has bootstrap data.
type machineReconciler struct {
	client client.Client
	direct client.Reader
	kind   schema.GroupVersionKind
	maker  Maker
}

// ofMachine is the infrastructure object of a Machine.
func (r *machineReconciler) ofMachine(_ context.Context, o client.Object) []reconcile.Request {
	m, is := o.(*unstructured.Unstructured)
	if !is {
		return nil
	}
	kind, _, _ := unstructured.NestedString(m.Object, "spec", "infrastructureRef", "kind")
	name, _, _ := unstructured.NestedString(m.Object, "spec", "infrastructureRef", "name")
	if kind != r.kind.Kind {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: m.GetNamespace(), Name: name}}}
}

// Reconcile implements reconcile.Reconciler.
func (r *machineReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o, err := r.own(ctx, request)
	if o == nil {
		return reconcile.Result{}, err
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	if paused, err := clusterPaused(ctx, r.client, o); err != nil || paused {
		return reconcile.Result{RequeueAfter: pollInterval}, err
	}
	m := Machine{UID: cmp.Or(o.GetAnnotations()[annotationMade], string(o.GetUID())), Namespace: o.GetNamespace(), Name: o.GetName(),
		Kind: r.kind.Kind, Labels: o.GetLabels(), Spec: spec}
	if o.GetDeletionTimestamp() != nil {
		return r.remove(ctx, o, m)
	}
	owner := machineAbove(ctx, r.client, o)
	if owner == nil { // the creator of a Machine sets the name, or the cache does not have the Machine yet
		return reconcile.Result{}, nil
	}
	var found bool
	if m.Data, found, err = bootstrapOf(ctx, r.client, owner, "spec"); err != nil || !found {
		return reconcile.Result{RequeueAfter: pollInterval}, err
	}
	if controllerutil.AddFinalizer(o, finalizer) {
		annotations := maps.Clone(o.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[annotationMade] = m.UID
		o.SetAnnotations(annotations)
		return reconcile.Result{}, ignoreConflict(r.client.Update(ctx, o))
	}
	return r.ensure(ctx, o, m)
}

// ensure creates the machine, and reports its state. An object with a failure is never looked at again.
func (r *machineReconciler) ensure(ctx context.Context, o *unstructured.Unstructured, m Machine) (reconcile.Result, error) {
	if failed, _, _ := unstructured.NestedString(o.Object, "status", "failureReason"); failed != "" {
		return reconcile.Result{}, nil
	}
	id, state, err := r.maker.Ensure(ctx, m)
	if err != nil {
		return reconcile.Result{RequeueAfter: pollInterval}, writeState(ctx, r.client, o, Pending, err.Error())
	}
	if id == "" {
		return reconcile.Result{RequeueAfter: pollInterval}, nil
	}
	if have, _, _ := unstructured.NestedString(o.Object, "spec", "providerID"); have != id {
		before := o.DeepCopy()
		if err := unstructured.SetNestedField(o.Object, id, "spec", "providerID"); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: pollInterval}, ignoreConflict(r.client.Patch(ctx, o, client.MergeFrom(before)))
	}
	ready, _, _ := unstructured.NestedBool(o.Object, "status", "ready")
	if state == Pending && !ready {
		return reconcile.Result{RequeueAfter: pollInterval}, nil
	}
	again := reconcile.Result{RequeueAfter: resyncInterval}
	if r.kind.Kind != "AWSMachine" { // only the provider for AWS was compared
		again = reconcile.Result{}
	}
	return again, writeState(ctx, r.client, o, state, "")
}

// own returns the object of a request, or nil if the object is gone or a group creates its machine.
func (r *machineReconciler) own(ctx context.Context, request reconcile.Request) (*unstructured.Unstructured, error) {
	o := empty(r.kind)
	err := r.client.Get(ctx, request.NamespacedName, o)
	if id, _, _ := unstructured.NestedString(o.Object, "spec", "providerID"); err == nil && id == "" {
		err = r.direct.Get(ctx, request.NamespacedName, o) // the cache may not have the ID yet, and a second machine would be created
	}
	if err != nil || inGroup(o) {
		return nil, client.IgnoreNotFound(err)
	}
	return o, nil
}

// remove releases an object when its machine is gone.
func (r *machineReconciler) remove(ctx context.Context, o *unstructured.Unstructured, m Machine) (reconcile.Result, error) {
	if !slices.Contains(o.GetFinalizers(), finalizer) {
		return reconcile.Result{}, nil
	}
	gone, err := r.maker.Remove(ctx, m)
	if err != nil || !gone {
		return reconcile.Result{RequeueAfter: pollInterval}, client.IgnoreNotFound(err)
	}
	controllerutil.RemoveFinalizer(o, finalizer)
	return reconcile.Result{}, ignoreConflict(client.IgnoreNotFound(r.client.Update(ctx, o)))
}

// clusterGone: the Cluster of the object does not exist, so no controller handles the object.
func clusterGone(ctx context.Context, c client.Reader, o *unstructured.Unstructured) bool {
	key := client.ObjectKey{Namespace: o.GetNamespace(), Name: o.GetLabels()["cluster.x-k8s.io/cluster-name"]}
	return apierrors.IsNotFound(c.Get(ctx, key, empty(coreVersion.WithKind("Cluster"))))
}

// clusterPaused reports whether the Cluster of the object is paused. Every provider must check this.
func clusterPaused(ctx context.Context, c client.Reader, o *unstructured.Unstructured) (bool, error) {
	cluster := empty(coreVersion.WithKind("Cluster"))
	err := c.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: o.GetLabels()["cluster.x-k8s.io/cluster-name"]}, cluster)
	paused, _, _ := unstructured.NestedBool(cluster.Object, "spec", "paused")
	return paused, client.IgnoreNotFound(err)
}

// stateReasons are the reasons of machines that do not run, as in the provider for AWS (controllers/awsmachine_controller.go).
var stateReasons = map[MachineState]string{Pending: "InstanceNotReady", Stopped: "InstanceStopped", Terminated: "InstanceTerminated"}

// stateOf returns where a provider writes the state of a machine, and its word. Azure's has words of its own: api/v1beta1/types.go.
func stateOf(o *unstructured.Unstructured, state MachineState) (field, word string) {
	if o.GetKind() != "AzureMachine" {
		return "instanceState", string(state)
	}
	words := map[MachineState]string{Pending: "Updating", Running: "Succeeded", Stopped: "Succeeded", Terminated: "Deleted"}
	return "vmState", words[state]
}

// writeState writes the status of a machine: its state, or the error of its creation. A machine of a MachineDeployment that is
// terminated has failed for good.
func writeState(ctx context.Context, c client.Client, o *unstructured.Unstructured, state MachineState, trouble string) error {
	field, now := stateOf(o, state)
	have, _, _ := unstructured.NestedString(o.Object, "status", field)
	messages, _, _ := unstructured.NestedString(o.Object, "status", "trouble")
	ready, _, _ := unstructured.NestedBool(o.Object, "status", "ready")
	if have == now && ready == (state == Running) && messages == trouble {
		return nil
	}
	at := metav1.Now().UTC().Format(time.RFC3339)
	reason, done := stateReasons[state], 1
	if trouble != "" {
		reason, done = "InstanceProvisionFailed", 0
	}
	// The summary Ready has only a count, and the core copies the summary to the Machine. Source: AWS's provider,
	// pkg/cloud/scope/machine.go.
	conditions := []any{
		map[string]any{"type": "Ready", "status": "False", "severity": "Error", "reason": reason, "message": fmt.Sprintf("%d of 2 completed", done),
			"lastTransitionTime": at},
		map[string]any{"type": "InstanceReady", "status": "False", "severity": "Error", "reason": reason, "message": trouble, "lastTransitionTime": at},
	}
	if state == Running {
		conditions = []any{
			map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": at},
			map[string]any{"type": "InstanceReady", "status": "True", "lastTransitionTime": at},
		}
	}
	status := map[string]any{"ready": state == Running, field: now, "trouble": trouble, "conditions": conditions}
	if state == Terminated && !inGroup(o) {
		status["failureReason"], status["failureMessage"] = "UpdateError", fmt.Sprintf("EC2 instance state %q is unexpected", state)
	}
	if err := unstructured.SetNestedMap(o.Object, status, "status"); err != nil {
		return err
	}
	return ignoreConflict(c.Status().Update(ctx, o))
}

// ignoreConflict drops conflicts: the other write causes the next reconcile.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) || errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
