package capi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Reasons of refusals.
const (
	// reasonPending: Cluster API has not applied a change, or does not report it.
	reasonPending    = "ClusterAPIPending"
	reasonPaused     = "ClusterAPIPaused"
	reasonTemplate   = "TemplateMissing"
	reasonKubernetes = "KubernetesVersionDiffers"
	reasonElsewhere  = "NotInPool"
)

// Reasons returns the reasons of this package's refusals, sorted by name. docs/reference/cluster-api.md has the same table.
func Reasons() []cloud.Reason {
	all := append([]cloud.Reason{
		{
			Name: reasonPaused, Means: "the Cluster or the pool is paused: Cluster API would ignore a write",
			Remedy: "end the pause when the reason for the pause is gone",
		},
		{
			Name: cloud.PoolUnsupported, Means: "Kamino cannot set the image of the pool's machine kind",
			Remedy: "use AWSMachineTemplate, AzureMachineTemplate, AWSMachinePool or AzureMachinePool, or leave the pool out",
		},
		{
			Name:   reasonKubernetes,
			Means:  "the pool asks for another version of Kubernetes than the image has; a new node might not join, or would have the wrong version",
			Remedy: "capture a node of the pool's version",
		},
		{
			Name: reasonElsewhere, Means: "the instance has no Machine, so Cluster API does not manage the instance",
			Remedy: "choose a node of a Machine",
		},
		{
			Name: cloud.PermissionMissing, Means: "the account in the management cluster lacks rights; the message names the rights and the purpose",
			Remedy: "give the account the Role of `kamino manifests --management` (section Rights)",
		},
		{
			Name: cloud.PoolBeingDeleted, Means: "the pool or its Cluster is being deleted",
			Remedy: "leave the pool out",
		},
		{
			Name: cloud.NodesWouldBeReplaced, Means: "Cluster API would replace all machines of the pool at every change of the template",
			Remedy: "set `spec.rollout.strategy.type` (v1beta1: `spec.strategy.type`) to `OnDelete`; with a ClusterClass, " +
				"in the Cluster's `spec.topology.workers.machineDeployments[]`",
		},
		{
			Name: reasonTemplate, Means: "the pool's infrastructure template does not exist, so the pool can build no machine",
			Remedy: "create the template again, or point the pool at an existing template",
		},
		{
			Name: cloud.TemplateUnsuitable, Means: "the template names no image, so the provider would look up an image",
			Remedy: "name the image in the template (AWS: `ami.id`; Azure: `image`)",
		},
		{
			Name: cloud.ManagedElsewhere,
			Means: "the pool is made from a ClusterClass, and Kamino finds no variable with the image; " +
				"the topology controller would revert a write to the pool",
			Remedy: "set the image from a variable in an inline patch of the ClusterClass, with `valueFrom.variable` and without `enabledIf`",
		},
		{
			Name: reasonPending,
			Means: "the Cluster's topology asks for another image than the pool's template names: Cluster API has not applied the image, " +
				"or another source sets the image",
			Remedy: "wait, or check the Cluster's condition `TopologyReconciled`",
		},
	}, reasonsOfMachinePools...)
	slices.SortFunc(all, func(a, b cloud.Reason) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// reasonsOfMachinePools are the reasons for machine pools.
var reasonsOfMachinePools = []cloud.Reason{
	{
		Name: cloud.NodesWouldBeReplaced,
		Means: "it is unknown whether the provider would replace all instances of the machine pool: the provider's Deployment is missing, " +
			"not rolled out, or unreadable",
		Remedy: "give the account the Role for `capz-system` that `kamino manifests --management` prints, or let another tool manage the replicas",
	},
	{
		Name: cloud.NodesWouldBeReplaced, Means: "the provider would replace running instances at every change of the machine pool's image",
		Remedy: "AWS: set `spec.refreshPreferences.disable`; Azure: set `spec.strategy.rollingUpdate.maxSurge` to 0 and start CAPZ with the feature " +
			"gate `SkipMachinePoolModelReconciliation`, or let another tool manage the replicas (`cluster.x-k8s.io/replicas-managed-by`)",
	},
	{
		Name: cloud.PoolUnsupported, Means: "CAPA makes no Machines for the machine pool's instances, so Kamino cannot find the nodes",
		Remedy: "start CAPA with the feature gates `MachinePool` and `MachinePoolMachines`",
	},
	{
		Name: reasonPending, Means: "the machine pool's object names no existing Auto Scaling group of the pool",
		Remedy: "wait until CAPA has made the group, or check the object's conditions",
	},
	{
		Name: reasonPending, Means: "the machine pool's object names another image than the group's launch template: CAPA has not applied the image yet",
		Remedy: "wait, or check the condition `LaunchTemplateReady` of the AWSMachinePool",
	},
	{
		Name: cloud.PoolNotCopyable, Means: "the separate Machine of a trial or workshop would differ from the machine pool's machines; the message names the fields",
		Remedy: "remove the named fields, or for trials disable trials",
	},
}

// refuse appends a refusal if when is true.
func refuse(when bool, found []cloud.Refusal, reason, remedy, obstacle string, args ...any) []cloud.Refusal {
	if !when {
		return found
	}
	return append(found, cloud.Refuse(reason, fmt.Sprintf(obstacle, args...), remedy))
}

// refusalsOf returns the reasons in Cluster and pool against any capture.
func refusalsOf(cluster, pool object) []cloud.Refusal {
	found := refuse(cluster.deleting(), nil, cloud.PoolBeingDeleted, "leave the pool out", "%s is being deleted", cluster)
	found = refuse(pool.deleting(), found, cloud.PoolBeingDeleted, "leave the pool out", "%s is being deleted", pool)
	return append(found, refusalsToWrite(cluster, pool)...)
}

// refusalsToWrite returns the reasons against a write to a pool: the write would change running machines, or would have
// no effect. refuseTopology adds the topology's reasons.
func refusalsToWrite(cluster, pool object) []cloud.Refusal {
	const unpause, idle = "end the pause when the reason for the pause is gone", "%s is paused, so Cluster API would ignore a write"
	rolls := pool.GetKind() == kindDeployment && pool.strategy() != onDelete
	found := refuse(rolls, nil, cloud.NodesWouldBeReplaced, fmt.Sprintf("set %s to OnDelete", pool.strategyPath()),
		"%s has the strategy %s, so Cluster API would replace all machines", pool, pool.strategy())
	found = refuse(cluster.paused(), found, reasonPaused, unpause, idle, cluster)
	return refuse(pool.paused(), found, reasonPaused, unpause, idle, pool)
}
