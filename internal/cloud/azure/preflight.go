package azure

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// PreflightRecipe implements cloud.PoolProvider with two requests.
func (p *PoolProvider) PreflightRecipe(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	s, err := parsePool(spec.Pool)
	if err != nil {
		return nil, err
	}
	model, err := p.model(ctx, s)
	if err != nil {
		return nil, err
	}
	found := refusalsOfPool(s, model)
	actions := recipeActions
	if !spec.Copies {
		actions = slices.Concat(actions, actionsFor(cloud.ForInPlace, "pool"))
	}
	refusal, err := p.refusePermissions(ctx, s, actions)
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		found = append(found, *refusal)
	}
	return found, nil
}

// preflight is a preflight of a disk in progress.
type preflight struct {
	provider     *ImageProvider
	clients      *clients
	instance     instance
	version      versionRef
	requirements cloud.ImageRequirements
	// copies is DiskSpec.Copies.
	copies bool
	vm     armcompute.VirtualMachineScaleSetVM
	// newDefinition is true if the image family has no image definition yet.
	newDefinition bool
	found         []cloud.Refusal
}

// PreflightDisk implements cloud.ImageProvider with seven or eight requests. Checks that the credential may not do, such
// as quotas, are left out: only the permissions of a capture are required.
func (p *ImageProvider) PreflightDisk(ctx context.Context, spec cloud.DiskSpec) ([]cloud.Refusal, error) {
	ref, err := p.parse(spec.Instance)
	if err != nil {
		return nil, err
	}
	version, err := versionOfRef(spec.FamilyVersion)
	if err != nil {
		return nil, err
	}
	clients, err := p.in(ref.scaleSet)
	if err != nil {
		return nil, err
	}
	look := &preflight{provider: p, clients: clients, instance: ref, version: version, requirements: spec.ImageRequirements, copies: spec.Copies}
	for _, step := range []func(context.Context) error{
		look.donor, look.permissions, look.encryption, look.gallery, look.quota,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return look.found, nil
}

func (l *preflight) refuse(reason, remedy, obstacle string, args ...any) {
	l.found = append(l.found, cloud.Refuse(reason, fmt.Sprintf(obstacle, args...), remedy))
}

// donor adds the refusals of the instance.
func (l *preflight) donor(ctx context.Context) error {
	var err error
	if l.vm, err = l.provider.vm(ctx, l.instance); err != nil {
		return err
	}
	l.found = append(l.found, refusalsOfVM(l.instance, l.vm)...)
	has, gives := int32(0), l.requirements.RootDiskGB
	if p := l.vm.Properties; p != nil && p.StorageProfile != nil && p.StorageProfile.OSDisk != nil {
		has = value(p.StorageProfile.OSDisk.DiskSizeGB)
	}
	if gives > 0 && has > gives {
		l.refuse(cloud.RootDiskTooLarge,
			fmt.Sprintf("set osDisk.diskSizeGB of the model to at least %d, or capture a node with an OS disk of at most %d GiB", has, gives),
			"%s has an OS disk of %d GiB, but the model gives new instances %d GiB, and Azure would not create them", l.instance, has, gives)
	}
	return nil
}

func (l *preflight) has(reason string) bool {
	for _, refusal := range l.found {
		if refusal.Reason == reason {
			return true
		}
	}
	return false
}

func (l *preflight) permissions(ctx context.Context) error {
	refusal, err := l.provider.refusePermissions(ctx, l.version.scaleSet, l.provider.actionsOn(l.instance, l.copies))
	if refusal != nil {
		l.found = append(l.found, *refusal)
	}
	return err
}

// encryption checks the region of the pool's disk encryption set.
func (l *preflight) encryption(ctx context.Context) error {
	id := l.requirements.Traits[TraitEncryptionSet]
	if _, outside := outsideSubscription(id, l.version.scaleSet); id == "" || outside { // the pool has a refusal for the set
		return nil
	}
	rid, err := arm.ParseResourceID(id)
	if err != nil {
		return nil //nolint:nilerr // Azure judges the ID at the creation of the version.
	}
	set, err := l.clients.encryption.Get(ctx, rid.ResourceGroupName, rid.Name, nil)
	if err != nil {
		err = fail("read", text("disk encryption set "+rid.Name), err)
		if cloud.Is(err, cloud.Denied) || cloud.Is(err, cloud.NotFound) {
			return nil
		}
		return err
	}
	if !sameRegion(value(set.Location), l.requirements.Location) {
		l.refuse(galleryUnsuitable, "use a disk encryption set of the pool's region",
			"the disk encryption set of %s is in region %s; an image version needs a set of its own subscription and region, here %s",
			l.version.scaleSet, value(set.Location), l.requirements.Location)
	}
	return nil
}

// gallery checks gallery, definition and version, as far as they exist.
func (l *preflight) gallery(ctx context.Context) error {
	s := l.version.scaleSet
	disk, known, err := l.diskTraits(ctx)
	if err != nil {
		return err
	}
	wanted := wantedTraits(disk, l.requirements.Traits)
	if known && wanted.trustedLaunch && disk.orDefaults().generation == armcompute.HyperVGenerationV1 {
		l.refuse(galleryUnsuitable, "capture a newer node",
			"%s is a generation 1 VM, but %s makes Trusted Launch VMs, which need generation 2", l.instance, s)
	}
	definition, err := l.clients.definitions.Get(ctx, s.group, s.gallery(), s.definition(), nil)
	if isNotFound(err) {
		l.newDefinition = true
		return l.galleryName(ctx)
	}
	if err != nil {
		return fail("read", text("image definition "+s.definition()), err)
	}
	switch refusal := definitionMismatch(s, definition.GalleryImage, wanted); {
	case known && refusal != nil:
		l.found = append(l.found, *refusal)
	case known && definitionState(definition.GalleryImage) == armcompute.GalleryProvisioningStateSucceeded:
		l.provider.add(l.provider.defined, s.galleryID())
		l.provider.add(l.provider.defined, s.definitionID())
	}
	version, err := l.provider.version(ctx, l.version)
	if err != nil {
		return err
	}
	if version.image.State != cloud.Absent && !version.replace {
		l.refuse(cloud.VersionExists, fmt.Sprintf("use another name, such as %s, or delete the version", imageversion.Try(l.version.version, 2)),
			"%s already exists (%s)", l.version, strings.ToLower(string(version.image.State)))
	}
	return nil
}

// diskTraits reads the donor's OS disk, the only source of the architecture. known is false if the disk is already
// refused or unreadable.
func (l *preflight) diskTraits(ctx context.Context) (traits diskTraits, known bool, err error) {
	group, name, ok := groupAndName(osDisk(l.vm), "disks")
	if !ok || l.has(cloud.DiskUnsupported) {
		return diskTraits{}, false, nil
	}
	disk, err := l.clients.disks.Get(ctx, group, name, nil)
	if err != nil {
		err = fail("read", text("OS disk "+name), err)
		if cloud.Is(err, cloud.Denied) && l.has(cloud.PermissionMissing) {
			return diskTraits{}, false, nil
		}
		return diskTraits{}, false, err
	}
	if properties := disk.Properties; properties != nil {
		if encrypted := properties.EncryptionSettingsCollection; encrypted != nil && value(encrypted.Enabled) {
			l.refuse(cloud.DiskUnsupported, "use a pool with encryption at host or a disk encryption set",
				"OS disk %s of %s is encrypted within the VM (Azure Disk Encryption), and the keys are bound to the VM", name, l.instance)
		}
		traits.generation = value(properties.HyperVGeneration)
		if properties.SupportedCapabilities != nil {
			traits.architecture = value(properties.SupportedCapabilities.Architecture)
		}
	}
	return traits.orDefaults(), true, nil
}

// galleryName checks that no other resource group has a gallery of the new name. Names are unique in a subscription.
func (l *preflight) galleryName(ctx context.Context) error {
	s := l.version.scaleSet
	if l.provider.contains(l.provider.defined, s.galleryID()) {
		return nil
	}
	pager := l.clients.galleries.NewListPager(nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			err = fail("list galleries of", text("subscription "+s.subscription), err)
			if cloud.Is(err, cloud.Denied) {
				return nil // Rarely granted for a whole subscription.
			}
			return err
		}
		for _, gallery := range page.Value {
			if gallery == nil || !strings.EqualFold(value(gallery.Name), s.gallery()) {
				continue
			}
			group, _, ok := groupAndName(value(gallery.ID), "galleries")
			if ok && !strings.EqualFold(group, s.group) {
				l.refuse(galleryUnsuitable, "delete the other gallery",
					"gallery name %s is in use in resource group %s; the pool's images need the name in resource group %s, "+
						"and gallery names are unique in a subscription",
					s.gallery(), group, s.group)
			}
		}
	}
	return nil
}

// quota checks the subscription's quotas for the resources of a capture.
func (l *preflight) quota(ctx context.Context) error {
	location := l.requirements.Location
	pager := l.clients.usages.NewListPager(location, nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			err = fail("list quotas of", text("region "+location), err)
			if cloud.Is(err, cloud.Denied) || cloud.Is(err, cloud.NotFound) || cloud.Is(err, cloud.Invalid) {
				return nil
			}
			return err
		}
		for _, usage := range page.Value {
			if usage == nil || usage.Name == nil || usage.Limit == nil || !l.uses(value(usage.Name.Value)) {
				continue
			}
			if int64(value(usage.CurrentValue)) >= *usage.Limit {
				l.refuse(string(cloud.QuotaExceeded), "delete unused resources, or ask Azure for a larger quota",
					"the quota %s of region %s is used up (%d of %d)",
					value(usage.Name.Value), location, value(usage.CurrentValue), *usage.Limit)
			}
		}
	}
	return nil
}

// uses reports whether the capture uses a quota. Unverified: Azure lists gallery limits in the usages of Compute.
// Otherwise the limits are not checked.
func (l *preflight) uses(quota string) bool {
	switch strings.ToLower(quota) {
	case "standardsnapshotcount", "galleryimageversions":
		return true
	case "galleryimages":
		return l.newDefinition
	default:
		return false
	}
}
