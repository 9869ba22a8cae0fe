package azure

import (
	"context"
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

func TestPowerActions(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 2, nil)
	vms := c.factory.NewVirtualMachineScaleSetVMsClient()
	stop := func() {
		stopping := make(chan struct{})
		c.fleet.Before = func(ctx context.Context) error {
			select {
			case <-stopping:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		poller, err := vms.BeginPowerOff(t.Context(), testGroup, testPool, "1",
			&armcompute.VirtualMachineScaleSetVMsClientBeginPowerOffOptions{SkipShutdown: to.Ptr(true)})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.power(t, "1"); got != "stopping" {
			t.Errorf("power is %q while it stops, want stopping", got)
		}
		close(stopping)
		done(t, poller, nil)
	}
	stop()
	if got := c.power(t, "1"); got != "stopped" || !c.fleet.Machine(*c.instances(t)[1].ID).WasHard {
		t.Errorf("power is %q, want stopped, without shutting down first", got)
	}
	again, err := vms.BeginPowerOff(t.Context(), testGroup, testPool, "1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.power(t, "1"); got != "stopped" {
		t.Errorf("power is %q while it is stopped once more, want stopped", got)
	}
	done(t, again, nil)
	start, err := vms.BeginStart(t.Context(), testGroup, testPool, "1", nil)
	done(t, start, err)
	if got := c.power(t, "1"); got != "running" {
		t.Errorf("power is %q after the start, want running", got)
	}
	deallocate, err := c.factory.NewVirtualMachineScaleSetsClient().BeginDeallocate(t.Context(), testGroup, testPool,
		&armcompute.VirtualMachineScaleSetsClientBeginDeallocateOptions{VMInstanceIDs: &armcompute.VirtualMachineScaleSetVMInstanceIDs{InstanceIDs: []*string{to.Ptr("1")}}})
	done(t, deallocate, err)
	if got := [2]string{c.power(t, "0"), c.power(t, "1")}; got != [2]string{"running", "deallocated"} {
		t.Errorf("powers are %v, want only the named instance deallocated", got)
	}
	restart, err := vms.BeginRestart(t.Context(), testGroup, testPool, "1", nil)
	done(t, restart, err)
	if got := c.fleet.Machine(*c.instances(t)[1].ID).Boots; got != 3 {
		t.Errorf("the machine booted %d times, want 3", got)
	}
}

func TestMachinePowersItselfOff(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	id := *c.instances(t)[0].ID
	if err := c.fleet.PowerOff(t.Context(), id, false); err != nil {
		t.Fatal(err)
	}
	if got := c.power(t, "0"); got != "stopped" {
		t.Errorf("power is %q, want stopped at once", got)
	}
}

func TestStopAndStartRunInOrder(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	vms := c.factory.NewVirtualMachineScaleSetVMsClient()
	stop, err := vms.BeginPowerOff(t.Context(), testGroup, testPool, "0", nil)
	if err != nil {
		t.Fatal(err)
	}
	start, err := vms.BeginStart(t.Context(), testGroup, testPool, "0", nil)
	done(t, start, err)
	if !stop.Done() {
		done(t, stop, nil)
	}
	if got := c.power(t, "0"); got != "running" || c.fleet.Machine(*c.instances(t)[0].ID).Boots != 2 {
		t.Errorf("power is %q, want running after a stop and a start", got)
	}
}

func TestReimageGivesANewDisk(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	before := diskOf(*c.instances(t)[0].Properties.StorageProfile.OSDisk.ManagedDisk.ID)
	c.fleet.WriteFile(before, "mine", "x")
	poller, err := c.factory.NewVirtualMachineScaleSetVMsClient().BeginReimage(t.Context(), testGroup, testPool, "0", nil)
	done(t, poller, err)
	after := diskOf(*c.instances(t)[0].Properties.StorageProfile.OSDisk.ManagedDisk.ID)
	if before == after || c.fleet.HasDisk(before) || !c.fleet.HasDisk(after) || c.fleet.File(after, "mine") != "" {
		t.Errorf("disk was %s and is %s; want a new one from the image and the old one gone", before, after)
	}
}

func TestPowerOfMissingMachine(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	_, err := c.factory.NewVirtualMachineScaleSetVMsClient().BeginPowerOff(t.Context(), testGroup, testPool, "7", nil)
	wantCode(t, err, http.StatusNotFound, "NotFound")
	_, err = c.factory.NewVirtualMachineScaleSetsClient().BeginStart(t.Context(), testGroup, testPool,
		&armcompute.VirtualMachineScaleSetsClientBeginStartOptions{VMInstanceIDs: &armcompute.VirtualMachineScaleSetVMInstanceIDs{InstanceIDs: []*string{to.Ptr("7")}}})
	wantCode(t, err, http.StatusBadRequest, "InvalidParameter")
}
