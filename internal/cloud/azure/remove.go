package azure

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var _ cloud.Remover = (*PoolProvider)(nil)

// removeActions are what removing an instance needs beyond requiredActions.
var removeActions = []string{"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/delete"}

// RemoveActions are the Azure actions that removing instances needs beyond RequiredActions.
func RemoveActions() []string { return append([]string(nil), removeActions...) }

// EnsureRemoved implements cloud.Remover. Azure lowers the scale set's capacity with the deletion of an instance, in one
// step, and deletes its OS disk with it. Protection from scale-in does not keep what is deleted by name. Sources: Compute
// REST API, Virtual Machine Scale Set VMs, Delete; instance protection of scale sets.
func (p *PoolProvider) EnsureRemoved(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
	ref, err := parseInstance(id)
	if err != nil {
		return cloud.Absent, err
	}
	vm, err := p.vm(ctx, ref)
	switch {
	case cloud.Is(err, cloud.NotFound):
		return cloud.Absent, nil
	case err != nil:
		return cloud.Absent, err
	case beingDeleted(vm):
		return cloud.Deleting, nil
	}
	clients, err := p.in(ref.scaleSet)
	if err != nil {
		return cloud.Absent, err
	}
	// With force a machine that hangs does not hold its deletion up: nothing on its disk is asked for any more.
	poller, err := clients.instances.BeginDelete(ctx, ref.group, ref.name, ref.number,
		&armcompute.VirtualMachineScaleSetVMsClientBeginDeleteOptions{ForceDeletion: to.Ptr(true)})
	if err := fail("remove", ref, err); cloud.Is(err, cloud.NotFound) {
		return cloud.Absent, nil
	} else if err != nil {
		return cloud.Absent, err
	}
	remember(p.account, string(id), poller)
	return cloud.Deleting, nil
}
