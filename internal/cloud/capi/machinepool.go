package capi

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/apiserver"
)

// A MachinePool has no template: the infrastructure object is both recipe and factory, and is written in place. The
// provider decides about instances. Kamino writes only if the provider then leaves running instances unchanged.

const kindPool = "MachinePool"

// gatesOfMachinePools lets a provider make a Machine for each instance of a MachinePool. Source: CAPA, feature/feature.go.
const gatesOfMachinePools = "--feature-gates=MachinePool=true,MachinePoolMachines=true"

const (
	// labelPool is on Machines of a MachinePool and on their objects.
	labelPool = "cluster.x-k8s.io/pool-name"
	// annotationReplicas on a MachinePool means that an autoscaler of the cloud sets the replicas, and the provider only
	// copies the replicas.
	annotationReplicas = "cluster.x-k8s.io/replicas-managed-by"
)

// machinePoolKind describes a provider's kind of machine pool. All functions work without I/O.
type machinePoolKind struct {
	// of describes the spec of the machines.
	of infrastructure
	// path of the machines' spec.
	path []string
	// rolls returns the reasons why a new image or size would, or could, replace running machines.
	rolls func(pool, factory object, skips featureGateState) []cloud.Refusal
	// gated is true if rolls needs the provider's feature gate, unless the replicas are managed elsewhere.
	gated bool
	// separateMachine returns the spec of a separate machine like the pool's machines, and the pool's fields that such a machine
	// cannot have.
	separateMachine func(factory object) (machine spec, without []string)
	// location of the machines; empty if the Cluster's location.
	location func(factory object) string
	// grouped is true if the machines are in a group of the cloud, which counts and replaces instances.
	grouped bool
}

// machinePoolKinds are keyed by kind.
var machinePoolKinds = map[string]machinePoolKind{kindAWSPool: awsPool, kindAzurePool: azurePool}

// machinePoolKindOf returns the description of a MachinePool's infrastructure kind.
func machinePoolKindOf(kind schema.GroupKind) (machinePoolKind, bool) {
	found, known := machinePoolKinds[kind.Kind]
	return found, known && kind.Group == infrastructureGroup
}

// infrastructure returns the infrastructure of the pool, and the path of the machines' spec in the named object.
func (v poolView) infrastructure() (of infrastructure, known bool, path []string) {
	if v.resource == machinePools {
		kind, known := machinePoolKindOf(v.named.GroupKind)
		return kind.of, known, kind.path
	}
	of, known = infrastructureOf(v.named.GroupKind)
	return of, known, pathOfTemplate
}

// unknown returns the refusal of an unknown infrastructure kind.
func (v poolView) unknown() cloud.Refusal {
	if v.resource != machinePools {
		return cloud.Refuse(cloud.PoolUnsupported, fmt.Sprintf("%s uses %s, but Kamino does not support the kind", v.ref, v.named),
			"use AWSMachineTemplate or AzureMachineTemplate, or leave the pool out")
	}
	return cloud.Refuse(cloud.PoolUnsupported, fmt.Sprintf("%s uses %s, but Kamino does not support the kind", v.ref, v.named),
		"use AWSMachinePool, AzureMachinePool or a MachineDeployment, or leave the pool out")
}

// rollsOf returns the reasons why a write of a MachinePool would replace running machines or have no effect. The
// provider's feature gate is read only if relevant.
func (r *clusterAccess) rollsOf(ctx context.Context, v poolView) ([]cloud.Refusal, error) {
	kind, known := machinePoolKindOf(v.named.GroupKind)
	if v.resource != machinePools || !known {
		return nil, nil
	}
	found := refuse(v.template.paused(), nil, reasonPaused, "end the pause when the reason for the pause is gone",
		"%s is paused, so the provider would ignore a write", v.template)
	var skips featureGateState
	if kind.gated && v.pool.replicasElsewhere() == "" {
		var err error
		if skips, err = r.readFeatureGate(ctx); err != nil {
			return nil, err
		}
	}
	return append(found, kind.rolls(v.pool, v.template, skips)...), nil
}

// refusalsToWrite returns the reasons against any write to the pool.
func (v poolView) refusalsToWrite() []cloud.Refusal {
	return append(v.refuseTopology(refusalsToWrite(v.cluster, v.pool)), v.rolls...)
}

// replicasElsewhere returns the manager of a MachinePool's replicas outside Cluster API; empty without a manager. Source:
// Cluster API, ReplicasManagedByExternalAutoscaler.
func (o object) replicasElsewhere() string {
	by, found := o.GetAnnotations()[annotationReplicas]
	switch {
	case o.GetKind() != kindPool || !found || by == "false":
		return ""
	case by == "":
		return "another client"
	}
	return by
}

// overlay returns the merge patch from one part of an object to another.
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

// savedImageField returns the image field of a MachinePool's infrastructure for the backup, because a MachinePool has no template
// that keeps the old image.
func (v poolView) savedImageField() any {
	if v.resource != machinePools {
		return nil
	}
	return v.machine()[v.of.root]
}

// specWithImage returns the spec of a pool's machines with another image. In a restoration the old field is used as saved, if
// it names the image.
func (v poolView) specWithImage(native string, was any) (spec, error) {
	made := spec(v.template.DeepCopy().Object)
	inner, _, _ := unstructured.NestedFieldNoCopy(made, v.path...)
	wanted, _ := inner.(map[string]any)
	if wanted == nil {
		return nil, &cloud.Error{Kind: cloud.Invalid, Op: opRecipe, Resource: v.ref.String(), Message: v.template.String() + " has no machine spec"}
	}
	if was != nil {
		wanted[v.of.root] = was
		if v.of.image(wanted) == native {
			return wanted, nil
		}
	}
	return wanted, v.of.setImage(wanted, native)
}

// writeImage sets the image of a MachinePool's infrastructure, if the object is unchanged.
func (r *clusterAccess) writeImage(ctx context.Context, v poolView, to cloud.RecipeChange, native string) error {
	var was backup
	if to.Restores != nil {
		var err error
		if was, err = readBackup(v.ref, to.Restores.Backup); err != nil {
			return err
		}
	}
	wanted, err := v.specWithImage(native, was.Written)
	if err != nil {
		return err
	}
	change := map[string]any{}
	if err := unstructured.SetNestedField(change, overlay(v.machine(), wanted), v.path...); err != nil {
		return apiserver.Fail(opRecipe, v.template.String(), err)
	}
	_, err = r.kube.patch(ctx, opRecipe, v.template, change)
	return err
}

// instancesOfPool returns the instances of a MachinePool's machines from the cloud. Cluster API's objects do not name the
// images. The provider may report an outdated model as the latest, and a Machine is created after its instance.
func (r *clusterAccess) instancesOfPool(ctx context.Context, v poolView, machines []object) ([]cloud.Instance, error) {
	ids := make([]cloud.InstanceID, len(machines))
	for i, m := range machines {
		ids[i] = m.providerID()
	}
	if len(ids) == 0 {
		return nil, nil
	}
	seen, err := r.images.InstancesOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	var found []cloud.Instance
	for _, m := range machines {
		of, exists := seen[m.providerID()]
		found = append(found, cloud.Instance{ID: m.providerID(), Pool: v.ref.pool(), Image: of.Image, CreatedAt: of.CreatedAt, Type: of.Type, Zone: of.Zone,
			Removing: m.deleting() || of.Removing || !exists})
	}
	return found, nil
}

// machinePoolsOf lists the Cluster's MachinePools; none if the account may not list them, or if the kind is missing.
// Accounts of earlier Kamino versions lack the right, and other pools must still work.
func (r *clusterAccess) machinePoolsOf(ctx context.Context) ([]object, error) {
	all, err := r.kube.list(ctx, core(kindPool), r.ofCluster())
	if cloud.Is(err, cloud.Denied) || cloud.Is(err, cloud.Unsupported) {
		return nil, nil
	}
	return all, err
}

// contentOf returns kind and content of the object that is made from a named object. A template contains both. A MachinePool
// names the bootstrap configuration, which is copied, and the infrastructure object, which is converted.
func contentOf(named object) (kind string, content, metadata map[string]any) {
	if factory, is := machinePoolKindOf(named.GroupVersionKind().GroupKind()); is {
		machine, _ := factory.separateMachine(named)
		return factory.of.machine, machine, nil
	}
	if named.GetKind() == kindConfig {
		return kindConfig, configFor(named), nil
	}
	content, _, _ = unstructured.NestedMap(named.Object, pathOfTemplate...)
	metadata, _, _ = unstructured.NestedMap(named.Object, "spec", "template", "metadata")
	return madeOf(named.GroupVersionKind().GroupKind()).Kind, content, metadata
}

// kindConfig is kubeadm's bootstrap configuration. MachinePools name the configuration, other pools name a template.
const kindConfig = "KubeadmConfig"

// configFor returns a bootstrap configuration for another machine, without the token: the kubeadm provider removes the token of
// a pool from time to time, and makes a new token. Source: Cluster API, reconcileDiscovery and rotateMachinePoolBootstrapToken.
func configFor(config object) map[string]any {
	content, _, _ := unstructured.NestedMap(config.Object, "spec")
	unstructured.RemoveNestedField(content, "joinConfiguration", "discovery", "bootstrapToken", "token")
	return content
}

// location returns the location of the pool's machines.
func (v poolView) location() string {
	if kind, known := machinePoolKindOf(v.named.GroupKind); known && kind.location(v.template) != "" {
		return kind.location(v.template)
	}
	return v.at.location
}

// refuseSeparateMachine returns the reasons why a separate Machine would differ from the machines of a MachinePool.
func (v poolView) refuseSeparateMachine(of use) []cloud.Refusal {
	kind, known := machinePoolKindOf(v.named.GroupKind)
	if v.resource != machinePools || !known || v.missing {
		return nil
	}
	remedy := "remove the named fields" + of.instead
	_, without := kind.separateMachine(v.template)
	found := refuse(len(without) > 0, nil, cloud.PoolNotCopyable, remedy, "a separate Machine for %s cannot have %s", v.template, strings.Join(without, ", "))
	at := kind.location(v.template)
	found = refuse(at != "" && v.at.location != "" && at != v.at.location, found, cloud.PoolNotCopyable, remedy,
		"the machines of %s are in %s, but a separate Machine would be in %s", v.template, at, v.at.location)
	by := v.pool.reference(pathBootstrap...)
	return refuse(by.name != "" && by.Kind != kindConfig, found, cloud.PoolNotCopyable, remedy,
		"%s bootstraps machines with %s, which Kamino cannot copy: use a %s", v.ref, by, kindConfig)
}

// forSeparateMachine converts the Machine spec of a MachinePool to that of a separate Machine: the bootstrap data of the pool
// is removed, and a single zone is chosen.
func forSeparateMachine(pool object, machine map[string]any) {
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

// poolRights returns the rights for machine pools of a machine kind. The only written field of the provider's object is
// the image.
func poolRights(machine string) (all []right) {
	for kind, of := range machinePoolKinds {
		if of.of.machine != machine {
			continue
		}
		all = append(all, ofPools(need(infrastructureGroup, strings.ToLower(kind)+"s", "get patch", "")))
		if !of.grouped { // a group has its own size
			all = append(all, ofPools(need(coreGroup, machinePools, "patch", "")))
		}
	}
	return all
}
