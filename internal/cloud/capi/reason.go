package capi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Reasons of refusals.
const (
	reasonRolling        = "RollingUpdate"
	reasonTopology       = "TopologyOwned"
	reasonReplicas       = "TopologyReplicas"
	reasonPending        = "TopologyPending"
	reasonPaused         = "ClusterAPIPaused"
	reasonDeleted        = "PoolIsDeleted"
	reasonInfrastructure = "InfrastructureUnknown"
	reasonTemplate       = "TemplateMissing"
	reasonImage          = "TemplateWithoutImage"
	reasonKubernetes     = "KubernetesVersionDiffers"
	reasonElsewhere      = "MachineMissing"
	reasonNotHeld        = "DeletionNotHeld"
	reasonUnnoticed      = "ClusterAPIUnaware"
	reasonPoolRolls      = "MachinePoolRolls"
	reasonGate           = "FeatureGateUnknown"
	reasonManaged        = "ReplicasManaged"
	reasonTrialDiffers   = "TrialDiffers"

	reasonGroup           = "MachinePoolWithoutGroup"
	reasonGroupPending    = "MachinePoolPending"
	reasonNoMachines      = "MachinePoolWithoutMachines"
	reasonReplicasWritten = "ReplicasWritten"
)

// Reasons are those that these recipes refuse for, by their names. docs/cluster-api.md has the same table.
func Reasons() []cloud.Reason {
	all := append([]cloud.Reason{
		{
			Name: reasonPaused, Means: "the Cluster or the pool is paused: nothing that is written would be carried out",
			Remedy: "take the pause away once whoever set it is done",
		},
		{
			Name: reasonNotHeld, Means: "the donor does not return, and Cluster API would not wait for the hook that has its place taken first: it waits where a Machine has its Node, and its Cluster a control plane",
			Remedy: "wait for the Machine's `status.nodeRef`; name the control plane in the Cluster's `spec.controlPlaneRef`",
		},
		{
			Name: reasonUnnoticed, Means: "the donor does not return, and Cluster API does not say whether it has taken note of the pool, so that another machine could go as well",
			Remedy: "wait until its controllers have looked at the pool; they say so from v1.9 on, by the condition `Paused`",
		},
		{
			Name: reasonInfrastructure, Means: "the pool's machines are of a kind whose image Kamino cannot set",
			Remedy: "use AWSMachineTemplate, AzureMachineTemplate, AWSMachinePool or AzureMachinePool, or leave the pool out",
		},
		{
			Name: reasonKubernetes, Means: "the pool asks for another version of Kubernetes than the image has: a node of it could not join, or would be another one than is asked for",
			Remedy: "capture a node of the pool's version",
		},
		{
			Name: reasonElsewhere, Means: "the instance has no Machine, so that Cluster API would neither keep nor remove it",
			Remedy: "choose a node of a Machine",
		},
		{
			Name: cloud.PermissionMissing, Means: "the account in the management cluster lacks rights; each is named, with what it is for",
			Remedy: "give it the Role of section Rights, which `kamino manifests --management` prints",
		},
		{
			Name: cloud.PoolAtMaximum, Means: "the pool is to grow before its donor is taken, and its autoscaler's annotation allows no more nodes",
			Remedy: "raise `cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size`, or capture when the pool is smaller",
		},
		{
			Name: reasonDeleted, Means: "the pool or its Cluster is being deleted",
			Remedy: "leave it out",
		},
		{
			Name: reasonRolling, Means: "Cluster API would replace all machines of the pool at each change of its template",
			Remedy: "set `spec.rollout.strategy.type` (v1beta1: `spec.strategy.type`) to `OnDelete`; of a pool made from a ClusterClass, in the Cluster's `spec.topology.workers.machineDeployments[]`",
		},
		{
			Name: reasonTemplate, Means: "the infrastructure template that the pool names does not exist: it can build no machine",
			Remedy: "make the template again, or point the pool at one that exists",
		},
		{
			Name: reasonImage, Means: "the template names no single image, but has Cluster API's provider look for one",
			Remedy: "name the image in the template (AWS: `ami.id`; Azure: `image`)",
		},
		{
			Name: reasonTopology, Means: "the pool is made from a ClusterClass of which no variable holds its image, as far as can be told: what is written to the pool itself the topology controller undoes",
			Remedy: "have an inline patch of the ClusterClass set the image from a variable, by `valueFrom.variable` and without `enabledIf`",
		},
		{
			Name: reasonPending, Means: "the Cluster's topology asks for another image than the pool's template names: Cluster API has not carried it out, or something else than a variable sets it",
			Remedy: "wait, or see the Cluster's condition `TopologyReconciled`",
		},
		{
			Name: reasonReplicas, Means: "the pool is to grow or to lose its donor, and the Cluster's topology says how many machines it has: the topology controller undoes each change of that",
			Remedy: "remove `spec.topology.workers.machineDeployments[].replicas`, as the cluster autoscaler wants it as well",
		},
		{
			Name: cloud.TrialBesideOnly, Means: "a version is tried by a Machine of its own, and not in the pool",
			Remedy: "set the trial to `Apart`",
		},
	}, reasonsOfMachinePools...)
	slices.SortFunc(all, func(a, b cloud.Reason) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// reasonsOfMachinePools are those beside.
var reasonsOfMachinePools = []cloud.Reason{
	{
		Name: reasonGate, Means: "whether the machine pool's provider would roll all its instances cannot be told: its Deployment is not there, not rolled out, or may not be looked at",
		Remedy: "give the account the Role for `capz-system` that `kamino manifests --management` prints, or have the pool's replicas managed elsewhere",
	},
	{
		Name: reasonPoolRolls, Means: "the machine pool's provider would replace running instances at each change of its image",
		Remedy: "AWS: set `spec.refreshPreferences.disable`; Azure: set `spec.strategy.rollingUpdate.maxSurge` to 0 and start CAPZ with the feature gate `SkipMachinePoolModelReconciliation`, or have the pool's replicas managed elsewhere (`cluster.x-k8s.io/replicas-managed-by`)",
	},
	{
		Name: reasonReplicasWritten, Means: "CAPA writes the machine pool's replicas over the size of its Auto Scaling group, which would launch another instance for a donor that is held",
		Remedy: "have the group's size managed elsewhere, as by the cluster autoscaler for AWS, and annotate the MachinePool with `cluster.x-k8s.io/replicas-managed-by`",
	},
	{
		Name: reasonNoMachines, Means: "CAPA makes no Machines for the instances of the machine pool, by which its nodes would be known",
		Remedy: "start CAPA with the feature gates `MachinePool` and `MachinePoolMachines`",
	},
	{
		Name: reasonGroup, Means: "the machine pool's object names no Auto Scaling group of its own that exists",
		Remedy: "wait until CAPA has made it, or see the object's conditions",
	},
	{
		Name: reasonGroupPending, Means: "the machine pool's object names another image than its group's launch template: CAPA has not carried it out yet",
		Remedy: "wait, or see the condition `LaunchTemplateReady` of the AWSMachinePool",
	},
	{
		Name: reasonManaged, Means: "the donor does not return, or the pool is to grow first, and somebody else manages its replicas, who would write another size over it",
		Remedy: "capture donors that return, or take `cluster.x-k8s.io/replicas-managed-by` away",
	},
	{
		Name: reasonTrialDiffers, Means: "a Machine of its own, by which a version is tried, could not be like those of the machine pool; what it cannot have is named",
		Remedy: "do without a trial, or without that",
	},
}

// refuse adds a refusal where there is reason for one.
func refuse(when bool, found []cloud.Refusal, reason, remedy, obstacle string, args ...any) []cloud.Refusal {
	if !when {
		return found
	}
	return append(found, cloud.Refuse(reason, fmt.Sprintf(obstacle, args...), remedy))
}

// refusalsOf tells why no Machine of a pool can be captured, as far as the Cluster and the pool say.
func refusalsOf(cluster, pool object) []cloud.Refusal {
	found := refuse(cluster.deleting(), nil, reasonDeleted, "leave it out", "%s is being deleted", cluster)
	found = refuse(pool.deleting(), found, reasonDeleted, "leave it out", "%s is being deleted", pool)
	return append(found, refusalsToWrite(cluster, pool)...)
}

// refusalsToWrite tells why nothing may be written to a pool: it would change machines that run, or not be carried out. What its topology
// adds to them refuseTopology tells.
func refusalsToWrite(cluster, pool object) []cloud.Refusal {
	const unpause, idle = "take the pause away once whoever set it is done", "%s is paused, so that Cluster API carries nothing out"
	rolls := pool.GetKind() == kindDeployment && pool.strategy() != onDelete
	found := refuse(rolls, nil, reasonRolling, fmt.Sprintf("set its %s to OnDelete", pool.strategyPath()),
		"%s has the strategy %s, by which Cluster API would replace all its machines", pool, pool.strategy())
	found = refuse(cluster.paused(), found, reasonPaused, unpause, idle, cluster)
	byOthers := pool.paused() && (pool.GetKind() != kindDeployment || pool.GetAnnotations()[annotationPlace] == "") // which removing pauses
	return refuse(byOthers, found, reasonPaused, unpause, idle, pool)
}
