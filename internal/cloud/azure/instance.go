package azure

import (
	"context"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// SameInstance implements cloud.ImageProvider. IDs of Azure ignore case.
func (p *ImageProvider) SameInstance(a, b cloud.InstanceID) bool {
	x, errX := parseVM(a)
	y, errY := parseVM(b)
	if errX != nil || errY != nil {
		return strings.EqualFold(string(a), string(b))
	}
	return x == y
}

// Instance implements cloud.ImageProvider and reads model and instance view in a single request.
func (p *ImageProvider) Instance(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error) {
	ref, err := p.parse(id)
	if err != nil {
		return cloud.Instance{}, err
	}
	vm, err := p.vm(ctx, ref)
	if err != nil {
		return cloud.Instance{}, err
	}
	return withoutPool(instanceOf(id, ref, vm), p.externalPools), nil
}

// instanceOf converts a VM.
func instanceOf(id cloud.InstanceID, ref instance, vm armcompute.VirtualMachineScaleSetVM) cloud.Instance {
	out := cloud.Instance{ID: id, Pool: ref.pool(), Power: powerOf(vm), Disk: osDisk(vm), Refusals: refusalsOfVM(ref, vm)}
	if vm.SKU != nil {
		out.Type = value(vm.SKU.Name)
	}
	if len(vm.Zones) > 0 { // as in the label. Source: cloud-provider-azure, makeZone
		out.Zone = strings.ToLower(value(vm.Location) + "-" + value(vm.Zones[0]))
	}
	if vm.Properties != nil {
		if hardware := vm.Properties.HardwareProfile; out.Type == "" && hardware != nil {
			out.Type = string(value(hardware.VMSize))
		}
		out.CreatedAt = value(vm.Properties.TimeCreated)
		out.Removing = beingDeleted(vm)
	}
	if vm.Properties != nil && vm.Properties.StorageProfile != nil {
		out.Image = ref.imageName(vm.Properties.StorageProfile.ImageReference)
		out.BuiltFrom = builtFrom(ref.scaleSet, vm.Properties.StorageProfile.ImageReference)
	}
	return out
}

// hostName returns the computer name of an instance, which is the name of its Node: Kubernetes' cloud provider finds the
// instance by that name. Source: cloud-provider-azure, pkg/provider/azure_vmss_cache.go.
func hostName(vm armcompute.VirtualMachineScaleSetVM) string {
	if vm.Properties == nil || vm.Properties.OSProfile == nil {
		return ""
	}
	return strings.ToLower(value(vm.Properties.OSProfile.ComputerName))
}

// beingDeleted reports whether Azure is deleting the instance.
func beingDeleted(vm armcompute.VirtualMachineScaleSetVM) bool {
	return vm.Properties != nil && strings.EqualFold(value(vm.Properties.ProvisioningState), "Deleting")
}

// vm reads an instance with the instance view, which contains the power state.
func (p *account) vm(ctx context.Context, ref instance) (armcompute.VirtualMachineScaleSetVM, error) {
	clients, err := p.in(ref.scaleSet)
	if err != nil {
		return armcompute.VirtualMachineScaleSetVM{}, err
	}
	if ref.isStandalone() {
		got, err := clients.machines.Get(ctx, ref.group, ref.number,
			&armcompute.VirtualMachinesClientGetOptions{Expand: to.Ptr(armcompute.InstanceViewTypesInstanceView)})
		if err != nil {
			return armcompute.VirtualMachineScaleSetVM{}, fail("read", ref, err)
		}
		return likeInstance(got.VirtualMachine), nil
	}
	got, err := clients.instances.Get(ctx, ref.group, ref.name, ref.number,
		&armcompute.VirtualMachineScaleSetVMsClientGetOptions{Expand: to.Ptr(armcompute.InstanceViewTypesInstanceView)})
	if err != nil {
		return armcompute.VirtualMachineScaleSetVM{}, fail("read", ref, err)
	}
	return got.VirtualMachineScaleSetVM, nil
}

// likeInstance converts a standalone VM to the type of a scale set VM.
func likeInstance(vm armcompute.VirtualMachine) armcompute.VirtualMachineScaleSetVM {
	out := armcompute.VirtualMachineScaleSetVM{ID: vm.ID, Name: vm.Name, Location: vm.Location, Tags: vm.Tags, Zones: vm.Zones}
	if from := vm.Properties; from != nil {
		out.Properties = &armcompute.VirtualMachineScaleSetVMProperties{
			VMID: from.VMID, ProvisioningState: from.ProvisioningState, TimeCreated: from.TimeCreated, HardwareProfile: from.HardwareProfile,
			StorageProfile: from.StorageProfile, SecurityProfile: from.SecurityProfile,
		}
		if view := from.InstanceView; view != nil {
			out.Properties.InstanceView = &armcompute.VirtualMachineScaleSetVMInstanceView{Statuses: view.Statuses}
		}
	}
	return out
}

// builtFrom returns the version of an image reference to the pool's definition. If the reference names the definition,
// builtFrom returns the exact version.
func builtFrom(s scaleSet, image *armcompute.ImageReference) string {
	if image == nil {
		return ""
	}
	version, latest, ours := s.versionOf(value(image.ID))
	switch {
	case !ours:
		return ""
	case latest:
		return value(image.ExactVersion)
	default:
		return version
	}
}

// powerOf returns the power state from the instance view, for example "PowerState/running".
func powerOf(vm armcompute.VirtualMachineScaleSetVM) cloud.Power {
	if vm.Properties == nil || vm.Properties.InstanceView == nil {
		return cloud.PowerUnknown
	}
	for _, status := range vm.Properties.InstanceView.Statuses {
		state, isPower := cutPrefixFold(value(status.Code), "PowerState/")
		if !isPower {
			continue
		}
		switch strings.ToLower(state) {
		case "running":
			return cloud.PowerRunning
		case "starting":
			return cloud.PowerStarting
		case "stopped", "deallocated":
			return cloud.PowerStopped
		case "stopping", "deallocating":
			return cloud.PowerStopping
		}
	}
	return cloud.PowerUnknown
}

// refusalsOfVM returns the reasons against a capture of the instance's disk.
func refusalsOfVM(ref instance, vm armcompute.VirtualMachineScaleSetVM) []cloud.Refusal {
	if vm.Properties == nil {
		return nil
	}
	var out []cloud.Refusal
	if profile := vm.Properties.SecurityProfile; profile != nil && value(profile.SecurityType) == armcompute.SecurityTypesConfidentialVM {
		out = append(out, confidential(ref))
	}
	storage := vm.Properties.StorageProfile
	if storage == nil || storage.OSDisk == nil {
		return out
	}
	disk := storage.OSDisk
	switch {
	case disk.DiffDiskSettings != nil && disk.DiffDiskSettings.Option != nil:
		out = append(out, ephemeral(ref))
	case disk.ManagedDisk == nil || value(disk.ManagedDisk.ID) == "":
		out = append(out, cloud.Refuse(cloud.DiskUnsupported, fmt.Sprintf("%s has no managed OS disk: only managed disks can be copied", ref),
			"use a pool with managed OS disks"))
	}
	if value(disk.OSType) == armcompute.OperatingSystemTypesWindows {
		out = append(out, windows(ref))
	}
	return out
}

// osDisk returns the ID of the instance's managed OS disk; empty without a managed disk.
func osDisk(vm armcompute.VirtualMachineScaleSetVM) string {
	if vm.Properties == nil || vm.Properties.StorageProfile == nil || vm.Properties.StorageProfile.OSDisk == nil ||
		vm.Properties.StorageProfile.OSDisk.ManagedDisk == nil {
		return ""
	}
	return value(vm.Properties.StorageProfile.OSDisk.ManagedDisk.ID)
}

// EnsureStopped powers off, and keeps host, network and address. Deallocation would reset the TPM and might lose the capacity.
// The guest does not shut down, because a shutdown would write to the generalized disk.
func (p *ImageProvider) EnsureStopped(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	ref, err := p.parse(id)
	if err != nil {
		return cloud.PowerUnknown, err
	}
	return p.ensurePower(ctx, ref, "power off", cloud.PowerStopping, func(power cloud.Power) bool {
		return power == cloud.PowerRunning || power == cloud.PowerUnknown
	}, func(clients *clients) error {
		if ref.isStandalone() {
			poller, err := clients.machines.BeginPowerOff(ctx, ref.group, ref.number,
				&armcompute.VirtualMachinesClientBeginPowerOffOptions{SkipShutdown: to.Ptr(true)})
			if err == nil {
				rememberOperation(p.account, string(id), poller)
			}
			return err
		}
		poller, err := clients.instances.BeginPowerOff(ctx, ref.group, ref.name, ref.number,
			&armcompute.VirtualMachineScaleSetVMsClientBeginPowerOffOptions{SkipShutdown: to.Ptr(true)})
		if err == nil {
			rememberOperation(p.account, string(id), poller)
		}
		return err
	})
}

// EnsureStarted implements cloud.ImageProvider.
func (p *ImageProvider) EnsureStarted(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	ref, err := p.parse(id)
	if err != nil {
		return cloud.PowerUnknown, err
	}
	return p.ensureStarted(ctx, id, ref)
}

func (p *account) ensureStarted(ctx context.Context, id cloud.InstanceID, ref instance) (cloud.Power, error) {
	return p.ensurePower(ctx, ref, "start", cloud.PowerStarting, func(power cloud.Power) bool {
		return power == cloud.PowerStopped || power == cloud.PowerUnknown
	}, func(clients *clients) error {
		if ref.isStandalone() {
			poller, err := clients.machines.BeginStart(ctx, ref.group, ref.number, nil)
			if err == nil {
				rememberOperation(p, string(id), poller)
			}
			return err
		}
		poller, err := clients.instances.BeginStart(ctx, ref.group, ref.name, ref.number, nil)
		if err == nil {
			rememberOperation(p, string(id), poller)
		}
		return err
	})
}

// Restart implements cloud.ImageProvider.
func (p *ImageProvider) Restart(ctx context.Context, id cloud.InstanceID) error {
	ref, err := p.parse(id)
	if err != nil {
		return err
	}
	clients, err := p.in(ref.scaleSet)
	if err != nil {
		return err
	}
	if ref.isStandalone() {
		_, err = clients.machines.BeginRestart(ctx, ref.group, ref.number, nil)
	} else {
		_, err = clients.instances.BeginRestart(ctx, ref.group, ref.name, ref.number, nil)
	}
	return fail("restart", ref, err)
}

// ensurePower reads the instance, and starts the change if needed. A running change is not disturbed.
func (p *account) ensurePower(ctx context.Context, ref instance, op string, after cloud.Power,
	needed func(cloud.Power) bool, change func(*clients) error) (cloud.Power, error) {
	vm, err := p.vm(ctx, ref)
	if err != nil {
		return cloud.PowerUnknown, err
	}
	power := powerOf(vm)
	if !needed(power) {
		return power, nil
	}
	clients, err := p.in(ref.scaleSet)
	if err != nil {
		return power, err
	}
	if err := change(clients); err != nil {
		return power, fail(op, ref, err)
	}
	return after, nil
}
