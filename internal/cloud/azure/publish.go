package azure

import (
	"context"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// EnsureImage implements cloud.ImageProvider. EnsureImage returns Pending from the first step. Image returns Absent while
// Azure makes gallery or definition, or deletes a failed version; the caller repeats EnsureImage.
func (p *ImageProvider) EnsureImage(ctx context.Context, spec cloud.VersionSpec) (cloud.Image, error) {
	r, err := versionOfRef(spec.FamilyVersion)
	if err != nil {
		return cloud.Image{}, err
	}
	parents, err := p.pollPrerequisites(ctx, r.scaleSet)
	if err == nil {
		err = reportFailure(p, parents, spec.SnapshotID)
	}
	if err != nil {
		return cloud.Image{}, err
	}
	if !parents.ready {
		return pendingImage(r, spec), nil
	}
	found, err := p.version(ctx, r)
	if err != nil {
		return cloud.Image{}, err
	}
	switch {
	case found.replace && found.image.State == cloud.Failed:
		// The storage type is immutable, and the failed version keeps the name: delete the failed version first.
		if err := p.deleteVersion(ctx, r); err != nil {
			return cloud.Image{}, err
		}
		return pendingImage(r, spec), nil
	case found.replace:
		return pendingImage(r, spec), nil
	case found.image.State != cloud.Absent:
		return found.image, nil
	}
	if err := p.refuseUnproven(ctx, r, spec); err != nil {
		return cloud.Image{}, err
	}
	ready, err := p.ensureDefinition(ctx, r.scaleSet, spec.ImageRequirements, spec.SnapshotID)
	if err != nil {
		return cloud.Image{}, err
	}
	if !ready {
		return pendingImage(r, spec), nil
	}
	return p.makeVersion(ctx, r, spec)
}

// refuseUnproven refuses a snapshot of another disk than the proven one. Tags can be written onto any snapshot; the disk that it was made
// from never changes.
func (p *ImageProvider) refuseUnproven(ctx context.Context, r versionRef, spec cloud.VersionSpec) error {
	if spec.Proven == "" {
		return nil
	}
	clients, err := p.in(r.scaleSet)
	if err != nil {
		return err
	}
	got, err := snapshotAt(ctx, clients, r.scaleSet, spec.SnapshotID)
	if err != nil {
		return err
	}
	of := ""
	if got.Properties != nil && got.Properties.CreationData != nil {
		of = value(got.Properties.CreationData.SourceResourceID)
	}
	if !strings.EqualFold(of, spec.Proven) {
		return &cloud.Error{Kind: cloud.Invalid, Op: "make", Resource: r.String(), Message: fmt.Sprintf(
			"snapshot %s is of disk %s, and the proof is of %s: find the client that writes Kamino's tags", value(got.Name), of, spec.Proven)}
	}
	return nil
}

func (p *ImageProvider) makeVersion(ctx context.Context, r versionRef, spec cloud.VersionSpec) (cloud.Image, error) {
	region := regionKey(r.scaleSet, spec.Location)
	storage := armcompute.StorageAccountTypeStandardZRS
	if p.contains(p.noZoneRedundancy, region) {
		storage = armcompute.StorageAccountTypeStandardLRS
	}
	err := p.putVersion(ctx, r, newVersion(spec, storage))
	if err != nil && storage == armcompute.StorageAccountTypeStandardZRS && lacksZoneRedundancy(err.Error()) {
		p.add(p.noZoneRedundancy, region)
		err = p.putVersion(ctx, r, newVersion(spec, armcompute.StorageAccountTypeStandardLRS))
	}
	if cloud.Is(err, cloud.NotFound) {
		// Definition or snapshot is gone, so the remembered facts are wrong.
		p.forget(r.definitionID())
		p.forget(r.galleryID())
	}
	if err != nil {
		return cloud.Image{}, err
	}
	return pendingImage(r, spec), nil
}

func pendingImage(r versionRef, spec cloud.VersionSpec) cloud.Image {
	return cloud.Image{
		Version: r.version, ID: r.id(), State: cloud.Pending, Tags: tagsOf(toTags(spec.Tags)),
	}
}

func (p *ImageProvider) putVersion(ctx context.Context, r versionRef, version armcompute.GalleryImageVersion) error {
	clients, err := p.in(r.scaleSet)
	if err != nil {
		return err
	}
	p.markFilled(r.galleryID(), r.definitionID())
	poller, err := clients.versions.BeginCreateOrUpdate(ctx, r.group, r.gallery(), r.definition(), r.version, version, nil)
	if err != nil {
		return fail("make", r, err)
	}
	rememberOperation(p.account, r.id(), poller)
	return nil
}

// Replicas of a version in the pool's region. Azure advises a replica per 50 VMs that start together, and allows 100.
// vmss-prototype made 3.
const (
	vmsPerReplica = 50
	minReplicas   = 3
	maxReplicas   = 100
)

// replicasFor returns the replicas for the pool's largest size: the autoscaler's tag, else the current size.
func replicasFor(nodes int64) int32 {
	return int32(min(max((nodes+vmsPerReplica-1)/vmsPerReplica, minReplicas), maxReplicas))
}

// newVersion returns the request for a version in the pool's region only. "latest" excludes the version.
func newVersion(spec cloud.VersionSpec, storage armcompute.StorageAccountType) armcompute.GalleryImageVersion {
	replicas := spec.Replicas
	if replicas <= 0 {
		replicas = replicasFor(spec.Nodes)
	}
	region := &armcompute.TargetRegion{
		Name: to.Ptr(spec.Location), RegionalReplicaCount: to.Ptr(replicas), StorageAccountType: to.Ptr(storage), ExcludeFromLatest: to.Ptr(true),
	}
	if set := spec.Traits[TraitEncryptionSet]; set != "" {
		region.Encryption = &armcompute.EncryptionImages{OSDiskImage: &armcompute.OSDiskImageEncryption{DiskEncryptionSetID: to.Ptr(set)}}
	}
	return armcompute.GalleryImageVersion{
		Location: to.Ptr(spec.Location),
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
