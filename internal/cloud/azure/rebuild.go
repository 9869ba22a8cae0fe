package azure

import (
	"context"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var _ cloud.Rebuilder = (*PoolProvider)(nil)

// rebuildActions are what rebuilding instances needs beyond requiredActions.
var rebuildActions = []string{
	"Microsoft.Compute/virtualMachineScaleSets/manualUpgrade/action",
	"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/reimage/action",
}

// RebuildActions are the Azure actions that rebuilding instances needs beyond RequiredActions.
func RebuildActions() []string { return append([]string(nil), rebuildActions...) }

// EnsureRebuilt implements cloud.Rebuilder. An instance keeps the model that it was built by, and a reimage uses
// that one; so the scale set's latest model is applied first. Whether that alone gives an instance a new disk
// when the image changes is documented both ways, and is not relied on: the disk itself says what it was made
// from, and the instance is reimaged as long as that is not the version.
func (p *PoolProvider) EnsureRebuilt(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error) {
	ref, err := parseInstance(id)
	if err != nil {
		return cloud.Rebuild{}, err
	}
	if err := checkVersion(version); err != nil {
		return cloud.Rebuild{}, err
	}
	vm, err := p.vm(ctx, ref)
	if err != nil {
		return cloud.Rebuild{}, err
	}
	if vm.Properties == nil || changing(value(vm.Properties.ProvisioningState)) {
		return cloud.Rebuild{State: cloud.Pending}, nil
	}
	out := cloud.Rebuild{State: cloud.Pending}
	if strings.EqualFold(value(vm.Properties.ProvisioningState), "Failed") {
		out.Trouble = p.reason(ctx, string(id))
	}
	upToDate := instanceOf(id, ref, vm).BuiltFrom == version
	if upToDate {
		made, err := p.madeFrom(ctx, ref, vm)
		switch {
		case err != nil:
			return cloud.Rebuild{}, err
		case made == version && powerOf(vm) == cloud.PowerRunning:
			return cloud.Rebuild{State: cloud.Complete}, nil
		case made == version && powerOf(vm) == cloud.PowerStopped:
			_, err := p.ensureStarted(ctx, id, ref)
			return out, err
		case made == version:
			return out, nil
		}
	}
	if err := p.names(ctx, ref.scaleSet, version); err != nil {
		return cloud.Rebuild{}, err
	}
	return out, p.rebuild(ctx, id, ref, upToDate)
}

// changing tells whether Azure works on an instance.
func changing(provisioning string) bool {
	switch strings.ToLower(provisioning) {
	case "creating", "updating", "deleting", "migrating":
		return true
	}
	return false
}

// madeFrom is the version that the instance's OS disk was made from, by the disk's own word; by the instance's
// where the disk does not tell.
func (p *PoolProvider) madeFrom(ctx context.Context, ref instance, vm armcompute.VirtualMachineScaleSetVM) (string, error) {
	byModel := builtFrom(ref.scaleSet, vm.Properties.StorageProfile.ImageReference)
	group, name, ok := groupAndName(osDisk(vm), "disks")
	if !ok {
		return byModel, nil // an ephemeral disk has no resource
	}
	clients, err := p.in(ref.scaleSet)
	if err != nil {
		return "", err
	}
	disk, err := clients.disks.Get(ctx, group, name, nil)
	if err != nil {
		return "", fail("look at", text("OS disk "+name), err)
	}
	if disk.Properties == nil || disk.Properties.CreationData == nil {
		return byModel, nil
	}
	from := disk.Properties.CreationData
	for _, image := range []*armcompute.ImageDiskReference{from.GalleryImageReference, from.ImageReference} {
		if image == nil || value(image.ID) == "" {
			continue
		}
		version, latest, ours := ref.versionOf(value(image.ID))
		switch {
		case latest:
			return byModel, nil
		case ours:
			return version, nil
		}
		return "", nil
	}
	return byModel, nil
}

// names demands that the scale set's recipe names the version: a rebuild uses what it names.
func (p *PoolProvider) names(ctx context.Context, s scaleSet, version string) error {
	model, err := p.model(ctx, s)
	if err != nil {
		return err
	}
	if r := (versionRef{s, version}); !isVersion(imageReference(model), r) {
		return &cloud.Error{Kind: cloud.Conflict, Op: "rebuild instances of", Resource: s.String(), Message: fmt.Sprintf(
			"its recipe names %s, and instances would be built from that and not from version %s", r.imageName(imageReference(model)), version)}
	}
	return nil
}

// rebuild applies the latest model, or reimages an instance that has it.
func (p *PoolProvider) rebuild(ctx context.Context, id cloud.InstanceID, ref instance, upToDate bool) error {
	clients, err := p.in(ref.scaleSet)
	if err != nil {
		return err
	}
	if upToDate {
		poller, err := clients.instances.BeginReimage(ctx, ref.group, ref.name, ref.number, nil)
		if err != nil {
			return fail("reimage", ref, err)
		}
		remember(p.account, string(id), poller)
		return nil
	}
	poller, err := clients.scaleSets.BeginUpdateInstances(ctx, ref.group, ref.name,
		armcompute.VirtualMachineScaleSetVMInstanceRequiredIDs{InstanceIDs: []*string{to.Ptr(ref.number)}}, nil)
	if err != nil {
		return fail("apply the latest model to", ref, err)
	}
	remember(p.account, string(id), poller)
	return nil
}
