package capi

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const kindAWSPool = "AWSMachinePool"

// awsPool describes the machine pools of Cluster API's provider for AWS: Auto Scaling groups. Source: CAPA v2.13,
// exp/api/v1beta2.
var awsPool = machinePoolKind{
	of:              aws,
	path:            pathLaunchTemplate,
	rolls:           awsRolls,
	separateMachine: awsSeparateMachine,
	location:        func(object) string { return "" },
	grouped:         true,
}

var pathLaunchTemplate = []string{"spec", "awsLaunchTemplate"}

// awsRolls returns the reasons why CAPA would replace instances. CAPA starts an instance refresh at a new image. Without the feature gate there are no Machines.
// Source: CAPA, AWSMachinePoolReconciler.reconcileNormal, autoscaling.UpdateASG.
func awsRolls(_, factory object, _ featureGateState) []cloud.Refusal {
	found := refuse(!factory.truth("spec", "refreshPreferences", "disable"), nil, cloud.NodesWouldBeReplaced, "set spec.refreshPreferences.disable to true",
		"CAPA would start an instance refresh at every new image of %s, and replace all instances", factory)
	return refuse(factory.text("status", "infrastructureMachineKind") == "", found, cloud.PoolUnsupported, "start CAPA with "+gatesOfMachinePools,
		"CAPA made no Machines for the instances of %s", factory)
}

// copiedAWSFields are the fields of an AWSMachinePool's launch template that an AWSMachine has too, with the same names and
// types.
var copiedAWSFields = []string{
	"additionalSecurityGroups", "ami", "capacityReservationId", "capacityReservationPreference", "iamInstanceProfile", "imageLookupBaseOS",
	"imageLookupFormat", "imageLookupOrg",
	"instanceMetadataOptions", "instanceType", "marketType", "nonRootVolumes", "privateDnsName", "rootVolume", "spotMarketOptions", "sshKeyName",
}

// copiedAWSPoolFields are such fields outside the launch template.
var copiedAWSPoolFields = []string{"additionalTags", "ignition"}

// ignoredAWSFields are fields without effect on a single machine: placement, replacement and termination in the group, other
// instance types, and fields that CAPA writes.
var ignoredAWSFields = []string{
	"availabilityZoneSubnetType", "availabilityZones", "awsLaunchTemplate", "capacityRebalance", "defaultCoolDown", "defaultInstanceWarmup",
	"lifecycleHooks", "maxSize", "minSize",
	"mixedInstancesPolicy", "name", "providerID", "providerIDList", "refreshPreferences", "subnets", "suspendProcesses", "versionNumber",
}

// awsSeparateMachine returns the spec of an AWSMachine like the instances of an AWSMachinePool. User data is in the launch
// template, because the role may lack permissions for Secrets Manager. Source: CAPA, AWSMachineSpec.
func awsSeparateMachine(factory object) (machine spec, without []string) {
	whole, _, _ := unstructured.NestedMap(factory.Object, "spec")
	template, _, _ := unstructured.NestedMap(factory.Object, pathLaunchTemplate...)
	machine = spec{}
	without = append(machine.copyFields(whole, "spec.", copiedAWSPoolFields, ignoredAWSFields),
		machine.copyFields(template, "spec.awsLaunchTemplate.", copiedAWSFields, ignoredAWSFields)...)
	if subnets, _, _ := unstructured.NestedSlice(whole, "subnets"); len(subnets) > 0 {
		machine["subnet"] = subnets[0]
	}
	if machine.text("instanceType") == "" { // a mixed instances policy chooses the type
		without = append(without, "an instance type of the policy")
	}
	if !machine.has("ignition") {
		machine["cloudInit"] = map[string]any{"insecureSkipSecretsManager": true}
	}
	slices.Sort(without)
	return machine, without
}
