package azure

import (
	"context"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// EnsureImage implements cloud.Disks. It says Pending from the first step on; a look says Absent for as long
// as gallery or definition are being made or a failed version is on its way out, and the caller comes again.
func (p *Provider) EnsureImage(ctx context.Context, spec cloud.ImageSpec) (cloud.Image, error) {
	r, err := versionOfRef(spec.ImageRef)
	if err != nil {
		return cloud.Image{}, err
	}
	house, err := p.housed(ctx, r.scaleSet)
	if err == nil {
		err = p.giveUp(house, spec.SnapshotID)
	}
	if err != nil {
		return cloud.Image{}, err
	}
	if !house.ready {
		return pendingImage(r, spec), nil
	}
	found, err := p.version(ctx, r)
	if err != nil {
		return cloud.Image{}, err
	}
	switch {
	case found.replace && found.image.State == cloud.Failed:
		// The type of storage cannot be changed, and the failed version keeps its name: it goes first.
		if err := p.deleteVersion(ctx, r); err != nil {
			return cloud.Image{}, err
		}
		return pendingImage(r, spec), nil
	case found.replace:
		return pendingImage(r, spec), nil
	case found.image.State != cloud.Absent:
		return found.image, nil
	}
	model := sync.OnceValues(func() (armcompute.VirtualMachineScaleSet, error) { return p.publishedFor(ctx, r) })
	ready, err := p.ensureDefinition(ctx, r.scaleSet, model, spec.SnapshotID)
	if err != nil {
		return cloud.Image{}, err
	}
	if !ready {
		return pendingImage(r, spec), nil
	}
	pool, err := model()
	if err != nil {
		return cloud.Image{}, err
	}
	return p.makeVersion(ctx, r, spec, pool)
}

// publishedFor reads the pool's model once for a gallery, a definition and a version that are made one after
// the other: region and kind of a pool cannot change, and its size only bears on the number of replicas.
func (p *Provider) publishedFor(ctx context.Context, r versionRef) (armcompute.VirtualMachineScaleSet, error) {
	if known, found := p.publishing.Load(r.id()); found {
		return known.(armcompute.VirtualMachineScaleSet), nil // only this function stores
	}
	model, err := p.model(ctx, r.scaleSet)
	if err == nil {
		p.publishing.Store(r.id(), model)
	}
	return model, err
}

func (p *Provider) makeVersion(ctx context.Context, r versionRef, spec cloud.ImageSpec, model armcompute.VirtualMachineScaleSet) (cloud.Image, error) {
	defer p.publishing.Delete(r.id()) // made or refused: whoever tries again reads anew
	region := regionKey(r.scaleSet, value(model.Location))
	storage := armcompute.StorageAccountTypeStandardZRS
	if p.known(p.zoneless, region) {
		storage = armcompute.StorageAccountTypeStandardLRS
	}
	err := p.putVersion(ctx, r, newVersion(spec, model, storage))
	if err != nil && storage == armcompute.StorageAccountTypeStandardZRS && saysZoneless(err.Error()) {
		p.learn(p.zoneless, region)
		err = p.putVersion(ctx, r, newVersion(spec, model, armcompute.StorageAccountTypeStandardLRS))
	}
	if cloud.Is(err, cloud.NotFound) {
		// The definition, which was there before, or the snapshot is gone: nothing that is remembered holds.
		p.forget(r.definitionID())
		p.forget(r.galleryID())
	}
	if err != nil {
		return cloud.Image{}, err
	}
	return pendingImage(r, spec), nil
}

func pendingImage(r versionRef, spec cloud.ImageSpec) cloud.Image {
	return cloud.Image{
		ImageRef: spec.ImageRef, Version: r.version, ID: r.id(), State: cloud.Pending, Tags: tagsOf(toTags(spec.Tags)),
	}
}

func (p *Provider) putVersion(ctx context.Context, r versionRef, version armcompute.GalleryImageVersion) error {
	clients, err := p.in(r.scaleSet)
	if err != nil {
		return err
	}
	p.fill(r.galleryID(), r.definitionID())
	poller, err := clients.versions.BeginCreateOrUpdate(ctx, r.group, r.gallery(), r.definition(), r.version, version, nil)
	if err != nil {
		return fail("make", r, err)
	}
	remember(p, r.id(), poller)
	return nil
}

// Replicas of a version in the pool's region. Azure's advice is one for every 50 VMs that are created at
// once, and its limit 100; the Python original made three.
const (
	vmsPerReplica = 50
	minReplicas   = 3
	maxReplicas   = 100
)

// replicasFor reckons with the pool at its largest size, as the autoscaler's tag has it, else with its size
// now.
func replicasFor(model armcompute.VirtualMachineScaleSet) int32 {
	size := max(maxSizeOf(model), capacityOf(model))
	return int32(min(max((size+vmsPerReplica-1)/vmsPerReplica, minReplicas), maxReplicas))
}

// newVersion asks for a version in the pool's own region only, that "latest" never means.
func newVersion(spec cloud.ImageSpec, model armcompute.VirtualMachineScaleSet, storage armcompute.StorageAccountType) armcompute.GalleryImageVersion {
	replicas := spec.Replicas
	if replicas <= 0 {
		replicas = replicasFor(model)
	}
	region := &armcompute.TargetRegion{
		Name: model.Location, RegionalReplicaCount: to.Ptr(replicas), StorageAccountType: to.Ptr(storage), ExcludeFromLatest: to.Ptr(true),
	}
	if set := encryptionSetOf(model); set != "" {
		region.Encryption = &armcompute.EncryptionImages{OSDiskImage: &armcompute.OSDiskImageEncryption{DiskEncryptionSetID: to.Ptr(set)}}
	}
	return armcompute.GalleryImageVersion{
		Location: model.Location,
		Tags:     toTags(spec.Tags),
		Properties: &armcompute.GalleryImageVersionProperties{
			PublishingProfile: &armcompute.GalleryImageVersionPublishingProfile{
				ExcludeFromLatest:  to.Ptr(true),
				ReplicaCount:       to.Ptr(replicas),
				StorageAccountType: to.Ptr(storage),
				TargetRegions:      []*armcompute.TargetRegion{region},
			},
			StorageProfile: &armcompute.GalleryImageVersionStorageProfile{
				OSDiskImage: &armcompute.GalleryOSDiskImage{Source: &armcompute.GalleryDiskImageSource{ID: to.Ptr(spec.SnapshotID)}},
			},
		},
	}
}
