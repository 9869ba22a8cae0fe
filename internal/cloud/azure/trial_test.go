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
func trialOf(inPool bool) cloud.TrialSpec {
	return cloud.TrialSpec{
		ImageRef: cloud.ImageRef{Pool: testPool, Version: testVersion}, Name: theTrial, InPool: inPool, RemoveBootstrap: !inPool,
		Image: "Canonical:ubuntu-24_04-lts:server:latest", Capacity: 3, Tags: map[string]string{cloud.TagPrototype: "it", cloud.TagUID: "uid"},
	}
}

func attempt(t *testing.T, spec cloud.TrialSpec) trialRef {
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
	try := attempt(t, trialOf(false))
	data, err := json.Marshal(copied(try, modelOf(t, a.documents[fold(string(testPool))]), egress{"/lb/aksoutboundbackendpool": true}))
	if err != nil {
		t.Fatal(err)
	}
	want := object(t, `{
		"location": "westus2", "zones": ["1", "2"], "plan": {"name": "p", "publisher": "q", "product": "r"},
		"sku": {"name": "Standard_D2s_v5", "tier": "Standard", "capacity": 1},
		"identity": {"type": "UserAssigned", "userAssignedIdentities": {"/ids/one": {}}},
		"tags": {"cluster": "one", "kamino-prototype": "it", "kamino-uid": "uid", "kamino-trying": "uid-1"},
		"properties": {
			"orchestrationMode": "Uniform", "overprovision": false, "upgradePolicy": {"mode": "Manual"},
			"singlePlacementGroup": false, "platformFaultDomainCount": 5, "zoneBalance": true,
			"virtualMachineProfile": {
				"priority": "Spot", "evictionPolicy": "Delete", "securityProfile": {"encryptionAtHost": true},
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
	if name := try.ownScaleSet().name; !trialName.MatchString(name) || len(name) > 64 || len("kt"+try.digest()+"-") > 15 {
		t.Errorf("it is called %s", name)
	}
	other := trialOf(false)
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

// TestTrialOf finds a trial in the pool by its tags, and a separate trial by its name. All other scale sets have no
// trial.
func TestTrialOf(t *testing.T) {
	inside, beside := attempt(t, trialOf(true)), attempt(t, trialOf(false))
	inside.spec.Tags = map[string]string{cloud.TagPrototype: "p", cloud.TagUID: "u"}
	pool, other := inside.scaleSet, inside.scaleSet
	other.name += "2"
	set := func(name string, tags map[string]*string, image string) armcompute.VirtualMachineScaleSet {
		return armcompute.VirtualMachineScaleSet{Name: to.Ptr(name), Tags: tags, Properties: &armcompute.VirtualMachineScaleSetProperties{
			VirtualMachineProfile: &armcompute.VirtualMachineScaleSetVMProfile{StorageProfile: &armcompute.VirtualMachineScaleSetStorageProfile{ImageReference: &armcompute.ImageReference{ID: to.Ptr(image)}}},
		}}
	}
	tags := tagsOfOpenTrial(armcompute.VirtualMachineScaleSet{Tags: map[string]*string{"team": to.Ptr("a")}}, inside.spec)
	closed := tagsWithMark(armcompute.VirtualMachineScaleSet{Tags: tags}, inside.spec.Name+closedMark)
	apart := map[string]*string{trialMarkTag: to.Ptr(beside.spec.Name), cloud.TagUID: to.Ptr("u")}
	stranger := inside.spec
	stranger.Image = strings.Repeat("i", 2*longestTag+1)
	for name, test := range map[string]struct {
		set    armcompute.VirtualMachineScaleSet
		pools  []scaleSet
		inPool bool
		found  bool
	}{
		"open in the pool":                {set(pool.name, tags, inside.id()), []scaleSet{pool}, true, true},
		"closed in the pool":              {set(pool.name, closed, "before"), []scaleSet{other, pool}, true, true},
		"ended in the pool":               {set(pool.name, tagsWithoutTrial(armcompute.VirtualMachineScaleSet{Tags: closed}), "before"), []scaleSet{pool}, true, false},
		"in another pool":                 {set(pool.name, tags, inside.id()), []scaleSet{other}, true, false},
		"of an older Kamino":              {set(pool.name, map[string]*string{trialMarkTag: to.Ptr("n")}, inside.id()), []scaleSet{pool}, true, false},
		"an image that no tag takes":      {set(pool.name, tagsOfOpenTrial(armcompute.VirtualMachineScaleSet{}, stranger), inside.id()), []scaleSet{pool}, true, false},
		"apart":                           {set(beside.ownScaleSet().name, apart, beside.id()), []scaleSet{other, pool}, false, true},
		"apart from another pool":         {set(beside.ownScaleSet().name, apart, beside.id()), []scaleSet{other}, false, false},
		"by another name":                 {set("kamino-trial-0000000000", apart, beside.id()), []scaleSet{pool}, false, false},
		"without a mark":                  {set(beside.ownScaleSet().name, nil, beside.id()), []scaleSet{pool}, false, false},
		"an empty mark, and nothing else": {set(pool.name, map[string]*string{trialMarkTag: to.Ptr("")}, ""), []scaleSet{pool}, true, false},
	} {
		spec, found := trialIn(test.set, pool, test.pools)
		if found != test.found {
			t.Errorf("%s: found %t: %+v", name, found, spec)
		}
		want := beside.spec
		if test.inPool {
			want = inside.spec
		}
		if found && (spec.Name != want.Name || spec.InPool != test.inPool || spec.Version != want.Version || spec.Tags[cloud.TagUID] != "u" || test.inPool && spec.Image != want.Image) {
			t.Errorf("%s: it is %+v, want %+v", name, spec, want)
		}
	}
	if left := tagsOf(tagsWithoutTrial(armcompute.VirtualMachineScaleSet{Tags: closed})); len(left) != 1 || left["team"] != "a" {
		t.Errorf("ended, the pool has the tags %v", left)
	}
}

func TestImageNamed(t *testing.T) {
	s, err := parsePool(testPool)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"Canonical:ubuntu-24_04-lts:server:latest", s.versionID("2026.01.01"), s.definitionID(), testScope + "/providers/Microsoft.Compute/images/own",
		"/SharedGalleries/g/Images/i/Versions/1.0.0", "/CommunityGalleries/g/Images/i/Versions/1.0.0",
	} {
		if got := s.imageName(imageNamed(text)); got != text {
			t.Errorf("%s reads as %s", text, got)
		}
	}
}

// TestTrialInPool: writes are serial, carry the ETag of the read model, and never overwrite a foreign change.
func TestTrialInPool(t *testing.T) {
	const pool = "PATCH virtualMachineScaleSets/pool1"
	instances := fold(string(testPool) + "/virtualMachines")
	ours := `"storageProfile": {"imageReference": {"id": "` + testDefinition + `/versions/` + testVersion + `", "publisher": null, "offer": null, "sku": null, "version": null}}`
	open := `{"tags": {"kamino-trying": "` + theTrial + `"}, "sku": {"capacity": 4}, "properties": {"virtualMachineProfile": {` + ours + `}}}`
	closed := `{"tags": {"kamino-trying": "` + theTrial + ` closed"}, "sku": {"capacity": 4}}`
	begin := func(p cloud.Provider) error { _, err := p.EnsureTrial(t.Context(), trialOf(true)); return err }
	end := func(p cloud.Provider) error { _, err := p.EndTrial(t.Context(), trialOf(true)); return err }
	shut := func(p cloud.Provider) error { return p.CloseTrial(t.Context(), trialOf(true)) }
	for _, test := range []struct {
		name, pool string
		do         func(cloud.Provider) error
		sent       string
		kind       cloud.Kind
	}{
		{name: "begun", pool: `{"properties": {"virtualMachineProfile": {"extensionProfile": null}}}`, do: begin, sent: pool},
		{name: "a concurrent write", do: begin, kind: cloud.Conflict, sent: pool},
		{name: "another image", pool: `{"properties": {"virtualMachineProfile": {"storageProfile": {"imageReference": {"version": "1"}}}}}`, do: begin, kind: cloud.Conflict},
		{name: "another size", pool: `{"sku": {"capacity": 4}}`, do: begin, kind: cloud.Conflict},
		{name: "another trial", pool: `{"tags": {"kamino-trying": "uid-2"}}`, do: begin, kind: cloud.Conflict},
		{name: "Automatic", pool: `{"properties": {"upgradePolicy": {"mode": "Automatic"}}}`, do: begin, kind: cloud.Refused},
		{name: "begun before", pool: open, do: begin},
		{name: "begun and closed before", pool: closed, do: begin},
		{name: "closed", pool: open, do: shut, sent: pool},
		{name: "closed before", pool: closed, do: shut},
		{name: "closed for another", pool: `{"tags": {"kamino-trying": "uid-2"}}`, do: shut},
		{name: "never begun", do: shut},
		{name: "ended while open", pool: open, do: end, sent: pool},
		{name: "ended with nothing left", pool: closed, do: end, sent: pool},
		{name: "ended before", pool: `{"tags": {"kamino-trying": ""}}`, do: end},
		{name: "ended for another", pool: `{"tags": {"kamino-trying": "uid-2 closed"}}`, do: end},
		{name: "never ended", do: end},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newARM(t)
			a.pool(test.pool)
			a.lists[instances] = []any{}
			a.has(testDefinition+"/versions/"+testVersion, `{"location": "westus2", "properties": {"provisioningState": "Succeeded"}}`)
			if test.name == "a concurrent write" {
				a.next("PATCH", string(testPool), armError(412, "PreconditionFailed", "no"))
			}
			err := test.do(a.provider())
			if cloud.KindOf(err) != test.kind {
				t.Fatalf("got %v, want an error of kind %q", err, test.kind)
			}
			if sent := strings.Join(a.made(), ", "); sent != test.sent {
				t.Fatalf("sent %q, want %q", sent, test.sent)
			}
			if test.sent == "" {
				return
			}
			last := a.last("PATCH", "pool1")
			if last.IfMatch != `"1"` {
				t.Errorf("the write holds for %q", last.IfMatch)
			}
			if last.Body["tags"].(map[string]any)["cluster"] != "one" {
				t.Errorf("tags of others are lost: %v", last.Body["tags"])
			}
			sku, _ := last.Body["sku"].(map[string]any)
			begins := !strings.Contains(test.pool, trialMarkTag)
			if size := sku["capacity"]; begins != (size == 4.0) {
				t.Errorf("the write sets the size %v", size)
			}
		})
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
			a.lists[fold(path)] = []any{object(a.t, `{"id": "`+on+`/providers/Microsoft.Authorization/locks/keep", "name": "keep", "properties": {"level": "CanNotDelete"}}`)}
		}
	}
	without := func(actions ...string) func(*fakeARM) {
		return func(a *fakeARM) {
			for _, path := range []string{permissionsPath, "/subscriptions/" + testSubscription + "/resourceGroups/net/providers/Microsoft.Authorization/permissions"} {
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
		name, pool    string
		keeps         bool // the bootstrap stays, as with profile bootstrap
		world         func(*fakeARM)
		apart, inPool []string
		says          []string
	}{
		{name: "nodes that join once and for all", inPool: []string{cloud.PromotionRemoves}, says: []string{"customData, extension vmssCSE"}},
		{name: "nodes that join by themselves", keeps: true, pool: static, apart: []string{cloud.PoolNotCopyable}, says: []string{"customData, which Azure never returns"}},
		{name: "with a script", keeps: true, apart: []string{cloud.PoolNotCopyable, cloud.PoolNotCopyable}},
		{name: "promoted before", keeps: true, pool: `{"tags": {"kamino-bootstrap-removed": "1"}, "properties": {"virtualMachineProfile": {"extensionProfile": null, "storageProfile": {"imageReference": {"id": "` + testDefinition + `/versions/1.0.0", "publisher": null, "offer": null, "sku": null, "version": null}}}}}`},
		{name: "an identity of its own", keeps: true, pool: `{"identity": {"type": "SystemAssigned, UserAssigned"}}`, apart: []string{cloud.PoolNotCopyable, cloud.PoolNotCopyable, cloud.PoolNotCopyable}},
		{name: "a password", pool: `{"properties": {"virtualMachineProfile": {"osProfile": {"linuxConfiguration": {"disablePasswordAuthentication": false}}}}}`, apart: []string{cloud.PoolNotCopyable}, inPool: []string{cloud.PromotionRemoves}},
		{name: "Automatic", keeps: true, pool: `{"properties": {"upgradePolicy": {"mode": "Automatic"}}}`, apart: []string{cloud.PoolNotCopyable, cloud.PoolNotCopyable}, inPool: []string{"UpgradePolicyAutomatic"}},
		{name: "the autoscaler's maximum", keeps: true, pool: `{"tags": {"max": "3"}}`, apart: []string{cloud.PoolNotCopyable, cloud.PoolNotCopyable}, inPool: []string{cloud.PoolAtMaximum}},
		{name: "Azure's maximum", keeps: true, pool: `{"sku": {"capacity": 1000}}`, apart: []string{cloud.PoolNotCopyable, cloud.PoolNotCopyable}, inPool: []string{cloud.PoolAtMaximum}},
		{name: "a lock on the group", world: lock(apartScope, testScope), apart: []string{"InstanceLocked"}, inPool: []string{cloud.PromotionRemoves}, says: []string{"lock keep (CanNotDelete) on " + testScope}},
		{name: "a lock on the pool", keeps: true, world: lock(poolLocks, string(testPool)), apart: []string{cloud.PoolNotCopyable, cloud.PoolNotCopyable}, inPool: []string{"InstanceLocked"}},
		{name: "no right to delete scale sets", world: without("*/virtualMachineScaleSets/delete"), apart: []string{cloud.PermissionMissing}, inPool: []string{cloud.PromotionRemoves}, says: []string{"Microsoft.Compute/virtualMachineScaleSets/delete on " + testScope}},
		{name: "no right to delete instances", keeps: true, world: without("*/virtualMachines/delete"), apart: []string{cloud.PoolNotCopyable, cloud.PoolNotCopyable}, inPool: []string{cloud.PermissionMissing}},
		{name: "no right to join", pool: network, world: without("*/join/action", "*/joinIpConfiguration/action", "*/assign/action"), apart: []string{cloud.PermissionMissing}, inPool: []string{cloud.PromotionRemoves}, says: append(JoinActions(), "resourceGroups/net")},
		{name: "cores", world: usage("cores"), apart: []string{"QuotaUsedUp"}, inPool: []string{cloud.PromotionRemoves, "QuotaUsedUp"}},
		{name: "scale sets", world: usage("virtualMachineScaleSets"), apart: []string{"QuotaUsedUp"}, inPool: []string{cloud.PromotionRemoves}},
	} {
		t.Run(test.name, func(t *testing.T) {
			messages := ""
			for _, way := range []struct {
				inPool bool
				want   []string
			}{{false, test.apart}, {true, test.inPool}} {
				a := ready(t, test.pool, "")
				a.lists[fold(apartScope)], a.lists[fold(poolLocks)] = []any{}, []any{}
				a.has(networks+"/loadBalancers/lb", `{"properties": {"outboundRules": [{"properties": {"backendAddressPool": {"id": "`+balancer+`/outbound"}}}]}}`)
				if test.world != nil {
					test.world(a)
				}
				spec := trialOf(way.inPool)
				spec.RemoveBootstrap = !test.keeps
				found, err := a.provider().PreflightTrial(t.Context(), spec)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(append([]string{}, way.want...), append([]string{}, reasons(found)...)); diff != "" {
					t.Errorf("in the pool %t (-want +got):\n%s", way.inPool, diff)
				}
				for _, refusal := range found {
					messages += refusal.Message + "\n"
				}
				if made := a.made(); len(made) != 0 {
					t.Errorf("a look sent %v", made)
				}
			}
			for _, text := range test.says {
				if !strings.Contains(messages, text) {
					t.Errorf("it does not say %q:\n%s", text, messages)
				}
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
	try := attempt(t, trialOf(false))
	a := newARM(t)
	a.pool("")
	a.has(testDefinition+"/versions/"+testVersion, `{"location": "westus2", "properties": {"provisioningState": "Succeeded"}}`)
	a.has(try.ownScaleSet().id(), `{"location": "westus2", "properties": {"provisioningState": "Succeeded"}}`)
	power := a.provider()
	_, err := power.EnsureTrial(t.Context(), trialOf(false))
	wantKind(t, err, cloud.Conflict)
	_, err = power.EndTrial(t.Context(), trialOf(false))
	wantKind(t, err, cloud.Conflict)
	if have, err := power.Trial(t.Context(), trialOf(false)); err != nil || have.State != cloud.Absent {
		t.Errorf("it is %+v, %v", have, err)
	}
	if made := a.made(); len(made) != 0 {
		t.Errorf("sent %v", made)
	}
}
