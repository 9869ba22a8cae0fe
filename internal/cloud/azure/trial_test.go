package azure

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	theTrial   = "uid-1"
	apartScope = testScope + "/providers/Microsoft.Authorization/locks"
	poolLocks  = string(testPool) + "/providers/Microsoft.Authorization/locks"
	networks   = "/subscriptions/" + testSubscription + "/resourceGroups/net/providers/Microsoft.Network"
	balancer   = networks + "/loadBalancers/lb/backendAddressPools"
)

// trialOf returns the spec of a trial of the pool of fakeARM.pool.
func trialOf() cloud.TrialSpec {
	return cloud.TrialSpec{
		ImageRef: cloud.ImageRef{Pool: testPool, Version: testVersion}, Name: theTrial, RemoveBootstrap: true,
		Tags: map[string]string{cloud.TagPrototype: "it", cloud.TagUID: "uid"},
	}
}

func attempt(t *testing.T, spec cloud.TrialSpec) apartRef {
	t.Helper()
	try, err := newTrialRef(spec)
	if err != nil {
		t.Fatal(err)
	}
	return try
}

// modelOf reads a scale set as the SDK does.
func modelOf(t *testing.T, document any) armcompute.VirtualMachineScaleSet {
	t.Helper()
	data, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	var model armcompute.VirtualMachineScaleSet
	if err := json.Unmarshal(data, &model); err != nil {
		t.Fatal(err)
	}
	return model
}

// TestTrialCopiesScaleSet: the scale set of a trial has all settings that build a node. Settings that let clients
// reach an instance are missing.
func TestTrialCopiesScaleSet(t *testing.T) {
	a := newARM(t)
	a.pool(`{
		"zones": ["1", "2"], "plan": {"name": "p", "publisher": "q", "product": "r"}, "sku": {"capacity": 40},
		"identity": {"type": "UserAssigned", "userAssignedIdentities": {"/ids/one": {"principalId": "x", "clientId": "y"}}},
		"tags": {"cluster": "one", "min": "1", "max": "9", "cluster-autoscaler-enabled": "true", "k8s.io_cluster-autoscaler_node-template_label_a": "b", "kamino-bootstrap-removed": "1"},
		"properties": {
			"uniqueId": "u", "timeCreated": "2026-01-01T00:00:00Z", "overprovision": true, "singlePlacementGroup": false, "platformFaultDomainCount": 5, "zoneBalance": true,
			"upgradePolicy": {"mode": "Manual", "rollingUpgradePolicy": {"maxBatchInstancePercent": 20}, "automaticOSUpgradePolicy": {"enableAutomaticOSUpgrade": true}},
			"automaticRepairsPolicy": {"enabled": true}, "scaleInPolicy": {"rules": ["OldestVM"]},
			"virtualMachineProfile": {
				"priority": "Spot", "evictionPolicy": "Delete", "securityProfile": {"encryptionAtHost": true},
				"osProfile": {"adminUsername": "ops", "allowExtensionOperations": true},
				"storageProfile": {"osDisk": {"caching": "ReadWrite", "diskSizeGB": 128, "managedDisk": {"diskEncryptionSet": {"id": "/set"}}}, "dataDisks": [{"lun": 0, "createOption": "Empty", "diskSizeGB": 10}]},
				"networkProfile": {"healthProbe": {"id": "/probe"}, "networkInterfaceConfigurations": [{"name": "nic", "properties": {
					"primary": true, "enableAcceleratedNetworking": true, "networkSecurityGroup": {"id": "/nsg"},
					"ipConfigurations": [{"name": "ip", "properties": {"primary": true, "subnet": {"id": "/subnet"},
						"publicIPAddressConfiguration": {"name": "pub", "properties": {"dnsSettings": {"domainNameLabel": "pool"}, "idleTimeoutInMinutes": 4}},
						"applicationGatewayBackendAddressPools": [{"id": "/gateway"}], "loadBalancerInboundNatPools": [{"id": "/nat"}],
						"loadBalancerBackendAddressPools": [{"id": "/lb/kubernetes"}, {"id": "/lb/aksOutboundBackendPool"}]}}]}}]}
			}
		}
	}`)
	try := attempt(t, trialOf())
	data, err := json.Marshal(copied(try, modelOf(t, a.documents[fold(string(testPool))]), egress{"/lb/aksoutboundbackendpool": true}))
	if err != nil {
		t.Fatal(err)
	}
	want := object(t, `{
		"location": "westus2", "zones": ["1", "2"], "plan": {"name": "p", "publisher": "q", "product": "r"},
		"sku": {"name": "Standard_D2s_v5", "tier": "Standard", "capacity": 1},
		"identity": {"type": "UserAssigned", "userAssignedIdentities": {"/ids/one": {}}},
		"tags": {"cluster": "one", "kamino-pool": "pool1", "kamino-prototype": "it", "kamino-uid": "uid", "kamino-trying": "uid-1"},
		"properties": {
			"orchestrationMode": "Uniform", "overprovision": false, "upgradePolicy": {"mode": "Manual"},
			"singlePlacementGroup": false, "platformFaultDomainCount": 5, "zoneBalance": true,
			"virtualMachineProfile": {
				"priority": "Spot", "evictionPolicy": "Delete", "securityProfile": {"encryptionAtHost": true}, "diagnosticsProfile": {"bootDiagnostics": {"enabled": true}},
				"osProfile": {"adminUsername": "ops", "allowExtensionOperations": true, "computerNamePrefix": "kt`+try.digest()+`-",
					"customData": "`+base64.StdEncoding.EncodeToString([]byte(emptyCloudConfig))+`", "linuxConfiguration": {"disablePasswordAuthentication": true}},
				"storageProfile": {"imageReference": {"id": "`+testDefinition+`/versions/`+testVersion+`"},
					"osDisk": {"createOption": "FromImage", "osType": "Linux", "caching": "ReadWrite", "diskSizeGB": 128, "managedDisk": {"storageAccountType": "Premium_LRS", "diskEncryptionSet": {"id": "/set"}}},
					"dataDisks": [{"lun": 0, "createOption": "Empty", "diskSizeGB": 10}]},
				"networkProfile": {"networkInterfaceConfigurations": [{"name": "nic", "properties": {
					"primary": true, "enableAcceleratedNetworking": true, "networkSecurityGroup": {"id": "/nsg"},
					"ipConfigurations": [{"name": "ip", "properties": {"primary": true, "subnet": {"id": "/subnet"},
						"publicIPAddressConfiguration": {"name": "pub", "properties": {"idleTimeoutInMinutes": 4}},
						"loadBalancerBackendAddressPools": [{"id": "/lb/aksOutboundBackendPool"}]}}]}}]}
			}
		}
	}`)
	if diff := cmp.Diff(want, object(t, string(data))); diff != "" {
		t.Errorf("the copy (-want +got):\n%s", diff)
	}
	if name := try.ownScaleSet().name; !ofTrial.is(try.ownScaleSet()) || ofWorkshop.is(try.ownScaleSet()) || len(name) > 64 || len("kt"+try.digest()+"-") > 15 {
		t.Errorf("it is called %s", name)
	}
	other := trialOf()
	other.Name = "uid-2"
	if attempt(t, other).ownScaleSet().name == try.ownScaleSet().name {
		t.Error("two trials have one scale set")
	}
}

// TestTrialErrorCause separates errors of quota and capacity, errors of the image, and all other errors.
func TestTrialErrorCause(t *testing.T) {
	const neither, room, image = "neither", "room", "the image"
	for trouble, want := range map[string]string{
		"AllocationFailed: We do not have sufficient capacity":                                        room,
		"ZonalAllocationFailed: Allocation failed":                                                    room,
		"OverconstrainedAllocationRequest: The VM(s) ...":                                             room,
		"OverconstrainedZonalAllocationRequest: ...":                                                  room,
		"SkuNotAvailable: The requested size is currently not available":                              room,
		"OperationNotAllowed: Operation results in exceeding approved standardDSv5Family Cores quota": room,
		"QuotaExceeded: ...": room,
		"AllocationFailed":   room,
		"OperationNotAllowed: The scale set is being deleted":  neither,
		"OSProvisioningTimedOut: OS Provisioning did not end":  image,
		"osprovisioningtimedout":                               image,
		"OSProvisioningClientError: the image ...":             image,
		"VMExtensionProvisioningError: ...":                    image,
		"VMExtensionProvisioningTimeout: ...":                  image,
		"VMExtensionHandlerNonTransientError: ...":             image,
		"VMExtensionManagementInternalError: ...":              neither,
		"OSProvisioningInternalError: OS Provisioning failed":  neither,
		"VMStartTimedOut: VM did not start":                    neither,
		"VMAgentStatusCommunicationError: ...":                 neither,
		"InternalExecutionError: An internal execution error":  neither,
		"NetworkingInternalOperationError: ...":                neither,
		"VMMarketplaceInvalidInput: ...":                       neither,
		"KeyVaultAccessForbidden: ...":                         neither,
		"Canceled: see OSProvisioningTimedOut: of another one": neither,
		"a text: without a code":                               neither,
		noReason:                                               neither,
		"":                                                     neither,
	} {
		got := neither
		switch {
		case isCapacityError(trouble) && isImageError(trouble):
			got = "both"
		case isCapacityError(trouble):
			got = room
		case isImageError(trouble):
			got = image
		}
		if got != want {
			t.Errorf("%q blames %s, want %s", trouble, got, want)
		}
	}
}

// TestTrialOf finds a trial by the name of its scale set. All other scale sets have no trial.
func TestTrialOf(t *testing.T) {
	try := attempt(t, trialOf())
	pool, other := try.scaleSet, try.scaleSet
	other.name += "2"
	tags := map[string]*string{trialMarkTag: to.Ptr(try.spec.Name), cloud.TagUID: to.Ptr("u")}
	for name, test := range map[string]struct {
		set   string
		tags  map[string]*string
		pools []scaleSet
		found bool
	}{
		"of the pool":    {try.ownScaleSet().name, tags, []scaleSet{other, pool}, true},
		"of another":     {try.ownScaleSet().name, tags, []scaleSet{other}, false},
		"another name":   {"kamino-trial-0000000000", tags, []scaleSet{pool}, false},
		"without a mark": {try.ownScaleSet().name, nil, []scaleSet{pool}, false},
		"a pool":         {pool.name, tags, []scaleSet{pool}, false},
	} {
		model := armcompute.VirtualMachineScaleSet{Name: to.Ptr(test.set), Tags: test.tags, Properties: &armcompute.VirtualMachineScaleSetProperties{
			VirtualMachineProfile: &armcompute.VirtualMachineScaleSetVMProfile{StorageProfile: &armcompute.VirtualMachineScaleSetStorageProfile{ImageReference: &armcompute.ImageReference{ID: to.Ptr(try.id())}}},
		}}
		have, found := apartIn(ofTrial, model, pool, test.pools)
		spec := have.spec
		if found != test.found || found && (spec.Name != try.spec.Name || spec.Version != try.spec.Version || spec.Tags[cloud.TagUID] != "u") {
			t.Errorf("%s: found %t: %+v", name, found, spec)
		}
	}
}

// TestPreflightTrial: preflight finds all obstacles that would fail a trial for another reason than its version.
func TestPreflightTrial(t *testing.T) {
	network := `{"properties": {"virtualMachineProfile": {"networkProfile": {"networkInterfaceConfigurations": [{"name": "nic", "properties": {
		"networkSecurityGroup": {"id": "` + networks + `/networkSecurityGroups/nsg"},
		"ipConfigurations": [{"name": "ip", "properties": {"subnet": {"id": "` + networks + `/virtualNetworks/v/subnets/s"},
			"applicationSecurityGroups": [{"id": "` + networks + `/applicationSecurityGroups/asg"}],
			"loadBalancerBackendAddressPools": [{"id": "` + balancer + `/in"}, {"id": "` + balancer + `/outbound"}]}}]}}]}}},
		"identity": {"type": "UserAssigned", "userAssignedIdentities": {"/subscriptions/` + testSubscription + `/resourceGroups/net/providers/Microsoft.ManagedIdentity/userAssignedIdentities/one": {}}}}`
	lock := func(path, on string) func(*fakeARM) {
		return func(a *fakeARM) {
			a.lists[fold(path)] = []any{object(a.t,
				`{"id": "`+on+`/providers/Microsoft.Authorization/locks/keep", "name": "keep", "properties": {"level": "CanNotDelete"}}`)}
		}
	}
	without := func(actions ...string) func(*fakeARM) {
		return func(a *fakeARM) {
			for _, path := range []string{
				permissionsPath, "/subscriptions/" + testSubscription + "/resourceGroups/net/providers/Microsoft.Authorization/permissions",
			} {
				a.lists[fold(path)] = []any{map[string]any{"actions": []any{"*"}, "notActions": anys(actions)}}
			}
		}
	}
	usage := func(name string) func(*fakeARM) {
		return func(a *fakeARM) {
			a.lists[fold(usagesPath)] = []any{object(a.t, `{"name": {"value": "`+name+`"}, "currentValue": 10, "limit": 10, "unit": "Count"}`)}
		}
	}
	static := `{"properties": {"virtualMachineProfile": {"extensionProfile": null}}}`
	for _, test := range []struct {
		name, pool string
		keeps      bool // the bootstrap stays, as with profile bootstrap
		world      func(*fakeARM)
		want, says []string
	}{
		{name: "nodes that join once and for all"},
		{name: "nodes that join without a command", keeps: true, pool: static, want: []string{cloud.PoolNotCopyable},
			says: []string{"customData, which Azure never returns"}},
		{name: "with a script", keeps: true, want: []string{cloud.PoolNotCopyable, cloud.PoolNotCopyable}},
		{name: "promoted before", keeps: true, pool: `{"tags": {"kamino-bootstrap-removed": "1"}, "properties": {"virtualMachineProfile": {"extensionProfile": null, "storageProfile": {"imageReference": {"id": "` + testDefinition + `/versions/1.0.0", "publisher": null, "offer": null, "sku": null, "version": null}}}}}`},
		{name: "an identity of its own", keeps: true, pool: `{"identity": {"type": "SystemAssigned, UserAssigned"}}`,
			want: []string{cloud.PoolNotCopyable, cloud.PoolNotCopyable, cloud.PoolNotCopyable}},
		{name: "a password",
			pool: `{"properties": {"virtualMachineProfile": {"osProfile": {"linuxConfiguration": {"disablePasswordAuthentication": false}}}}}`,
			want: []string{cloud.PoolNotCopyable}, says: []string{"login with a password"}},
		{name: "a lock on the group", world: lock(apartScope, testScope), want: []string{cloud.DonorProtected},
			says: []string{"lock keep (CanNotDelete) on " + testScope}},
		{name: "no right to delete scale sets", world: without("*/virtualMachineScaleSets/delete"), want: []string{cloud.PermissionMissing},
			says: []string{"Microsoft.Compute/virtualMachineScaleSets/delete on " + testScope}},
		{name: "no right to join", pool: network, world: without("*/join/action", "*/joinIpConfiguration/action", "*/assign/action"),
			want: []string{cloud.PermissionMissing}, says: []string{joinSubnet, joinSecurity, joinBalancer, joinGroup, assignIdentity, "resourceGroups/net"}},
		{name: "cores", world: usage("cores"), want: []string{string(cloud.QuotaExceeded)}},
		{name: "scale sets", world: usage("virtualMachineScaleSets"), want: []string{string(cloud.QuotaExceeded)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := ready(t, test.pool, "")
			a.lists[fold(apartScope)] = []any{}
			a.has(networks+"/loadBalancers/lb", `{"properties": {"outboundRules": [{"properties": {"backendAddressPool": {"id": "`+balancer+`/outbound"}}}]}}`)
			if test.world != nil {
				test.world(a)
			}
			spec := trialOf()
			spec.RemoveBootstrap = !test.keeps
			found, err := a.provider().PreflightTrial(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append([]string{}, test.want...), append([]string{}, reasons(found)...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			messages := ""
			for _, refusal := range found {
				messages += refusal.Message + "\n"
			}
			for _, text := range test.says {
				if !strings.Contains(messages, text) {
					t.Errorf("it does not say %q:\n%s", text, messages)
				}
			}
			if made := a.made(); len(made) != 0 {
				t.Errorf("a look sent %v", made)
			}
		})
	}
}

func anys(texts []string) []any {
	out := []any{}
	for _, text := range texts {
		out = append(out, text)
	}
	return out
}

// TestForeignTrialScaleSet: a scale set with the trial's name but without its tags is neither used nor deleted.
func TestForeignTrialScaleSet(t *testing.T) {
	try := attempt(t, trialOf())
	a := newARM(t)
	a.pool("")
	a.has(testDefinition+"/versions/"+testVersion, `{"location": "westus2", "properties": {"provisioningState": "Succeeded"}}`)
	a.has(try.ownScaleSet().id(), `{"location": "westus2", "properties": {"provisioningState": "Succeeded"}}`)
	power := a.provider()
	_, err := power.EnsureTrial(t.Context(), trialOf())
	wantKind(t, err, cloud.Conflict)
	_, err = power.EndTrial(t.Context(), trialOf())
	wantKind(t, err, cloud.Conflict)
	if have, err := power.Trial(t.Context(), trialOf()); err != nil || have.State != cloud.Absent {
		t.Errorf("it is %+v, %v", have, err)
	}
	if made := a.made(); len(made) != 0 {
		t.Errorf("sent %v", made)
	}
}
