package azure

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// EnsureRemoved deletes instance and OS disk, and reduces the capacity in the same step. Scale-in protection does not prevent
// the deletion of a named instance. Source: Compute REST API, Virtual Machine Scale Set VMs, Delete; Azure, "Instance
// protection".
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
	// With force a hanging VM does not delay the deletion. The disk is no longer needed.
	poller, err := clients.instances.BeginDelete(ctx, ref.group, ref.name, ref.number,
		&armcompute.VirtualMachineScaleSetVMsClientBeginDeleteOptions{ForceDeletion: to.Ptr(true)})
	if err := fail("remove", ref, err); cloud.Is(err, cloud.NotFound) {
		return cloud.Absent, nil
	} else if err != nil {
		return cloud.Absent, err
	}
	rememberOperation(p.account, string(id), poller)
	return cloud.Deleting, nil
}
