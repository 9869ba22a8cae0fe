package azure

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/process"
)

// maxProtectionReads is how often the protection is read after the write, protectionPause apart. Azure stores the model at
// once; further reads are for a slow replica.
const (
	maxProtectionReads = 3
	protectionPause    = 400 * time.Millisecond
)

// CapturesInPlace implements cloud.PoolProvider.
func (p *PoolProvider) CapturesInPlace() bool { return true }

// Protection implements cloud.PoolProvider. With scale-in protection a scale set changes an instance only by its upgrade
// policy, and such pools are refused.
func (p *PoolProvider) Protection(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
	ref, err := parseInstance(id)
	if err != nil {
		return cloud.Protection{}, err
	}
	vm, err := p.vm(ctx, ref)
	if err != nil {
		return cloud.Protection{}, err
	}
	return cloud.ProtectionOf(protectedFromScaleIn(vm)), nil
}

// ProtectFromScaleIn implements cloud.PoolProvider.
func (p *PoolProvider) ProtectFromScaleIn(ctx context.Context, id cloud.InstanceID, token string) error {
	if token == "" {
		return nil
	}
	if _, err := cloud.ParseProtection("set scale-in protection of", id, token); err != nil {
		return err
	}
	return p.protect(ctx, id, true)
}

// Unprotect implements cloud.PoolProvider.
func (p *PoolProvider) Unprotect(ctx context.Context, id cloud.InstanceID, token string) error {
	if token == "" {
		return nil
	}
	before, err := cloud.ParseProtection("set scale-in protection of", id, token)
	if err != nil {
		return err
	}
	return p.protect(ctx, id, before)
}

// protect sets or clears the scale-in protection of an instance. Azure has no patch of an instance, and keeps fields that
// a PUT leaves out. So only the protection is sent, conditional on the ETag.
func (p *PoolProvider) protect(ctx context.Context, id cloud.InstanceID, protect bool) error {
	ref, err := parseInstance(id)
	if err != nil {
		return err
	}
	vm, err := p.vm(ctx, ref)
	if err == nil && value(vm.Etag) == "" {
		vm, err = p.vm(cloud.WithoutReadCache(ctx), ref) // without an ETag the write is unconditional
	}
	if err != nil {
		return err
	}
	if protectedFromScaleIn(vm) == protect {
		return nil
	}
	clients, err := p.in(ref.scaleSet)
	if err != nil {
		return err
	}
	var answer *http.Response
	poller, err := clients.instances.BeginUpdate(policy.WithCaptureResponse(ctx, &answer), ref.group, ref.name, ref.number, protectionOnly(vm, protect),
		&armcompute.VirtualMachineScaleSetVMsClientBeginUpdateOptions{IfMatch: vm.Etag})
	if err != nil {
		return fail("set scale-in protection of", ref, err)
	}
	rememberOperation(p.account, string(id), poller)
	if answeredVM(answer, protect) {
		return nil
	}
	for look := 1; ; look++ {
		vm, err := p.vm(ctx, ref)
		if err != nil {
			return err
		}
		if protectedFromScaleIn(vm) == protect {
			return nil
		}
		if look == maxProtectionReads {
			return &cloud.Error{Kind: cloud.Conflict, Op: "set scale-in protection of", Resource: ref.String(),
				Message: "Azure accepted the change, but does not show the change yet: try again"}
		}
		if err := process.Wait(ctx, protectionPause); err != nil {
			return fail("set scale-in protection of", ref, err)
		}
	}
}

// answeredVM reports whether the answer to the write shows the wanted protection, so that no further read is needed. An
// answer without a body, such as 202, shows nothing.
func answeredVM(answer *http.Response, protect bool) bool {
	if answer == nil {
		return false
	}
	data, err := runtime.Payload(answer)
	if err != nil {
		return false
	}
	var vm armcompute.VirtualMachineScaleSetVM
	return json.Unmarshal(data, &vm) == nil && vm.Properties != nil && protectedFromScaleIn(vm) == protect
}

func protectedFromScaleIn(vm armcompute.VirtualMachineScaleSetVM) bool {
	return vm.Properties != nil && vm.Properties.ProtectionPolicy != nil && value(vm.Properties.ProtectionPolicy.ProtectFromScaleIn)
}

// protectionOnly returns the write of an instance's protection. All other fields are left out, so that the write cannot
// detach a volume that was just attached.
func protectionOnly(vm armcompute.VirtualMachineScaleSetVM, protect bool) armcompute.VirtualMachineScaleSetVM {
	protection := armcompute.VirtualMachineScaleSetVMProtectionPolicy{}
	if vm.Properties != nil && vm.Properties.ProtectionPolicy != nil {
		protection = *vm.Properties.ProtectionPolicy
	}
	protection.ProtectFromScaleIn = to.Ptr(protect)
	return armcompute.VirtualMachineScaleSetVM{
		Location: vm.Location, Properties: &armcompute.VirtualMachineScaleSetVMProperties{ProtectionPolicy: &protection},
	}
}
