package azure

import (
	"context"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imageversion"
)

// PreflightRecipe implements cloud.PoolProvider, in two requests, and two more for a donor that does not return.
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
	refusal, err := p.refusePermissions(ctx, s, recipeActions)
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		found = append(found, *refusal)
	}
	leaving, err := p.refuseLeaving(ctx, s, model, spec)
	return append(found, leaving...), err
}

// preflight is one look ahead: what it needs at hand, and what it found.
type preflight struct {
	provider *ImageProvider
	clients  *clients
	instance instance
	version  versionRef
	mold     cloud.ImageRequirements
	vm       armcompute.VirtualMachineScaleSetVM
	// newDefinition: the line has no image definition yet.
	newDefinition bool
	found         []cloud.Refusal
}

// PreflightDisk implements cloud.ImageProvider. It takes seven or eight requests. What it may not look at, such as
// quotas, it leaves out: the credential must only be allowed what a capture itself needs.
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
	look := &preflight{provider: p, clients: clients, instance: ref, version: version, mold: spec.ImageRequirements}
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

// donor adds what is true of the instance alone.
func (l *preflight) donor(ctx context.Context) error {
	var err error
	if l.vm, err = l.provider.vm(ctx, l.instance); err != nil {
		return err
	}
	l.found = append(l.found, refusalsOfVM(l.instance, l.vm)...)
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
	refusal, err := l.provider.refusePermissions(ctx, l.version.scaleSet, l.provider.actionsOn(l.instance))
	if refusal != nil {
		l.found = append(l.found, *refusal)
	}
	return err
}

// encryption asks where the pool's disk encryption set lies.
func (l *preflight) encryption(ctx context.Context) error {
	id := l.mold.Traits[TraitEncryptionSet]
	if _, outside := outsideSubscription(id, l.version.scaleSet); id == "" || outside { // the pool is refused for that
		return nil
	}
	rid, err := arm.ParseResourceID(id)
	if err != nil {
		return nil //nolint:nilerr // Not ours to judge; Azure will when the version is made.
	}
	set, err := l.clients.encryption.Get(ctx, rid.ResourceGroupName, rid.Name, nil)
	if err != nil {
		err = fail("look at", text("disk encryption set "+rid.Name), err)
		if cloud.Is(err, cloud.Denied) || cloud.Is(err, cloud.NotFound) {
			return nil
		}
		return err
	}
	if !sameRegion(value(set.Location), l.mold.Location) {
		l.refuse("DiskEncryptionSetElsewhere", "use a disk encryption set of the pool's region",
			"the disk encryption set of %s is in region %s; an image version can only be encrypted with one of its own subscription and region, which is %s",
			l.version.scaleSet, value(set.Location), l.mold.Location)
	}
	return nil
}

// gallery looks at gallery, definition and version, as far as they exist.
func (l *preflight) gallery(ctx context.Context) error {
	s := l.version.scaleSet
	disk, known, err := l.diskTraits(ctx)
	if err != nil {
		return err
	}
	wanted := wantedTraits(disk, l.mold.Traits)
	if known && wanted.trustedLaunch && disk.orDefaults().generation == armcompute.HyperVGenerationV1 {
		l.refuse("GenerationMismatch", "capture a newer node", "%s is a generation 1 VM, and %s makes Trusted Launch VMs, which must be generation 2", l.instance, s)
	}
	definition, err := l.clients.definitions.Get(ctx, s.group, s.gallery(), s.definition(), nil)
	if isNotFound(err) {
		l.newDefinition = true
		return l.galleryName(ctx)
	}
	if err != nil {
		return fail("look at", text("image definition "+s.definition()), err)
	}
	switch refusal := definitionMismatch(s, definition.GalleryImage, wanted); {
	case known && refusal != nil:
		l.found = append(l.found, *refusal)
	case known && definitionState(definition.GalleryImage) == armcompute.GalleryProvisioningStateSucceeded:
		l.provider.learn(l.provider.defined, s.galleryID())
		l.provider.learn(l.provider.defined, s.definitionID())
	}
	version, err := l.provider.version(ctx, l.version)
	if err != nil {
		return err
	}
	if version.image.State != cloud.Absent && !version.replace {
		l.refuse("VersionExists", fmt.Sprintf("name another one of that day, such as %s, or delete it", imageversion.Try(l.version.version, 2)),
			"%s exists already (%s)", l.version, strings.ToLower(string(version.image.State)))
	}
	return nil
}

// diskTraits reads the donor's OS disk, which alone tells the architecture. Known is false for a donor that
// is refused for its disk, or whose disk may not be looked at: both are told already.
func (l *preflight) diskTraits(ctx context.Context) (traits diskTraits, known bool, err error) {
	group, name, ok := groupAndName(osDisk(l.vm), "disks")
	if !ok || l.has("EphemeralOSDisk") {
		return diskTraits{}, false, nil
	}
	disk, err := l.clients.disks.Get(ctx, group, name, nil)
	if err != nil {
		err = fail("look at", text("OS disk "+name), err)
		if cloud.Is(err, cloud.Denied) && l.has("PermissionMissing") {
			return diskTraits{}, false, nil
		}
		return diskTraits{}, false, err
	}
	if properties := disk.Properties; properties != nil {
		if encrypted := properties.EncryptionSettingsCollection; encrypted != nil && value(encrypted.Enabled) {
			l.refuse("DiskEncryptedInGuest", "use a pool with encryption at host or a disk encryption set",
				"OS disk %s of %s is encrypted within the VM (Azure Disk Encryption), and its keys are bound to that VM", name, l.instance)
		}
		traits.generation = value(properties.HyperVGeneration)
		if properties.SupportedCapabilities != nil {
			traits.architecture = value(properties.SupportedCapabilities.Architecture)
		}
	}
	return traits.orDefaults(), true, nil
}

// galleryName asks whether the gallery that will be made has its name to itself: a name is unique in a
// subscription, whatever the resource group.
func (l *preflight) galleryName(ctx context.Context) error {
	s := l.version.scaleSet
	if l.provider.known(l.provider.defined, s.galleryID()) {
		return nil
	}
	pager := l.clients.galleries.NewListPager(nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			err = fail("list galleries of", text("subscription "+s.subscription), err)
			if cloud.Is(err, cloud.Denied) {
				return nil // Seldom granted for a whole subscription.
			}
			return err
		}
		for _, gallery := range page.Value {
			if gallery == nil || !strings.EqualFold(value(gallery.Name), s.gallery()) {
				continue
			}
			group, _, ok := groupAndName(value(gallery.ID), "galleries")
			if ok && !strings.EqualFold(group, s.group) {
				l.refuse("GalleryNameTaken", "rename or delete the other one",
					"gallery name %s is taken in resource group %s; the pool's images need a gallery of that name in resource group %s, and a name is unique in a subscription",
					s.gallery(), group, s.group)
			}
		}
	}
	return nil
}

// quota looks whether one more of what a capture makes fits into the quotas of the subscription.
func (l *preflight) quota(ctx context.Context) error {
	location := l.mold.Location
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
				l.refuse("QuotaUsedUp", "delete what is not needed, or ask Azure for more", "the quota %s of region %s is used up (%d of %d)",
					value(usage.Name.Value), location, value(usage.CurrentValue), *usage.Limit)
			}
		}
	}
	return nil
}

// uses tells whether this capture would take one of a quota. That Azure lists the limits of galleries among
// the usages of Compute is unverified; where it does not, they are not looked at.
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
