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

// azurePool are the machine pools of Cluster API's provider for Azure: scale sets. Source: CAPZ, exp/api/v1beta1.
var azurePool = pooled{
	of:       azure,
	path:     []string{"spec", "template"},
	rolls:    azureRolls,
	gated:    true,
	beside:   azureBeside,
	location: func(factory object) string { return factory.text("spec", "location") },
}

// pathSurge is where an AzureMachinePool says how many instances are added while others are replaced.
var pathSurge = []string{"spec", "strategy", "rollingUpdate", "maxSurge"}

// surge of an AzureMachinePool, as a person would write it, and whether it is none. One that says nothing has 1. Source: CAPZ, Surge.
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

// azureRolls tells why CAPZ would replace instances. What it does at a changed image: it writes the scale set's model; it adds maxSurge
// instances of it at once, and deletes as many of those that run to come down to the replicas again; and then it replaces the others
// within maxUnavailable, unless its feature gate SkipMachinePoolModelReconciliation is on. So it takes the gate and no surge. Where the
// replicas are managed elsewhere it neither adds nor deletes any, whatever the gate. Source: CAPZ, scalesets.ScaleSetSpec,
// MachinePoolScope.applyAzureMachinePoolMachines, SelectMachinesToDelete.
func azureRolls(pool, factory object, skips gate) []cloud.Refusal {
	found := refuse(factory.text("spec", "orchestrationMode") == "Flexible", nil, "FlexibleOrchestration", "use Uniform orchestration, or a MachineDeployment",
		"%s has Flexible orchestration, with which nobody has seen what CAPZ does to its instances", factory)
	if pool.replicasElsewhere() != "" {
		return found
	}
	text, none := surge(factory)
	found = refuse(!none, found, reasonPoolRolls, "set its "+strings.Join(pathSurge, ".")+" to 0 (and maxUnavailable to 1, without which CAPZ does not take that)",
		"%s has a maxSurge of %s, so that CAPZ would add instances of each new image, and delete as many that run", factory, text)
	switch {
	case skips.why != "":
		found = append(found, cloud.Refuse(reasonGate, "whether CAPZ would roll all instances of "+factory.String()+" cannot be told, for "+skips.why, skips.remedy))
	case !skips.on:
		found = append(found, cloud.Refuse(reasonPoolRolls, "CAPZ would roll all instances of "+factory.String()+", for its feature gate "+gateSkips+" is off",
			"start CAPZ (v1.25 or later) with --feature-gates="+gateSkips+"=true, or have the pool's replicas managed elsewhere, by "+annotationReplicas))
	}
	return found
}

// carried are the fields of an AzureMachinePool's template that an AzureMachine has as well, under the same names and of the same types.
var carried = []string{
	"acceleratedNetworking", "additionalCapabilities", "dataDisks", "diagnostics", "disableVMBootstrapExtension", "image", "networkInterfaces", "osDisk",
	"securityProfile", "spotVMOptions", "sshPublicKey", "subnetName", "vmExtensions", "vmSize",
}

// carriedOfPool are those beside its template.
var carriedOfPool = []string{"additionalTags", "identity", "userAssignedIdentities"}

// idle are fields of both that say nothing of what a machine is: how the scale set spreads, replaces and ends its instances, what CAPZ
// itself writes there, and the names of role assignments, of which each machine has one of its own.
var idle = []string{
	"location", "orchestrationMode", "platformFaultDomainCount", "providerID", "providerIDList", "roleAssignmentName", "strategy", "systemAssignedIdentityRole", "template",
	"terminateNotificationTimeout", "zoneBalance",
}

// azureBeside is the spec of an AzureMachine like the instances of an AzureMachinePool. Source: CAPZ, AzureMachineSpec.
func azureBeside(factory object) (machine spec, without []string) {
	machine = spec{}
	whole, _, _ := unstructured.NestedMap(factory.Object, "spec")
	template, _, _ := unstructured.NestedMap(whole, "template")
	without = append(machine.carry(whole, "spec.", carriedOfPool, idle), machine.carry(template, "spec.template.", carried, idle)...)
	if role, found, _ := unstructured.NestedMap(whole, "systemAssignedIdentityRole"); found {
		delete(role, "name")
		machine["systemAssignedIdentityRole"] = role
	}
	if _, said := machine["disableVMBootstrapExtension"]; !said { // which of the two kinds means that where it says nothing
		machine["disableVMBootstrapExtension"] = true
	}
	slices.Sort(without)
	return machine, without
}

// RulesApart are what the account must be allowed elsewhere than in the Cluster's namespace, by namespaces, to tell what its machine
// pools' provider would do: to look at one object.
func RulesApart(d cloud.Description) map[string][]rbacv1.PolicyRule {
	if d.Name != azurePool.of.cloud {
		return nil
	}
	return map[string][]rbacv1.PolicyRule{gateNamespace: {
		{APIGroups: []string{appsv1.GroupName}, Resources: []string{"deployments"}, ResourceNames: []string{gateDeployment}, Verbs: []string{"get"}},
	}}
}
