package azure

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

func (c *testCloud) scaleSet(t *testing.T) armcompute.VirtualMachineScaleSet {
	t.Helper()
	got, err := c.factory.NewVirtualMachineScaleSetsClient().Get(t.Context(), testGroup, testPool, nil)
	if err != nil {
		t.Fatal(err)
	}
	return got.VirtualMachineScaleSet
}

// patch changes the pool and returns the error of the request or its operation.
func (c *testCloud) patch(t *testing.T, change armcompute.VirtualMachineScaleSetUpdate) error {
	t.Helper()
	poller, err := c.factory.NewVirtualMachineScaleSetsClient().BeginUpdate(t.Context(), testGroup, testPool, change, nil)
	_, err = finish(t.Context(), poller, err)
	return err
}

func capacityOf(n int64) armcompute.VirtualMachineScaleSetUpdate {
	return armcompute.VirtualMachineScaleSetUpdate{SKU: &armcompute.SKU{Capacity: to.Ptr(n)}}
}

// imageOf returns the merge patch that sets a pool's image, as a careful client sends the patch.
func imageOf(id string) armcompute.VirtualMachineScaleSetUpdate {
	return armcompute.VirtualMachineScaleSetUpdate{Properties: &armcompute.VirtualMachineScaleSetUpdateProperties{
		VirtualMachineProfile: &armcompute.VirtualMachineScaleSetUpdateVMProfile{StorageProfile: &armcompute.VirtualMachineScaleSetUpdateStorageProfile{
			ImageReference: &armcompute.ImageReference{ID: to.Ptr(id), Publisher: azcore.NullValue[*string](), Offer: azcore.NullValue[*string](),
				SKU: azcore.NullValue[*string](), Version: azcore.NullValue[*string]()}}}}}
}

func TestCreatePoolLaunchesMachines(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 2, func(p *PoolSpec) { p.CustomData, p.Command, p.MaxNodes = []byte("#cloud-config"), "join", 9 })
	c.pool(t, 5, nil) // a second time changes nothing
	if got := c.fleet.Size(); got != 2 {
		t.Fatalf("the fleet has %d machines, want 2", got)
	}
	id := "/subscriptions/" + testSubscription + "/resourceGroups/" + testGroup + "/providers/Microsoft.Compute/virtualMachineScaleSets/" +
		testPool + "/virtualMachines/1"
	spec := c.fleet.Machine(id).Spec
	want := fleet.Spec{ID: id, Pool: testPool, ComputerName: testPool + "000001", ProviderID: "azure://" + id, VMID: spec.VMID, Disk: spec.Disk,
		CustomData: []byte("#cloud-config"), Image: "Canonical:0001-com-ubuntu-server-jammy:22_04-lts-gen2:22.04.202611010",
		Type: "Standard_D2s_v5", Waited: 40 * time.Second,
		Extensions: []fleet.Extension{
			{Name: "vmssCSE", Publisher: "Microsoft.Azure.Extensions", Type: "CustomScript", Settings: object{},
				ProtectedSettings: object{"commandToExecute": "join"}},
			{Name: testPool + "-AKSLinuxBilling", Publisher: "Microsoft.AKS", Type: "Compute.AKS-Engine.Linux.Billing", Settings: object{},
				ProtectedSettings: object{}},
		}}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if c.fleet.File(spec.Disk, "origin") == "" {
		t.Error("the disk was not made from the platform image")
	}
	set := c.scaleSet(t)
	if got := set.Properties.VirtualMachineProfile.OSProfile.CustomData; got != nil {
		t.Errorf("customData is shown: %q", *got)
	}
	if got := set.Properties.VirtualMachineProfile.ExtensionProfile.Extensions[0].Properties.ProtectedSettings; got != nil {
		t.Errorf("protected settings are shown: %v", got)
	}
	if got := *set.Tags["max"]; got != "9" {
		t.Errorf("tag max is %q, want 9", got)
	}
	for _, i := range c.instances(t) {
		if i.Properties.OSProfile.CustomData != nil || !strings.Contains(*i.Properties.StorageProfile.OSDisk.ManagedDisk.ID, "/resourceGroups/RG1/") {
			t.Errorf("instance %s shows customData, or its disk's group in small letters", *i.ID)
		}
	}
}

func TestComputerNameIsBase36(t *testing.T) {
	profile := object{"osProfile": object{"computerNamePrefix": "p"}}
	for number, want := range map[int64]string{0: "p000000", 10: "p00000A", 36: "p000010", 46655: "p000ZZZ"} {
		if got := computerName(profile, number); got != want {
			t.Errorf("computerName(%d) = %s, want %s", number, got, want)
		}
	}
}

func TestNewImageAppliesToNewInstances(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	c.ensureDefinition(t)
	c.fleet.WriteFile(diskOf(*c.instances(t)[0].Properties.StorageProfile.OSDisk.ManagedDisk.ID), "patched", "yes")
	version := c.publish(t, testVersion)

	bare := imageOf(version)
	bare.Properties.VirtualMachineProfile.StorageProfile.ImageReference = &armcompute.ImageReference{ID: to.Ptr(version)}
	wantCode(t, c.patch(t, bare), http.StatusBadRequest, "InvalidParameter") // publisher and the like were left in
	change := imageOf(version)
	profile := change.Properties.VirtualMachineProfile
	profile.OSProfile = &armcompute.VirtualMachineScaleSetUpdateOSProfile{CustomData: to.Ptr(base64.StdEncoding.EncodeToString([]byte("#cloud-config\n{}\n")))}
	billing := c.scaleSet(t).Properties.VirtualMachineProfile.ExtensionProfile.Extensions[1]
	profile.ExtensionProfile = &armcompute.VirtualMachineScaleSetExtensionProfile{Extensions: []*armcompute.VirtualMachineScaleSetExtension{billing}}
	if err := c.patch(t, change); err != nil {
		t.Fatal(err)
	}
	if err := c.patch(t, capacityOf(2)); err != nil {
		t.Fatal(err)
	}
	all := c.instances(t)
	if len(all) != 2 {
		t.Fatalf("there are %d instances, want 2", len(all))
	}
	if *all[0].Properties.LatestModelApplied || !*all[1].Properties.LatestModelApplied {
		t.Error("the old instance must not be on the latest model, the new one must")
	}
	if got := len(c.fleet.Machine(*all[0].ID).Spec.Extensions); c.fleet.Machine(*all[0].ID).Boots != 1 || got != 2 {
		t.Error("the old instance was touched")
	}
	machine := c.fleet.Machine(*all[1].ID)
	if string(machine.Spec.CustomData) != "#cloud-config\n{}\n" || len(machine.Spec.Extensions) != 1 {
		t.Errorf("the new instance has customData %q and %d extensions", machine.Spec.CustomData, len(machine.Spec.Extensions))
	}
	if got := c.fleet.File(machine.Spec.Disk, "patched"); got != "yes" {
		t.Errorf("the new instance's disk holds %q, want the donor's file", got)
	}
	if got := *all[1].Properties.StorageProfile.ImageReference.ExactVersion; got != testVersion {
		t.Errorf("the new instance was built from %s, want %s", got, testVersion)
	}
}

func TestPutKeepsWriteOnlyProperties(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, func(p *PoolSpec) { p.CustomData, p.Command = []byte("boot"), "join" })
	set := c.scaleSet(t)
	set.Properties.VirtualMachineProfile.StorageProfile.ImageReference = nil // like az
	set.SKU.Capacity = to.Ptr[int64](2)
	poller, err := c.factory.NewVirtualMachineScaleSetsClient().BeginCreateOrUpdate(t.Context(), testGroup, testPool, set, nil)
	done(t, poller, err)
	spec := c.fleet.Machine(*c.instances(t)[1].ID).Spec
	if string(spec.CustomData) != "boot" || spec.Extensions[0].ProtectedSettings["commandToExecute"] != "join" {
		t.Errorf("the new instance got customData %q and %v", spec.CustomData, spec.Extensions[0].ProtectedSettings)
	}
	if !*c.instances(t)[0].Properties.LatestModelApplied {
		t.Error("a PUT that changes nothing in the profile made a new model")
	}
}

func TestScaleOutWithDeletedVersion(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	c.ensureDefinition(t)
	if err := c.patch(t, imageOf(c.publish(t, testVersion))); err != nil {
		t.Fatal(err)
	}
	del, err := c.factory.NewGalleryImageVersionsClient().BeginDelete(t.Context(), testGroup, testGallery, testDefinition, testVersion, nil)
	done(t, del, err)
	wantCode(t, c.patch(t, capacityOf(2)), http.StatusNotFound, "GalleryImageNotFound")
	if got := len(c.instances(t)); got != 1 {
		t.Errorf("there are %d instances, want 1", got)
	}
}

func TestLatestSkipsExcludedVersions(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	c.ensureDefinition(t)
	for _, v := range []string{"2026.9.30", "2026.10.2", "2026.11.1"} {
		c.publish(t, v)
	}
	versions := c.factory.NewGalleryImageVersionsClient()
	for _, v := range []string{"2026.9.30", "2026.10.2"} {
		poller, err := versions.BeginUpdate(t.Context(), testGroup, testGallery, testDefinition, v, armcompute.GalleryImageVersionUpdate{
			Properties: &armcompute.GalleryImageVersionProperties{PublishingProfile: &armcompute.GalleryImageVersionPublishingProfile{ExcludeFromLatest: to.Ptr(false)}}}, nil)
		done(t, poller, err)
	}
	definition := "/subscriptions/" + testSubscription + "/resourceGroups/" + testGroup + "/providers/Microsoft.Compute/galleries/" + testGallery +
		"/images/" + testDefinition
	if err := c.patch(t, imageOf(definition)); err != nil {
		t.Fatal(err)
	}
	if err := c.patch(t, capacityOf(2)); err != nil {
		t.Fatal(err)
	}
	if got, want := *c.instances(t)[1].Properties.StorageProfile.ImageReference.ExactVersion, "2026.10.2"; got != want {
		t.Errorf("latest is %s, want %s: numeric order, and the excluded one left out", got, want)
	}
}

func TestScaleInSparesProtected(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 3, nil)
	vms := c.factory.NewVirtualMachineScaleSetVMsClient()
	last := c.instances(t)[2]
	last.Properties.ProtectionPolicy = &armcompute.VirtualMachineScaleSetVMProtectionPolicy{ProtectFromScaleIn: to.Ptr(true)}
	poller, err := vms.BeginUpdate(t.Context(), testGroup, testPool, "2", *last, nil)
	if got := done(t, poller, err); !*got.Properties.ProtectionPolicy.ProtectFromScaleIn {
		t.Fatal("the protection does not show")
	}
	disk := diskOf(*c.instances(t)[1].Properties.StorageProfile.OSDisk.ManagedDisk.ID)
	if err := c.patch(t, capacityOf(2)); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, i := range c.instances(t) {
		left = append(left, *i.InstanceID)
	}
	if diff := cmp.Diff([]string{"0", "2"}, left); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	if c.fleet.HasDisk(disk) || c.fleet.Size() != 2 {
		t.Error("the machine or its disk is still there")
	}
}

func TestDeleteInstanceShrinksThePool(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 2, nil)
	poller, err := c.factory.NewVirtualMachineScaleSetVMsClient().BeginDelete(t.Context(), testGroup, testPool, "0", nil)
	done(t, poller, err)
	if got := *c.scaleSet(t).SKU.Capacity; got != 1 || c.fleet.Size() != 1 {
		t.Errorf("capacity is %d with %d machines, want 1 and 1", got, c.fleet.Size())
	}
	if err := c.patch(t, capacityOf(2)); err != nil {
		t.Fatal(err)
	}
	if got := *c.instances(t)[1].InstanceID; got != "2" {
		t.Errorf("the new instance has ID %s, want 2: IDs are not given twice", got)
	}
}

// An earlier write to the instance can end during the deletion.
func TestDeletedInstanceStaysDeleted(t *testing.T) {
	c := newCloud(t, func(o *Config) { o.Latencies.Instance, o.Latencies.Terminate = time.Second, 10*time.Minute })
	c.pool(t, 1, nil)
	vms := c.factory.NewVirtualMachineScaleSetVMsClient()
	one := *c.instances(t)[0]
	one.Properties.ProtectionPolicy = &armcompute.VirtualMachineScaleSetVMProtectionPolicy{ProtectFromScaleIn: to.Ptr(true)}
	writing, err := vms.BeginUpdate(t.Context(), testGroup, testPool, "0", one, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := vms.BeginDelete(t.Context(), testGroup, testPool, "0", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := writing.PollUntilDone(t.Context(), &runtime.PollUntilDoneOptions{Frequency: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, i := range c.instances(t) {
		states = append(states, *i.Properties.ProvisioningState)
	}
	if diff := cmp.Diff([]string{"Deleting"}, states); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
}

func TestConditionalWrites(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	sets := c.factory.NewVirtualMachineScaleSetsClient()
	etag := c.scaleSet(t).Etag
	poller, err := sets.BeginUpdate(t.Context(), testGroup, testPool, armcompute.VirtualMachineScaleSetUpdate{Tags: map[string]*string{"a": to.Ptr("b")}},
		&armcompute.VirtualMachineScaleSetsClientBeginUpdateOptions{IfMatch: etag})
	done(t, poller, err)
	_, err = sets.BeginUpdate(t.Context(), testGroup, testPool, capacityOf(2), &armcompute.VirtualMachineScaleSetsClientBeginUpdateOptions{IfMatch: etag})
	wantCode(t, err, http.StatusPreconditionFailed, "PreconditionFailed")
	if got := len(c.instances(t)); got != 1 {
		t.Errorf("there are %d instances, want 1", got)
	}
}

func TestUpgradePolicies(t *testing.T) {
	for mode, boots := range map[string]int{"Manual": 1, "Automatic": 2, "Rolling": 2, "automatic OS image upgrades": 2} {
		c := newCloud(t, nil)
		c.pool(t, 3, func(p *PoolSpec) {
			if p.AutoOSUpgrade = boots == 2 && strings.Contains(mode, " "); !p.AutoOSUpgrade {
				p.UpgradePolicy = mode
			}
		})
		c.ensureDefinition(t)
		version := c.publish(t, testVersion)
		if err := c.patch(t, imageOf(version)); err != nil {
			t.Fatal(err)
		}
		for _, i := range c.instances(t) {
			if got := c.fleet.Machine(*i.ID).Boots; got != boots || *i.Properties.LatestModelApplied != (boots == 2) {
				t.Errorf("%s: instance %s booted %d times, want %d", mode, *i.InstanceID, got, boots)
			}
		}
		if rolled := len(c.UpgradedByCloud()); rolled != 3*(boots-1) {
			t.Errorf("%s: %d instances are reported as rolled, want %d", mode, rolled, 3*(boots-1))
		}
	}
}

func TestExtensionsFollowTheModel(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	extensions := c.factory.NewVirtualMachineScaleSetExtensionsClient()
	if _, err := extensions.Get(t.Context(), testGroup, testPool, "VMSScse", nil); err != nil {
		t.Error(err)
	}
	poller, err := extensions.BeginDelete(t.Context(), testGroup, testPool, "vmssCSE", nil)
	done(t, poller, err)
	if got := c.scaleSet(t).Properties.VirtualMachineProfile.ExtensionProfile.Extensions; len(got) != 1 {
		t.Errorf("the model has %d extensions after the deletion, want 1", len(got))
	}
	put, err := extensions.BeginCreateOrUpdate(t.Context(), testGroup, testPool, "agent", armcompute.VirtualMachineScaleSetExtension{
		Properties: &armcompute.VirtualMachineScaleSetExtensionProperties{Publisher: to.Ptr("p"), Type: to.Ptr("t"), TypeHandlerVersion: to.Ptr("1.0")}}, nil)
	done(t, put, err)
	_, err = extensions.Get(t.Context(), testGroup, testPool, "vmssCSE", nil)
	wantCode(t, err, http.StatusNotFound, "ResourceNotFound")
	if got := c.scaleSet(t).Properties.VirtualMachineProfile.ExtensionProfile.Extensions; len(got) != 2 {
		t.Errorf("the model has %d extensions after the addition, want 2", len(got))
	}
}

func TestPoolsRefusedAfterStart(t *testing.T) {
	c := newCloud(t, nil)
	for name, check := range map[string]struct {
		spec func(*PoolSpec)
		says func(armcompute.VirtualMachineScaleSet, *armcompute.VirtualMachineScaleSetVM) bool
	}{
		"ephemeral": {func(p *PoolSpec) { p.Ephemeral = true }, func(s armcompute.VirtualMachineScaleSet, i *armcompute.VirtualMachineScaleSetVM) bool {
			return s.Properties.VirtualMachineProfile.StorageProfile.OSDisk.DiffDiskSettings != nil &&
				i.Properties.StorageProfile.OSDisk.DiffDiskSettings != nil
		}},
		"windows": {func(p *PoolSpec) { p.Windows = true }, func(s armcompute.VirtualMachineScaleSet, _ *armcompute.VirtualMachineScaleSetVM) bool {
			return *s.Properties.VirtualMachineProfile.StorageProfile.OSDisk.OSType == armcompute.OperatingSystemTypesWindows
		}},
		"confidential": {func(p *PoolSpec) { p.SecurityType = "ConfidentialVM" },
			func(s armcompute.VirtualMachineScaleSet, i *armcompute.VirtualMachineScaleSetVM) bool {
				return *i.Properties.SecurityProfile.SecurityType == armcompute.SecurityTypesConfidentialVM
			}},
		"osupgrade": {func(p *PoolSpec) { p.AutoOSUpgrade = true }, func(s armcompute.VirtualMachineScaleSet, _ *armcompute.VirtualMachineScaleSetVM) bool {
			return *s.Properties.UpgradePolicy.AutomaticOSUpgradePolicy.EnableAutomaticOSUpgrade
		}},
		"aks": {func(p *PoolSpec) { p.AKSManaged = true }, func(s armcompute.VirtualMachineScaleSet, _ *armcompute.VirtualMachineScaleSetVM) bool {
			return s.Tags["aks-managed-poolName"] != nil
		}},
		"light": {func(p *PoolSpec) { p.Light = true }, func(_ armcompute.VirtualMachineScaleSet, i *armcompute.VirtualMachineScaleSetVM) bool {
			return !c.fleet.HasDisk(diskOf(*i.Properties.StorageProfile.OSDisk.ManagedDisk.ID)) && c.fleet.Machine(*i.ID).Spec.Light
		}},
	} {
		spec := PoolSpec{Name: name, Nodes: 1, Generation: "V2"}
		check.spec(&spec)
		if err := c.CreatePool(t.Context(), spec); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		set, err := c.factory.NewVirtualMachineScaleSetsClient().Get(t.Context(), testGroup, name, nil)
		if err != nil {
			t.Fatal(err)
		}
		instance, err := c.factory.NewVirtualMachineScaleSetVMsClient().Get(t.Context(), testGroup, name, "0", nil)
		if err != nil {
			t.Fatal(err)
		}
		if !check.says(set.VirtualMachineScaleSet, &instance.VirtualMachineScaleSetVM) {
			t.Errorf("%s does not show", name)
		}
	}
}

func TestQuotaLimitsGrowth(t *testing.T) {
	c := newCloud(t, func(c *Config) { c.Quota = map[string]int64{"cores": 5} })
	c.pool(t, 2, nil)
	err := c.patch(t, capacityOf(3))
	if wantCode(t, err, http.StatusConflict, "OperationNotAllowed"); !strings.Contains(err.Error(), "quota") {
		t.Errorf("the refusal reads %v", err)
	}
	page, err := c.factory.NewUsageClient().NewListPager("westus2", nil).NextPage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := page.Value[0]; *got.Name.Value != "cores" || *got.CurrentValue != 4 || *got.Limit != 5 {
		t.Errorf("usage of %s is %d of %d, want cores 4 of 5", *got.Name.Value, *got.CurrentValue, *got.Limit)
	}
}

// TestTenModels: the instances of a scale set refer to at most ten models. At the limit, a scale set with a new
// model cannot grow until an instance of an old model is updated.
func TestTenModels(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	model := 0
	grow := func() error { // by an instance with a separate model
		model++
		if err := c.patch(t, armcompute.VirtualMachineScaleSetUpdate{Properties: &armcompute.VirtualMachineScaleSetUpdateProperties{
			VirtualMachineProfile: &armcompute.VirtualMachineScaleSetUpdateVMProfile{OSProfile: &armcompute.VirtualMachineScaleSetUpdateOSProfile{
				CustomData: to.Ptr(base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "model %d", model)))}}}}); err != nil {
			t.Fatal(err)
		}
		return c.patch(t, capacityOf(int64(len(c.instances(t))+1)))
	}
	for range maxModels - 1 {
		if err := grow(); err != nil {
			t.Fatal(err)
		}
	}
	err := grow()
	wantCode(t, err, http.StatusConflict, "OperationNotAllowed")
	if !strings.Contains(err.Error(), "has reached its limit of 10 models that may be referenced by one or more VMs") {
		t.Errorf("the refusal reads %v", err)
	}
	if got := len(c.instances(t)); got != maxModels {
		t.Errorf("%d instances, want %d", got, maxModels)
	}
	poller, err := c.factory.NewVirtualMachineScaleSetsClient().BeginUpdateInstances(t.Context(), testGroup, testPool,
		armcompute.VirtualMachineScaleSetVMInstanceRequiredIDs{InstanceIDs: []*string{c.instances(t)[0].InstanceID}}, nil)
	if _, err := finish(t.Context(), poller, err); err != nil {
		t.Fatal(err)
	}
	if err := c.patch(t, capacityOf(maxModels+1)); err != nil {
		t.Errorf("after an old one was brought up: %v", err)
	}
}

func TestListsComeInPages(t *testing.T) {
	c := newCloud(t, func(c *Config) { c.PageSize = 3 })
	c.pool(t, 10, func(p *PoolSpec) { p.Light = true })
	if got := len(c.instances(t)); got != 10 {
		t.Errorf("%d instances over all pages, want 10", got)
	}
}
