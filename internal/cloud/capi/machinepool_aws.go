package capi

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const kindAWSPool = "AWSMachinePool"

// awsPool are the machine pools of Cluster API's provider for AWS: Auto Scaling groups. Source: CAPA v2.13, exp/api/v1beta2.
var awsPool = pooled{
	of:       aws,
	path:     pathLaunchTemplate,
	rolls:    awsRolls,
	beside:   awsBeside,
	location: func(object) string { return "" },
	grouped:  true,
}

var pathLaunchTemplate = []string{"spec", "awsLaunchTemplate"}

// awsRolls tells why CAPA would replace instances, or could not have one held. At a new image it makes a version of the launch template,
// and starts an instance refresh unless that is disabled. Unless the replicas are managed elsewhere it writes them over the group's
// desired capacity, and the group launches another instance for one that is in standby. Without its feature gate for them there are no
// Machines. Source: CAPA, AWSMachinePoolReconciler.reconcileNormal, autoscaling.UpdateASG.
func awsRolls(pool, factory object, _ gate) []cloud.Refusal {
	found := refuse(!factory.truth("spec", "refreshPreferences", "disable"), nil, reasonPoolRolls, "set its spec.refreshPreferences.disable to true",
		"CAPA would start an instance refresh at each new image of %s, which replaces all its instances", factory)
	found = refuse(pool.replicasElsewhere() == "", found, reasonReplicasWritten, "have them managed elsewhere, as by the cluster autoscaler for AWS, and say so by its annotation "+annotationReplicas,
		"CAPA writes the replicas of %s over the size of its group, which would replace a donor that is held", pool)
	return refuse(factory.text("status", "infrastructureMachineKind") == "", found, reasonNoMachines, "start CAPA with --feature-gates=MachinePool=true,MachinePoolMachines=true",
		"CAPA has made no Machines for the instances of %s", factory)
}

// carriedAWS are the fields of an AWSMachinePool's launch template that an AWSMachine has as well, under the same names and of the same
// types.
var carriedAWS = []string{
	"additionalSecurityGroups", "ami", "capacityReservationId", "capacityReservationPreference", "iamInstanceProfile", "imageLookupBaseOS", "imageLookupFormat", "imageLookupOrg",
	"instanceMetadataOptions", "instanceType", "marketType", "nonRootVolumes", "privateDnsName", "rootVolume", "spotMarketOptions", "sshKeyName",
}

// carriedOfAWSPool are those beside the launch template.
var carriedOfAWSPool = []string{"additionalTags", "ignition"}

// idleAWS are fields that say nothing of what a machine is: how the group spreads, replaces and ends its instances, of which types it may
// take others, and what CAPA itself writes there.
var idleAWS = []string{
	"availabilityZoneSubnetType", "availabilityZones", "awsLaunchTemplate", "capacityRebalance", "defaultCoolDown", "defaultInstanceWarmup", "lifecycleHooks", "maxSize", "minSize",
	"mixedInstancesPolicy", "name", "providerID", "providerIDList", "refreshPreferences", "subnets", "suspendProcesses", "versionNumber",
}

// awsBeside is the spec of an AWSMachine like the instances of an AWSMachinePool. Their user data are in the launch template, and not in
// Secrets Manager, which their role need not be allowed. Source: CAPA, AWSMachineSpec.
func awsBeside(factory object) (machine spec, without []string) {
	whole, _, _ := unstructured.NestedMap(factory.Object, "spec")
	template, _, _ := unstructured.NestedMap(factory.Object, pathLaunchTemplate...)
	machine = spec{}
	without = append(machine.carry(whole, "spec.", carriedOfAWSPool, idleAWS), machine.carry(template, "spec.awsLaunchTemplate.", carriedAWS, idleAWS)...)
	if subnets, _, _ := unstructured.NestedSlice(whole, "subnets"); len(subnets) > 0 {
		machine["subnet"] = subnets[0]
	}
	if machine.text("instanceType") == "" { // which a mixed instances policy chooses
		without = append(without, "an instance type of the policy")
	}
	if !machine.has("ignition") {
		machine["cloudInit"] = map[string]any{"insecureSkipSecretsManager": true}
	}
	slices.Sort(without)
	return machine, without
}
