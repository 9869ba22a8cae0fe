package capi

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A MachinePool names no template: its infrastructure is recipe and factory in one object, which is written in place, and what its
// provider makes of that is the provider's own. Only where that leaves running instances alone may it be written.

const kindPool = "MachinePool"

const (
	// labelPool is on the Machines of a MachinePool, and on what they are made of.
	labelPool = "cluster.x-k8s.io/pool-name"
	// annotationReplicas on a MachinePool tells that an autoscaler of the cloud's has its replicas, which the provider only copies.
	annotationReplicas = "cluster.x-k8s.io/replicas-managed-by"
)

// pooled is what one provider's kind of machine pools says, all of it without I/O.
type pooled struct {
	// of has the words of the spec of its machines.
	of infrastructure
	// path of that spec.
	path []string
	// rolls tells why a changed image, or a changed size, would replace machines that run, or may.
	rolls func(pool, factory object, skips gate) []cloud.Refusal
	// gated tells that this takes a look at a feature gate of the provider's, where nobody else has the replicas.
	gated bool
	// beside is the spec of a machine of its own that is like the pool's, and without is what of the pool it cannot have.
	beside func(factory object) (machine spec, without []string)
	// location of its machines; empty where that is the Cluster's.
	location func(factory object) string
	// grouped tells that its machines are in a group of the cloud's own, which counts and replaces them.
	grouped bool
}

// pooledKinds by the kinds of their objects.
var pooledKinds = map[string]pooled{kindAWSPool: awsPool, kindAzurePool: azurePool}

// pooledOf is that of a MachinePool's infrastructure.
func pooledOf(kind schema.GroupKind) (pooled, bool) {
	found, known := pooledKinds[kind.Kind]
	return found, known && kind.Group == infrastructureGroup
}

// infrastructure of the pool, and where what it names has the spec of its machines.
func (v view) infrastructure() (of infrastructure, known bool, path []string) {
	if v.resource == machinePools {
		kind, known := pooledOf(v.named.GroupKind)
		return kind.of, known, kind.path
	}
	of, known = infrastructureOf(v.named.GroupKind)
	return of, known, pathOfTemplate
}

// unknown tells why nothing can be said of what a pool's machines are made from.
func (v view) unknown() cloud.Refusal {
	if v.resource != machinePools {
		return cloud.Refuse(reasonInfrastructure, fmt.Sprintf("%s makes its machines from %s, of whose image Kamino knows nothing", v.ref, v.named),
			"use AWSMachineTemplate or AzureMachineTemplate, or leave this pool out")
	}
	return cloud.Refuse(reasonInfrastructure, fmt.Sprintf("%s makes its machines by %s, of whose image Kamino knows nothing", v.ref, v.named),
		"use AWSMachinePool, AzureMachinePool or a MachineDeployment, or leave this pool out")
}

// rollsOf tells why a write of a MachinePool would replace machines that run, or not be carried out. Its provider's feature gates are
// looked at only where they decide.
func (r *world) rollsOf(ctx context.Context, v view) ([]cloud.Refusal, error) {
	kind, known := pooledOf(v.named.GroupKind)
	if v.resource != machinePools || !known {
		return nil, nil
	}
	found := refuse(v.template.paused(), nil, reasonPaused, "take the pause away once whoever set it is done",
		"%s is paused, so that its provider carries nothing out", v.template)
	var skips gate
	if kind.gated && v.pool.replicasElsewhere() == "" {
		var err error
		if skips, err = r.gate(ctx); err != nil {
			return nil, err
		}
	}
	return append(found, kind.rolls(v.pool, v.template, skips)...), nil
}

// refusalsToWrite tells why nothing may be written to the pool.
func (v view) refusalsToWrite() []cloud.Refusal {
	return append(v.refuseTopology(refusalsToWrite(v.cluster, v.pool)), v.rolls...)
}

// replicasElsewhere is who has a MachinePool's replicas, if somebody else has. Source: Cluster API, ReplicasManagedByExternalAutoscaler.
func (o object) replicasElsewhere() string {
	by, found := o.GetAnnotations()[annotationReplicas]
	switch {
	case o.GetKind() != kindPool || !found || by == "false":
		return ""
	case by == "":
		return "somebody else"
	}
	return by
}

// refuseSize tells why neither a place is made in a pool nor one taken: the provider for Azure writes the scale set's own size over it.
// In a group both are the group's own. Source: CAPZ, MachinePoolScope.ReconcileReplicas.
func refuseSize(pool object) []cloud.Refusal {
	by := pool.replicasElsewhere()
	kind, _ := pooledOf(pool.reference(pathInfrastructure...).GroupKind)
	return refuse(by != "" && !kind.grouped, nil, reasonManaged, "capture donors that return, or take "+annotationReplicas+" away",
		"the replicas of %s are managed by %s, and what anybody else makes of them is written over", pool, by)
}

// overlay is the merge patch by which one part of an object becomes another.
func overlay(was, is map[string]any) map[string]any {
	change := map[string]any{}
	for key := range was {
		if _, stays := is[key]; !stays {
			change[key] = nil
		}
	}
	for key, value := range is {
		inner, isMap := value.(map[string]any)
		before, wasMap := was[key].(map[string]any)
		switch {
		case isMap && wasMap:
			if deeper := overlay(before, inner); len(deeper) > 0 {
				change[key] = deeper
			}
		case !reflect.DeepEqual(was[key], value):
			change[key] = value
		}
	}
	return change
}

// written is the pool's image as its infrastructure has it, for a MachinePool, whose own no copy keeps.
func (v view) written() any {
	if v.resource != machinePools {
		return nil
	}
	return v.machine()[v.of.root]
}

// renamed is the spec of a pool's machines with another image: as it was written before, where it is given back, and by its name else.
func (v view) renamed(native string, was any) (spec, error) {
	made := spec(v.template.DeepCopy().Object)
	inner, _, _ := unstructured.NestedFieldNoCopy(made, v.path...)
	wanted, _ := inner.(map[string]any)
	if wanted == nil {
		return nil, &cloud.Error{Kind: cloud.Invalid, Op: opRecipe, Resource: v.ref.String(), Message: v.template.String() + " has no spec of its machines"}
	}
	if was != nil {
		wanted[v.of.root] = was
		if v.of.image(wanted) == native {
			return wanted, nil
		}
	}
	return wanted, v.of.setImage(wanted, native)
}

// writeImage has a MachinePool's infrastructure name an image, if it is still as it was read.
func (r *world) writeImage(ctx context.Context, v view, to cloud.RecipeChange, native string) error {
	var was backup
	if to.Restores != nil {
		var err error
		if was, err = readBackup(v.ref, to.Restores.Backup); err != nil {
			return err
		}
	}
	wanted, err := v.renamed(native, was.Written)
	if err != nil {
		return err
	}
	change := map[string]any{}
	if err := unstructured.SetNestedField(change, overlay(v.machine(), wanted), v.path...); err != nil {
		return fail(opRecipe, v.template.String(), err)
	}
	_, err = r.kube.patch(ctx, opRecipe, v.template, change)
	return err
}

// Teller is the power of an ImageProvider to report the instances behind a MachinePool, which no object of Cluster API's describes.
type Teller interface {
	// InstancesOf looks at many at once. One that is not there is left out, and Power may be unknown.
	InstancesOf(ctx context.Context, ids []cloud.InstanceID) (map[cloud.InstanceID]cloud.Instance, error)
	// MaxModels is from how many different images they may have been built, as cloud.InstanceLister has MaxImages.
	MaxModels() int
}

// instancesOfPool are those of a MachinePool's machines, as their cloud tells: no object of Cluster API's has their images, that one is of
// its pool's latest model is said until the provider has seen another, and a Machine is made after its instance.
func (r *world) instancesOfPool(ctx context.Context, v view, machines []object) ([]cloud.Instance, error) {
	ids := make([]cloud.InstanceID, len(machines))
	for i, m := range machines {
		ids[i] = m.providerID()
	}
	var seen map[cloud.InstanceID]cloud.Instance
	if teller, able := r.images.(Teller); able && len(ids) > 0 {
		var err error
		if seen, err = teller.InstancesOf(ctx, ids); err != nil {
			return nil, err
		}
	}
	var found []cloud.Instance
	for _, m := range machines {
		of := seen[m.providerID()]
		found = append(found, cloud.Instance{ID: m.providerID(), Pool: v.ref.pool(), Image: of.Image, CreatedAt: of.CreatedAt, Removing: m.deleting() || of.Removing})
	}
	return found, nil
}

// machinePoolsOf are the Cluster's MachinePools. An account with the rights of an earlier version may not list them, and a management
// cluster may have none: neither is in the way of other pools.
func (r *world) machinePoolsOf(ctx context.Context) ([]object, error) {
	all, err := r.kube.list(ctx, core(kindPool), r.ofCluster())
	if cloud.Is(err, cloud.Denied) || cloud.Is(err, cloud.Unsupported) {
		return nil, nil
	}
	return all, err
}

// takeFromMachinePool takes a place from a MachinePool for a Machine whose deletion waits. Another Machine whose place is taken, and
// that still waits, must go first: the pool keeps only the last removal's name.
func (r removal) takeFromMachinePool(ctx context.Context, of, name string) error {
	pool, err := r.kube.get(ctx, core(kindPool), of)
	if err = r.believed(ctx, opRemove, err); cloud.Is(err, cloud.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	by := pool.GetAnnotations()[annotationPlace]
	if by == name {
		return nil
	}
	machines, err := r.kube.list(ctx, core(kindMachine), r.ofCluster())
	if err != nil {
		return err
	}
	if by != "" && slices.ContainsFunc(machines, func(m object) bool { return m.GetAnnotations()[annotationRemoving] == by }) {
		return &cloud.Error{Kind: cloud.Conflict, Op: opRemove, Resource: pool.String(), Message: "another of its Machines is being removed: wait for that"}
	}
	_, err = r.kube.patch(ctx, opRemove, pool, onePlaceFewer(pool, map[string]any{annotationPlace: name}))
	return err
}

// marksOf are what has a Machine's deletion wait for its place to be taken. One that is marked is deleted before any that Cluster API,
// or a MachinePool's provider, would choose, once there are more of them than are meant to be: a Machine that was moved after its place was
// taken is one that nobody has deleted.
func (r removal) marksOf(ctx context.Context, m object, name string) (map[string]any, error) {
	begin := map[string]any{annotationRemoving: name, annotationHook: "", annotationDelete: ""}
	owner := m.controller()
	if owner == nil || owner.Kind != kindPool {
		return begin, nil
	}
	v, err := r.view(ctx, ref{m.GetNamespace(), machinePools, owner.Name}.pool())
	if cloud.Is(err, cloud.NotFound) { // its pool is gone, and with it the place
		return begin, nil
	}
	if err != nil {
		return nil, err
	}
	found := slices.Concat(v.refusalsToWrite(), refuseSize(v.pool))
	if !v.known {
		found = append(found, v.unknown())
	}
	for _, refusal := range found {
		return nil, refusal.Error(opRemove, m.String())
	}
	return begin, nil
}

// contentOf is what an object that a pool names is for: the kind of what is made from it, and its content. A template has both. A
// MachinePool names the configuration itself, of which a copy is made for another machine, and a factory, of whose machines it is one.
func contentOf(named object) (kind string, content, metadata map[string]any) {
	if factory, is := pooledOf(named.GroupVersionKind().GroupKind()); is {
		machine, _ := factory.beside(named)
		return factory.of.machine, machine, nil
	}
	if named.GetKind() == kindConfig {
		return kindConfig, configFor(named), nil
	}
	content, _, _ = unstructured.NestedMap(named.Object, pathOfTemplate...)
	metadata, _, _ = unstructured.NestedMap(named.Object, "spec", "template", "metadata")
	return madeOf(named.GroupVersionKind().GroupKind()).Kind, content, metadata
}

// kindConfig is kubeadm's bootstrap configuration, which a MachinePool names where others name a template of it.
const kindConfig = "KubeadmConfig"

// configFor is the content of a bootstrap configuration for another machine: all of it but the token, which is the one that the kubeadm
// provider has made for the machines of the pool, and takes away from time to time. It makes another one where there is none.
// Source: Cluster API, reconcileDiscovery and rotateMachinePoolBootstrapToken.
func configFor(config object) map[string]any {
	content, _, _ := unstructured.NestedMap(config.Object, "spec")
	unstructured.RemoveNestedField(content, "joinConfiguration", "discovery", "bootstrapToken", "token")
	return content
}

// location of the pool's machines.
func (v view) location() string {
	if kind, known := pooledOf(v.named.GroupKind); known && kind.location(v.template) != "" {
		return kind.location(v.template)
	}
	return v.at.location
}

// refuseBeside tells why a Machine of its own would not be like those of a MachinePool.
func (v view) refuseBeside() []cloud.Refusal {
	kind, known := pooledOf(v.named.GroupKind)
	if v.resource != machinePools || !known || v.missing {
		return nil
	}
	const remedy = "do without a trial, or without that"
	_, without := kind.beside(v.template)
	found := refuse(len(without) > 0, nil, reasonTrialDiffers, remedy, "of %s a Machine of its own cannot have %s", v.template, strings.Join(without, ", "))
	at := kind.location(v.template)
	found = refuse(at != "" && v.at.location != "" && at != v.at.location, found, reasonTrialDiffers, remedy,
		"the machines of %s are in %s, and a Machine of its own would be in %s", v.template, at, v.at.location)
	by := v.pool.reference(pathBootstrap...)
	return refuse(by.name != "" && by.Kind != kindConfig, found, reasonTrialDiffers, remedy,
		"%s joins its machines by %s, of which Kamino can make no copy for one more: it can of a %s", v.ref, by, kindConfig)
}

// ofMachinePool has a Machine's spec that was copied off a pool's be that of one beside a MachinePool: its bootstrap data would be the
// pool's own, and of several zones one must be said.
func ofMachinePool(pool object, machine map[string]any) {
	if pool.GetKind() != kindPool {
		return
	}
	if pool.reference(pathBootstrap...).name != "" {
		unstructured.RemoveNestedField(machine, "bootstrap", "dataSecretName")
	}
	zones, _, _ := unstructured.NestedStringSlice(pool.Object, "spec", "failureDomains")
	if _, set := machine["failureDomain"]; !set && len(zones) > 0 {
		machine["failureDomain"] = zones[0]
	}
}

// poolRights are what machine pools of machines of a kind need. Nothing of the pool's provider is written but the one image.
func poolRights(machine string) (all []right) {
	for kind, of := range pooledKinds {
		if of.of.machine != machine {
			continue
		}
		all = append(all, right{group: infrastructureGroup, resource: strings.ToLower(kind) + "s", verbs: []string{"get", "patch"}, pools: true})
		if !of.grouped { // which has its own size
			all = append(all, right{group: coreGroup, resource: machinePools, verbs: []string{"patch"}, pools: true})
		}
	}
	return all
}
