package azure

import (
	"context"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// ImageID implements cloud.Disks.
func (p *Disks) ImageID(ref cloud.LineRef) string {
	s, err := parseLine(ref.Line)
	if err != nil {
		return ""
	}
	return s.versionID(ref.Version)
}

// VersionOf implements cloud.Disks.
func (p *Disks) VersionOf(line cloud.Line, image string) (version string, latest bool) {
	s, err := parseLine(line)
	if err != nil {
		return "", false
	}
	version, latest, _ = s.versionOf(image)
	return version, latest
}

// Latest implements cloud.Disks: the versions must be listed.
func (p *Disks) Latest(ctx context.Context, line cloud.Line, location string) (string, error) {
	s, err := parseLine(line)
	if err != nil {
		return "", err
	}
	versions, err := p.versions(ctx, s)
	return latestOf(versions, location), err
}

// latestOf is what "latest" means in a region: the highest version that is complete and not excluded.
func latestOf(versions []*armcompute.GalleryImageVersion, location string) string {
	for _, version := range slices.Backward(versions) {
		properties := version.Properties
		if properties == nil || value(properties.ProvisioningState) != armcompute.GalleryProvisioningStateSucceeded {
			continue
		}
		profile := properties.PublishingProfile
		if profile != nil && (value(profile.ExcludeFromLatest) || !offeredIn(profile.TargetRegions, location)) {
			continue
		}
		return value(version.Name)
	}
	return ""
}

func offeredIn(regions []*armcompute.TargetRegion, location string) bool {
	if len(regions) == 0 {
		return true
	}
	return slices.ContainsFunc(regions, func(region *armcompute.TargetRegion) bool {
		return region != nil && sameRegion(value(region.Name), location) && !value(region.ExcludeFromLatest)
	})
}
