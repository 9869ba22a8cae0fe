package capi

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	poolOfIt = `{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachinePool, metadata: {name: workers, namespace: fleet}, spec: {
  failureDomains: ["2", "3"], template: {spec: {bootstrap: {dataSecretName: pools-own, configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: join}},
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AzureMachinePool, name: workers}}}}}`
	factoryOfIt = `{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: AzureMachinePool, metadata: {name: workers, namespace: fleet}, spec: {
  location: westeurope, strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}},
  template: {vmSize: Standard_D2s_v5, image: {id: /an/image}, osDisk: {osType: Linux}, sshPublicKey: "", terminateNotificationTimeout: 5}}}`
)

// viewOf is a look at a MachinePool.
func viewOf(t *testing.T, pool, factory string) poolView {
	t.Helper()
	v := poolView{ref: ref{"fleet", machinePools, "workers"}, at: placement{location: "westeurope"}, cluster: parseObject(t, clusterOfIt),
		pool: parseObject(t, pool), template: parseObject(t, factory)}
	v.named = v.pool.reference(pathInfrastructure...)
	v.of, v.known, v.path = v.infrastructure()
	if v.known {
		v.image = v.of.image(v.machine())
	}
	return v
}

// someInstances is a cloud that has only some of the instances.
type someInstances struct {
	Images
	has []cloud.InstanceID
}

func (s someInstances) InstancesOf(_ context.Context, ids []cloud.InstanceID) (map[cloud.InstanceID]cloud.Instance, error) {
	seen := map[cloud.InstanceID]cloud.Instance{}
	for _, id := range ids {
		if slices.Contains(s.has, id) {
			seen[id] = cloud.Instance{ID: id, Image: "an image"}
		}
	}
	return seen, nil
}

// TestMachinesWithoutAnInstance: a Machine stays for a while after its instance, which then counts as going.
func TestMachinesWithoutAnInstance(t *testing.T) {
	machines := []object{
		parseObject(t, `{kind: Machine, metadata: {name: one}, spec: {providerID: "azure:///one"}}`),
		parseObject(t, `{kind: Machine, metadata: {name: two}, spec: {providerID: "azure:///two"}}`),
	}
	access := &clusterAccess{images: someInstances{has: []cloud.InstanceID{"azure:///one"}}}
	found, err := access.instancesOfPool(t.Context(), viewOf(t, poolOfIt, factoryOfIt), machines)
	if err != nil || len(found) != 2 || found[0].Removing || found[0].Image != "an image" || !found[1].Removing {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestRollingMachinePools: only the gate without a surge, or an owner of the replicas elsewhere, leave instances alone.
func TestRollingMachinePools(t *testing.T) {
	elsewhere := strings.Replace(poolOfIt, "namespace: fleet", "namespace: fleet, annotations: {cluster.x-k8s.io/replicas-managed-by: cluster-autoscaler}", 1)
	surges := func(to string) string { return strings.Replace(factoryOfIt, "maxSurge: 0", to, 1) }
	on, off, unknown := featureGateState{on: true}, featureGateState{}, featureGateState{why: "unreadable", remedy: "grant the right"}
	for name, c := range map[string]struct {
		pool, factory string
		skips         featureGateState
		want          []string
		says          string
	}{
		"gate, no surge":         {poolOfIt, factoryOfIt, on, nil, ""},
		"gate, none of percents": {poolOfIt, surges(`maxSurge: "0%"`), on, nil, ""},
		"gate, surge":            {poolOfIt, surges("maxSurge: 2"), on, []string{cloud.NodesWouldBeReplaced}, "maxSurge of 2"},
		"gate, percents":         {poolOfIt, surges(`maxSurge: "10%"`), on, []string{cloud.NodesWouldBeReplaced}, "maxSurge of 10%"},
		"gate, surge by default": {poolOfIt, surges("x: y"), on, []string{cloud.NodesWouldBeReplaced}, "set spec.strategy.rollingUpdate.maxSurge to 0"},
		"no gate, no surge":      {poolOfIt, factoryOfIt, off, []string{cloud.NodesWouldBeReplaced}, "--feature-gates=SkipMachinePoolModelReconciliation=true"},
		"no gate, surge":         {poolOfIt, surges("x: y"), off, []string{cloud.NodesWouldBeReplaced, cloud.NodesWouldBeReplaced}, ""},
		"gate is unreadable":     {poolOfIt, factoryOfIt, unknown, []string{cloud.NodesWouldBeReplaced}, ": unreadable; grant the right"},
		"elsewhere":              {elsewhere, surges("x: y"), off, nil, ""},
		"flexible, elsewhere": {elsewhere, surges("x: y}}, orchestrationMode: Flexible, other: {a: {b: c"), off,
			[]string{"PoolUnsupported"}, "Flexible orchestration"},
		"elsewhere, but it is not": {strings.Replace(elsewhere, "cluster-autoscaler", "'false'", 1), factoryOfIt, off, []string{cloud.NodesWouldBeReplaced}, ""},
	} {
		var reasons []string
		var messages strings.Builder
		for _, r := range azureRolls(parseObject(t, c.pool), parseObject(t, c.factory), c.skips) {
			reasons = append(reasons, r.Reason)
			messages.WriteString(r.Message)
			if r.Remedy == "" || r.Reason != "PoolUnsupported" &&
				!slices.ContainsFunc(Reasons(), func(known cloud.Reason) bool { return known.Name == r.Reason }) {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if diff := cmp.Diff(c.want, reasons); diff != "" || !strings.Contains(messages.String(), c.says) {
			t.Errorf("%s: %q: %s", name, messages.String(), diff)
		}
	}
}

// TestFeatureGates: the gates come from a Deployment whose pods are all current.
func TestFeatureGates(t *testing.T) {
	const name = gateName
	for args, want := range map[string]struct{ on, set bool }{
		"":                                  {false, false},
		"--feature-gates=" + name + "=true": {true, true},
		"--feature-gates=MachinePool=true," + name + "=true,EdgeZone=false":    {true, true},
		"--feature-gates " + name + "=1":                                       {true, true},
		"--feature-gates=" + name + "=false":                                   {false, true},
		"--feature-gates=" + name:                                              {false, true},
		"--feature-gates=" + name + "=maybe":                                   {false, true},
		"--feature-gates=Not" + name + "=true":                                 {false, false},
		"--feature-gates=" + name + "=true --feature-gates=" + name + "=false": {false, true},
		"--other=" + name + "=true":                                            {false, false},
		"--feature-gates":                                                      {false, false},
	} {
		if on, set := featureGate(strings.Fields(args), name); on != want.on || set != want.set {
			t.Errorf("%q: on %t, set %t", args, on, set)
		}
	}
	deployment := func(change func(*appsv1.Deployment)) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: gateNamespace, Name: gateDeployment, Generation: 2},
			Status: appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"--leader-elect", "--feature-gates=" + name + "=true"}}, {Args: []string{"--v=0"}}}
		change(d)
		return d
	}
	for what, c := range map[string]struct {
		change func(*appsv1.Deployment)
		on     bool
		why    string
	}{
		"on":                {func(*appsv1.Deployment) {}, true, ""},
		"without arguments": {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Args = nil }, false, ""},
		"not observed":      {func(d *appsv1.Deployment) { d.Generation = 3 }, false, "not rolled out"},
		"under way":         {func(d *appsv1.Deployment) { d.Status.Replicas = 2 }, false, "1 of 2 pods"},
		"no replicas":       {func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2} }, false, "not rolled out"},
	} {
		if seen := gateOf(deployment(c.change), name); seen.on != c.on || (seen.why == "") != (c.why == "") || !strings.Contains(seen.why, c.why) {
			t.Errorf("%s: %+v", what, seen)
		}
	}
}

// TestOverlays: an overlay changes one object into another, and contains only differences.
func TestOverlays(t *testing.T) {
	for name, c := range map[string]struct{ was, is, want string }{
		"same":      {`{a: 1, b: {c: d}}`, `{a: 1, b: {c: d}}`, `{}`},
		"changed":   {`{a: 1, b: {c: d, e: f}}`, `{a: 1, b: {c: x, e: f}}`, `{b: {c: x}}`},
		"one other": {`{image: {marketplace: {offer: o}}}`, `{image: {computeGallery: {name: n}}}`, `{image: {marketplace: null, computeGallery: {name: n}}}`},
		"less": {`{image: {computeGallery: {name: n, plan: {sku: s}}}}`, `{image: {computeGallery: {name: n}}}`,
			`{image: {computeGallery: {plan: null}}}`},
		"no map": {`{a: {b: c}}`, `{a: [x]}`, `{a: [x]}`},
		"new":    {`{}`, `{image: {id: i}}`, `{image: {id: i}}`},
	} {
		got := overlay(parseObject(t, c.was).Object, parseObject(t, c.is).Object)
		if diff := cmp.Diff(parseObject(t, c.want).Object, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestTrialMachinesOfPools: a trial Machine has all settings of the pool that a Machine can have. Other settings are
// reported.
func TestTrialMachinesOfPools(t *testing.T) {
	for name, c := range map[string]struct {
		spec, want string
		without    []string
	}{
		"plain": {
			`{location: westeurope, template: {vmSize: s, osDisk: {osType: Linux}, sshPublicKey: k, image: {id: /i}}}`,
			`{vmSize: s, osDisk: {osType: Linux}, sshPublicKey: k, image: {id: /i}, disableVMBootstrapExtension: true}`, nil,
		},
		"all": {
			`{location: l, providerID: p, providerIDList: [a], additionalTags: {a: b}, identity: UserAssigned, userAssignedIdentities: [{providerID: i}], strategy: {type: RollingUpdate}, orchestrationMode: Uniform,
			  platformFaultDomainCount: 1, zoneBalance: true, template: {vmSize: s, dataDisks: [{lun: 0}], networkInterfaces: [{subnetName: n}], vmExtensions: [{name: e}], terminateNotificationTimeout: 5,
			  securityProfile: {encryptionAtHost: true}, diagnostics: {boot: {}}, additionalCapabilities: {ultraSSDEnabled: true}, disableVMBootstrapExtension: false}}`,
			`{additionalTags: {a: b}, identity: UserAssigned, userAssignedIdentities: [{providerID: i}], vmSize: s, dataDisks: [{lun: 0}], networkInterfaces: [{subnetName: n}], vmExtensions: [{name: e}],
			  securityProfile: {encryptionAtHost: true}, diagnostics: {boot: {}}, additionalCapabilities: {ultraSSDEnabled: true}, disableVMBootstrapExtension: false}`, nil,
		},
		"role": {
			`{identity: SystemAssigned, roleAssignmentName: one, systemAssignedIdentityRole: {name: one, scope: s}, template: {}}`,
			`{identity: SystemAssigned, systemAssignedIdentityRole: {scope: s}, disableVMBootstrapExtension: true}`, nil,
		},
		"more than is known": {
			`{hosts: h, template: {vmSize: s, placement: p}}`, `{vmSize: s, disableVMBootstrapExtension: true}`,
			[]string{"spec.hosts", "spec.template.placement"},
		},
	} {
		factory := parseObject(t, `{kind: AzureMachinePool, spec: `+c.spec+`}`)
		before := factory.DeepCopy()
		machine, without := azureSeparateMachine(factory)
		if diff := cmp.Diff(parseObject(t, c.want).Object, map[string]any(machine)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(c.without, without); diff != "" {
			t.Errorf("%s is without (-want +got):\n%s", name, diff)
		}
		machine["vmSize"] = "another"
		if diff := cmp.Diff(before.Object, factory.Object); diff != "" {
			t.Errorf("%s: the pool was changed: %s", name, diff)
		}
	}
}

// TestTrialsOfMachinePools covers the obstacles to a trial, and the bootstrap configuration of its Machine.
func TestTrialsOfMachinePools(t *testing.T) {
	for name, c := range map[string]struct{ pool, factory, says string }{
		"nothing":   {poolOfIt, factoryOfIt, ""},
		"more":      {poolOfIt, strings.Replace(factoryOfIt, "vmSize:", "placement: p, vmSize:", 1), "cannot have spec.template.placement"},
		"elsewhere": {poolOfIt, strings.Replace(factoryOfIt, "westeurope", "northeurope", 1), "are in northeurope"},
		"another bootstrap": {strings.Replace(poolOfIt, "kind: KubeadmConfig", "kind: RKE2Config", 1), factoryOfIt,
			"RKE2Config join, which Kamino cannot copy"},
		"data of its own": {strings.Replace(poolOfIt, ", configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: join}",
			"", 1), factoryOfIt, ""},
	} {
		found := viewOf(t, c.pool, c.factory).refuseSeparateMachine(trials)
		if len(found) != min(len(c.says), 1) || c.says != "" && (!strings.Contains(found[0].Message, c.says) || found[0].Reason != cloud.PoolNotCopyable) {
			t.Errorf("%s: %+v", name, found)
		}
	}
	config := parseObject(t, `{kind: KubeadmConfig, spec: {files: [{path: /etc/kubernetes/azure.json}], joinConfiguration: {discovery: {bootstrapToken: {token: pools-own, caCertHashes: [h], apiServerEndpoint: e}}, nodeRegistration: {name: n}}}}`)
	want := parseObject(t, `{files: [{path: /etc/kubernetes/azure.json}], joinConfiguration: {discovery: {bootstrapToken: {caCertHashes: [h], apiServerEndpoint: e}}, nodeRegistration: {name: n}}}`)
	kind, content, _ := contentOf(config)
	if diff := cmp.Diff(want.Object, content); diff != "" || kind != kindConfig {
		t.Errorf("a copy of the configuration is a %s: %s", kind, diff)
	}
	machine := parseObject(t, poolOfIt).Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	forSeparateMachine(parseObject(t, poolOfIt), machine)
	if text, _ := json.Marshal(machine); strings.Contains(string(text), "pools-own") || machine["failureDomain"] != "2" {
		t.Errorf("the Machine is %s", text)
	}
	for from, to := range map[string]string{
		kindAzurePool: "AzureMachine", "AzureMachineTemplate": "AzureMachine", kindConfig: kindConfig, "KubeadmConfigTemplate": kindConfig,
	} {
		if made := madeOf(schema.GroupKind{Group: infrastructureGroup, Kind: from}); made.Kind != to {
			t.Errorf("from %s is made %s", from, made)
		}
	}
}

// TestImagesOfMachinePools: the image is replaced in place, and restored exactly.
func TestImagesOfMachinePools(t *testing.T) {
	const version = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/SIG_g/images/i/versions/2026.1.9"
	const planned = `{computeGallery: {subscriptionID: s, resourceGroup: g, gallery: SIG_g, name: old, version: 1.0.0, plan: {sku: bought}}}`
	v := viewOf(t, poolOfIt, strings.Replace(factoryOfIt, "{id: /an/image}", planned, 1))
	was, native := v.savedImageField(), v.image
	renamed, err := v.specWithImage(version, nil)
	if err != nil || v.of.image(renamed) != version || v.image != v.of.image(v.machine()) {
		t.Fatalf("renamed it is %v, %v; and was %v", renamed, err, v.machine())
	}
	want := parseObject(t, `{image: {computeGallery: {name: i, version: 2026.1.9, plan: null}}}`)
	if diff := cmp.Diff(want.Object, overlay(v.machine(), renamed)); diff != "" {
		t.Errorf("what is written (-want +got):\n%s", diff)
	}
	saved, err := json.Marshal(backup{Pool: v.ref.pool(), Kind: v.named.Kind, Template: v.named.name, Image: v.image, Written: was})
	if err != nil {
		t.Fatal(err)
	}
	read, err := readBackup(v.ref, saved)
	if err != nil {
		t.Fatal(err)
	}
	v.machine()[v.of.root] = renamed[v.of.root]
	back, err := v.specWithImage(native, read.Written)
	if diff := cmp.Diff(was, back[v.of.root]); diff != "" || err != nil {
		t.Errorf("released (-was +is), %v:\n%s", err, diff)
	}
	if other, err := v.specWithImage(version, read.Written); err != nil || v.of.image(other) != version {
		t.Errorf("what was saved is written for another image: %v, %v", other, err)
	}
}

// TestUnknownMachinePools are refused by their kind. Pools with equal names have different families.
func TestUnknownMachinePools(t *testing.T) {
	for _, kind := range []string{"AWSManagedMachinePool", "GCPMachinePool"} {
		says := "uses " + kind + " workers, but Kamino does not support the kind"
		v := viewOf(t, strings.Replace(poolOfIt, "kind: AzureMachinePool", "kind: "+kind, 1), factoryOfIt)
		found := v.refusals()
		if len(found) != 1 || found[0].Reason != cloud.PoolUnsupported || !strings.Contains(found[0].Message, says) {
			t.Errorf("%s: %+v", kind, found)
		}
	}
	r := &clusterAccess{cluster: types.NamespacedName{Namespace: "fleet", Name: "prod"}}
	families := map[cloud.ImageFamily]bool{}
	for resource := range kinds {
		families[r.family(placement{place: "p"}, ref{"fleet", resource, "workers"})] = true
	}
	if len(families) != 2 { // a MachineDeployment's own set is no pool
		t.Errorf("lines of one name: %v", families)
	}
}

type models struct {
	Images
	most int
}

func (m models) MaxModels() int { return m.most }

// TestMaxModels: the limit of images per pool comes from the scale set, if the pool has a scale set. Machines of
// other pools are separate.
func TestMaxModels(t *testing.T) {
	for id, want := range map[cloud.PoolID]int{
		"cluster.x-k8s.io/clusters/machinepools/md":       10,
		"cluster.x-k8s.io/clusters/machinedeployments/md": 0,
		"cluster.x-k8s.io/clusters/machinesets/md":        0,
		"md": 0,
	} {
		if got := (&PoolProvider{clusterAccess: &clusterAccess{images: models{most: 10}}}).MaxImages(id); got != want {
			t.Errorf("%s: %d, want %d", id, got, want)
		}
	}
}

// TestRefusalOfAMachine: the infrastructure object has the cloud's message; its summary has a count.
func TestRefusalOfAMachine(t *testing.T) {
	const says = "root volume size (30) must be greater than or equal to snapshot size (40)"
	for name, c := range map[string]struct{ conditions, want string }{
		"none":    {`[]`, ""},
		"refused": {`[{type: Ready, status: "False", reason: InstanceProvisionFailed, message: 0 of 2 completed}, {type: InstanceReady, status: "False", reason: InstanceProvisionFailed, message: "` + says + `"}]`, says},
		"summary": {`[{type: Ready, status: "False", reason: InstanceProvisionFailed, message: 0 of 2 completed}]`, ""},
		"waits":   {`[{type: InstanceReady, status: "False", reason: WaitingForBootstrapData, message: waits}]`, ""},
		"ready":   {`[{type: InstanceReady, status: "True", reason: Failed, message: earlier}]`, ""},
	} {
		if got := parseObject(t, `{kind: AWSMachine, status: {conditions: `+c.conditions+`}}`).refusal(); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
