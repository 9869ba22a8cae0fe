package azure

import (
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// copyOf makes a disk from the one snapshot of the first instance's disk, in zones.
func (c *testCloud) copyOf(t *testing.T, name string, zones ...*string) *string {
	t.Helper()
	from := c.instances(t)[0].Properties.StorageProfile.OSDisk.ManagedDisk.ID
	shots, disks := c.factory.NewSnapshotsClient(), c.factory.NewDisksClient()
	data := func(id *string) *armcompute.CreationData {
		return &armcompute.CreationData{CreateOption: to.Ptr(armcompute.DiskCreateOptionCopy), SourceResourceID: id}
	}
	shot, err := shots.BeginCreateOrUpdate(t.Context(), testGroup, "from", armcompute.Snapshot{Location: to.Ptr("westus2"),
		Properties: &armcompute.SnapshotProperties{CreationData: data(from)}}, nil)
	id := done(t, shot, err).ID
	disk, err := disks.BeginCreateOrUpdate(t.Context(), testGroup, name, armcompute.Disk{Location: to.Ptr("westus2"), Zones: zones,
		Properties: &armcompute.DiskProperties{CreationData: data(id)}}, nil)
	return done(t, disk, err).ID
}

// attach attaches a disk to an instance of the pool; without a LUN, the cloud chooses.
func (c *testCloud) attach(t *testing.T, number string, lun *int32, ids ...*string) error {
	t.Helper()
	var request armcompute.AttachDetachDataDisksRequest
	for _, id := range ids {
		request.DataDisksToAttach = append(request.DataDisksToAttach, &armcompute.DataDisksToAttach{DiskID: id, Lun: lun})
	}
	return c.changeDisks(t, number, request)
}

func (c *testCloud) detach(t *testing.T, number string, id *string) error {
	t.Helper()
	return c.changeDisks(t, number, armcompute.AttachDetachDataDisksRequest{DataDisksToDetach: []*armcompute.DataDisksToDetach{{DiskID: id}}})
}

func (c *testCloud) changeDisks(t *testing.T, number string, request armcompute.AttachDetachDataDisksRequest) error {
	t.Helper()
	poller, err := c.factory.NewVirtualMachineScaleSetVMsClient().BeginAttachDetachDataDisks(t.Context(), testGroup, testPool, number, request, nil)
	_, err = finish(t.Context(), poller, err)
	return err
}

// ownerOf returns the instance of a disk; empty without one.
func (c *testCloud) ownerOf(t *testing.T, name string) string {
	t.Helper()
	d, err := c.factory.NewDisksClient().Get(t.Context(), testGroup, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d.ManagedBy == nil {
		return ""
	}
	return *d.ManagedBy
}

// TestAttachedDisk: an attached disk is a disk of one instance, which keeps running, and outlives the instance.
func TestAttachedDisk(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 2, nil)
	disk := c.copyOf(t, "one")
	if err := c.attach(t, "1", to.Ptr[int32](3), disk); err != nil {
		t.Fatal(err)
	}
	vm := c.instances(t)[1]
	if data := vm.Properties.StorageProfile.DataDisks; len(data) != 1 || *data[0].Lun != 3 || *data[0].ManagedDisk.ID != *disk || *data[0].ToBeDetached {
		t.Errorf("the instance has %+v", data)
	}
	if further := c.fleet.Machine(*vm.ID).Further; c.ownerOf(t, "one") != *vm.ID || len(further) != 1 || further[0].Serial != "lun-3" {
		t.Errorf("the disk is of %s, and the guest has %+v", c.ownerOf(t, "one"), further)
	}
	wantCode(t, c.attach(t, "0", nil, disk), http.StatusConflict, "ConflictingUserInput")
	_, err := c.factory.NewDisksClient().BeginDelete(t.Context(), testGroup, "one", nil)
	wantCode(t, err, http.StatusConflict, "OperationNotAllowed")
	if err := c.deleteInstance(t, "1"); err != nil {
		t.Fatal(err)
	}
	if owner := c.ownerOf(t, "one"); owner != "" || !c.fleet.HasDisk(diskOf(*disk)) {
		t.Errorf("after the end of its instance the disk is of %q", owner)
	}
	if err := c.attach(t, "0", nil, disk); err != nil {
		t.Fatal(err)
	}
	if err := c.detach(t, "0", disk); err != nil {
		t.Fatal(err)
	}
	if m := c.fleet.Machine(*c.instances(t)[0].ID); c.ownerOf(t, "one") != "" || len(m.Further) > 0 || m.Boots != 1 {
		t.Errorf("detached, the disk is of %q, and the machine is %+v", c.ownerOf(t, "one"), m)
	}
}

// TestRefusedAttachments: what Azure refuses changes nothing.
func TestRefusedAttachments(t *testing.T) {
	c := newCloud(t, func(config *Config) { config.Latencies.Attach = 10 * time.Minute })
	c.pool(t, 2, func(p *PoolSpec) { p.Zones = []string{"1", "2"} })
	here, there, nowhere := c.copyOf(t, "here", to.Ptr("1")), c.copyOf(t, "there", to.Ptr("2")), c.copyOf(t, "nowhere")
	wantCode(t, c.attach(t, "0", nil, to.Ptr(*here+"2")), http.StatusNotFound, "NotFound")
	wantCode(t, c.attach(t, "9", nil, here), http.StatusNotFound, "NotFound")
	wantCode(t, c.attach(t, "0", nil, there), http.StatusBadRequest, "BadRequest")
	wantCode(t, c.attach(t, "0", nil, nowhere), http.StatusBadRequest, "BadRequest")
	wantCode(t, c.attach(t, "0", nil), http.StatusBadRequest, "InvalidParameter")
	wantCode(t, c.detach(t, "0", here), http.StatusBadRequest, "InvalidParameter")
	wantCode(t, c.attach(t, "0", to.Ptr[int32](1), here, c.copyOf(t, "too", to.Ptr("1"))), http.StatusConflict, "ConflictingUserInput")
	var many []*string
	for _, name := range []string{"a", "b", "c", "d", "e"} { // a VM of two cores has room for four
		many = append(many, c.copyOf(t, name, to.Ptr("1")))
	}
	wantCode(t, c.attach(t, "0", nil, many...), http.StatusConflict, "OperationNotAllowed")
	for _, action := range []string{"Microsoft.Compute/disks/write", "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/attachDetachDataDisks/action"} {
		_, err := c.AddFault(fault.Fault{Name: "denied", Deny: action})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.attach(t, "0", nil, here); err == nil {
			t.Errorf("without %s, it was attached", action)
		}
		if err := c.ClearFaults("denied"); err != nil {
			t.Fatal(err)
		}
	}
	for _, vm := range c.instances(t) {
		if data := vm.Properties.StorageProfile.DataDisks; len(data) > 0 || len(c.fleet.Machine(*vm.ID).Further) > 0 {
			t.Errorf("instance %s has %+v", *vm.InstanceID, data)
		}
	}
	client := c.factory.NewVirtualMachineScaleSetVMsClient()
	first, err := client.BeginAttachDetachDataDisks(t.Context(), testGroup, testPool, "0",
		armcompute.AttachDetachDataDisksRequest{DataDisksToAttach: []*armcompute.DataDisksToAttach{{DiskID: here}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, c.attach(t, "0", nil, many[0]), http.StatusConflict, "Conflict")
	_, err = c.factory.NewDisksClient().BeginDelete(t.Context(), testGroup, "here", nil)
	wantCode(t, err, http.StatusConflict, "OperationNotAllowed")
	done(t, first, nil)
}

// TestFailedAttachment: the disk of a failed attachment is free, and can be attached again.
func TestFailedAttachment(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	disk := c.copyOf(t, "one")
	if _, err := c.AddFault(fault.Fault{Resource: "instance", Operation: "attachDetach", Long: true, Code: "InternalExecutionError", Count: 1}); err != nil {
		t.Fatal(err)
	}
	if err := c.attach(t, "0", nil, disk); err == nil {
		t.Fatal("it did not fail")
	}
	vm := c.instances(t)[0]
	if len(vm.Properties.StorageProfile.DataDisks) > 0 || c.ownerOf(t, "one") != "" || *vm.Properties.ProvisioningState != stateFailed {
		t.Errorf("the instance is %s, and the disk is of %q", *vm.Properties.ProvisioningState, c.ownerOf(t, "one"))
	}
	if err := c.attach(t, "0", nil, disk); err != nil || c.ownerOf(t, "one") == "" {
		t.Errorf("again: %v", err)
	}
}

// TestAttachedDiskOfVM: a standalone VM has room for as many disks as an instance of its size, and its disks outlive it.
func TestAttachedDiskOfVM(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	vms, image := c.factory.NewVirtualMachinesClient(), c.instances(t)[0].Properties.StorageProfile.ImageReference
	made, err := vms.BeginCreateOrUpdate(t.Context(), testGroup, "alone", armcompute.VirtualMachine{Location: to.Ptr("westus2"),
		Properties: &armcompute.VirtualMachineProperties{
			HardwareProfile: &armcompute.HardwareProfile{VMSize: to.Ptr(armcompute.VirtualMachineSizeTypes("Standard_D2s_v5"))},
			OSProfile:       &armcompute.OSProfile{ComputerName: to.Ptr("alone"), AdminUsername: to.Ptr("me")},
			StorageProfile: &armcompute.StorageProfile{ImageReference: image,
				OSDisk: &armcompute.OSDisk{CreateOption: to.Ptr(armcompute.DiskCreateOptionTypesFromImage)},
				DataDisks: []*armcompute.DataDisk{{Lun: to.Ptr[int32](0), CreateOption: to.Ptr(armcompute.DiskCreateOptionTypesEmpty),
					DiskSizeGB: to.Ptr[int32](4)}}},
		}}, nil)
	vm := done(t, made, err)
	change := func(request armcompute.AttachDetachDataDisksRequest) error {
		t.Helper()
		poller, err := vms.BeginAttachDetachDataDisks(t.Context(), testGroup, "alone", request, nil)
		_, err = finish(t.Context(), poller, err)
		return err
	}
	attach := func(lun *int32, ids ...*string) error {
		t.Helper()
		var request armcompute.AttachDetachDataDisksRequest
		for _, id := range ids {
			request.DataDisksToAttach = append(request.DataDisksToAttach, &armcompute.DataDisksToAttach{DiskID: id, Lun: lun})
		}
		return change(request)
	}
	one := c.copyOf(t, "one")
	wantCode(t, attach(to.Ptr[int32](0), one), http.StatusConflict, "ConflictingUserInput") // its own disk is there
	if err := attach(nil, one); err != nil {
		t.Fatal(err)
	}
	wantCode(t, c.attach(t, "0", nil, one), http.StatusConflict, "ConflictingUserInput")
	wantCode(t, attach(nil, c.copyOf(t, "two"), c.copyOf(t, "three"), c.copyOf(t, "four")), http.StatusConflict, "OperationNotAllowed")
	if further := c.fleet.Machine(*vm.ID).Further; c.ownerOf(t, "one") != *vm.ID || len(further) != 1 || further[0].Serial != "lun-1" {
		t.Errorf("the disk is of %s, and the guest has %+v", c.ownerOf(t, "one"), further)
	}
	if err := change(armcompute.AttachDetachDataDisksRequest{DataDisksToDetach: []*armcompute.DataDisksToDetach{{DiskID: one}}}); err != nil {
		t.Fatal(err)
	}
	if m := c.fleet.Machine(*vm.ID); c.ownerOf(t, "one") != "" || len(m.Further) > 0 || m.Boots != 1 {
		t.Errorf("detached, the disk is of %q, and the machine is %+v", c.ownerOf(t, "one"), m)
	}
	if err := attach(nil, one); err != nil {
		t.Fatal(err)
	}
	gone, err := vms.BeginDelete(t.Context(), testGroup, "alone", nil)
	done(t, gone, err)
	if owner := c.ownerOf(t, "one"); owner != "" || !c.fleet.HasDisk(diskOf(*one)) {
		t.Errorf("after the end of its VM the disk is of %q", owner)
	}
}
