package azure

import (
	"context"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// CanRebuild implements cloud.PoolProvider.
func (*account) CanRebuild(cloud.PoolID) bool { return true }

// ResizeWarmPool implements cloud.PoolProvider: a scale set has none.
func (*PoolProvider) ResizeWarmPool(_ context.Context, pool cloud.PoolID, _, _ cloud.WarmLimits) error {
	return &cloud.Error{Kind: cloud.NotFound, Op: "resize the warm pool of", Resource: string(pool), Message: "the pool has no warm pool"}
}

// EnsureRebuilt applies the scale set's latest model first, because a reimage uses the instance's own model. Azure's
// documentation contradicts itself about the new disk, so Kamino reimages until the disk's source is the version.
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
	if err := p.requireVersion(ctx, ref.scaleSet, version); err != nil {
		return cloud.Rebuild{}, err
	}
	return out, p.rebuild(ctx, id, ref, upToDate)
}

// changing reports whether Azure is changing the resource.
func changing(provisioning string) bool {
	switch strings.ToLower(provisioning) {
	case "creating", "updating", "deleting", "migrating":
		return true
	}
	return false
}

// madeFrom returns the version that the instance's OS disk was made from, by the disk, else by the instance's model.
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
		return "", fail("read", text("OS disk "+name), err)
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

// requireVersion returns an error unless the scale set's recipe names the version, because a rebuild uses the recipe.
func (p *PoolProvider) requireVersion(ctx context.Context, s scaleSet, version string) error {
	model, err := p.model(ctx, s)
	if err != nil {
		return err
	}
	if r := (versionRef{s, version}); !isVersion(imageReference(model), r) {
		return &cloud.Error{Kind: cloud.Conflict, Op: "rebuild instances of", Resource: s.String(), Message: fmt.Sprintf(
			"the recipe names %s, so instances would not be built from version %s", r.imageName(imageReference(model)), version)}
	}
	return nil
}

// rebuild applies the latest model, or reimages an instance with the latest model.
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
		rememberOperation(p.account, string(id), poller)
		return nil
	}
	poller, err := clients.scaleSets.BeginUpdateInstances(ctx, ref.group, ref.name,
		armcompute.VirtualMachineScaleSetVMInstanceRequiredIDs{InstanceIDs: []*string{to.Ptr(ref.number)}}, nil)
	if err != nil {
		return fail("apply the latest model to", ref, err)
	}
	rememberOperation(p.account, string(id), poller)
	return nil
}
