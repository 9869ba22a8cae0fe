package capi

import (
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const kindAzurePool = "AzureMachinePool"

// azurePool describes the machine pools of Cluster API's provider for Azure: scale sets. Source: CAPZ, exp/api/v1beta1.
var azurePool = machinePoolKind{
	of:              azure,
	path:            []string{"spec", "template"},
	rolls:           azureRolls,
	gated:           true,
	separateMachine: azureSeparateMachine,
	location:        func(factory object) string { return factory.text("spec", "location") },
}

// pathSurge is the path of maxSurge in an AzureMachinePool.
var pathSurge = []string{"spec", "strategy", "rollingUpdate", "maxSurge"}

// surge returns maxSurge as text, and whether the value is 0. The default is 1. Source: CAPZ, Surge.
func surge(factory object) (text string, none bool) {
	switch value, _, _ := unstructured.NestedFieldNoCopy(factory.Object, pathSurge...); n := value.(type) {
	case string:
		return n, strings.Trim(n, "0%") == "" && n != ""
	case int64:
		return strconv.FormatInt(n, 10), n == 0
	case float64:
		return strconv.FormatInt(int64(n), 10), n == 0
	}
	return "1", false
}

// azureRolls returns the reasons why CAPZ would replace instances at a new image. So Kamino requires feature gate
// SkipMachinePoolModelReconciliation and no surge, or replicas managed elsewhere. Source: CAPZ, scalesets.ScaleSetSpec,
// MachinePoolScope.applyAzureMachinePoolMachines, SelectMachinesToDelete.
func azureRolls(pool, factory object, skips featureGateState) []cloud.Refusal {
	found := refuse(factory.text("spec", "orchestrationMode") == "Flexible", nil, cloud.PoolUnsupported, "use Uniform orchestration, or a MachineDeployment",
		"%s has Flexible orchestration, and CAPZ's treatment of such instances is unverified", factory)
	if pool.replicasElsewhere() != "" {
		return found
	}
	text, none := surge(factory)
	found = refuse(!none, found, cloud.NodesWouldBeReplaced, "set "+strings.Join(pathSurge, ".")+" to 0, and maxUnavailable to 1, as CAPZ requires",
		"%s has a maxSurge of %s, so CAPZ would add instances of every new image, and delete as many running instances", factory, text)
	switch {
	case skips.why != "":
		found = append(found, cloud.Refuse(cloud.NodesWouldBeReplaced,
			"it is unknown whether CAPZ would replace all instances of "+factory.String()+": "+skips.why, skips.remedy))
	case !skips.on:
		found = append(found, cloud.Refuse(cloud.NodesWouldBeReplaced,
			"CAPZ would replace all instances of "+factory.String()+", because feature gate "+gateName+" is off",
			"start CAPZ (v1.25 or later) with --feature-gates="+gateName+"=true, or set on the MachinePool the annotation "+annotationReplicas))
	}
	return found
}

// copiedFields are the fields of an AzureMachinePool's template that an AzureMachine has too, with the same names and types.
var copiedFields = []string{
	"acceleratedNetworking", "additionalCapabilities", "dataDisks", "diagnostics", "disableVMBootstrapExtension", "image", "networkInterfaces", "osDisk",
	"securityProfile", "spotVMOptions", "sshPublicKey", "subnetName", "vmExtensions", "vmSize",
}

// copiedPoolFields are such fields outside the template.
var copiedPoolFields = []string{"additionalTags", "identity", "userAssignedIdentities"}

// ignoredFields are fields without effect on a single machine: placement, replacement and termination in the scale set, fields
// that CAPZ writes, and names of role assignments.
var ignoredFields = []string{
	"location", "orchestrationMode", "platformFaultDomainCount", "providerID", "providerIDList", "roleAssignmentName", "strategy",
	"systemAssignedIdentityRole", "template", "terminateNotificationTimeout", "zoneBalance",
}

// azureSeparateMachine returns the spec of an AzureMachine like the instances of an AzureMachinePool. Source: CAPZ,
// AzureMachineSpec.
func azureSeparateMachine(factory object) (machine spec, without []string) {
	machine = spec{}
	whole, _, _ := unstructured.NestedMap(factory.Object, "spec")
	template, _, _ := unstructured.NestedMap(whole, "template")
	without = append(machine.copyFields(whole, "spec.", copiedPoolFields, ignoredFields),
		machine.copyFields(template, "spec.template.", copiedFields, ignoredFields)...)
	if role, found, _ := unstructured.NestedMap(whole, "systemAssignedIdentityRole"); found {
		delete(role, "name")
		machine["systemAssignedIdentityRole"] = role
	}
	if _, said := machine["disableVMBootstrapExtension"]; !said { // the kinds have different defaults
		machine["disableVMBootstrapExtension"] = true
	}
	slices.Sort(without)
	return machine, without
}

// RulesApart returns the account's rules outside the Cluster's namespace, by namespace: the read of CAPZ's Deployment.
func RulesApart(d cloud.Description) map[string][]rbacv1.PolicyRule {
	if d.Name != azurePool.of.cloud {
		return nil
	}
	return map[string][]rbacv1.PolicyRule{gateNamespace: {
		{APIGroups: []string{appsv1.GroupName}, Resources: []string{"deployments"}, ResourceNames: []string{gateDeployment}, Verbs: []string{"get"}},
	}}
}
