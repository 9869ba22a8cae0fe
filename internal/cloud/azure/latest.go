package azure

import (
	"context"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// ImageID implements cloud.ImageProvider.
func (p *ImageProvider) ImageID(ref cloud.FamilyVersion) string {
	s, err := parseFamily(ref.Family)
	if err != nil {
		return ""
	}
	return s.versionID(ref.Version)
}

// VersionOf implements cloud.ImageProvider.
func (p *ImageProvider) VersionOf(family cloud.ImageFamily, image string) (version string, latest bool) {
	s, err := parseFamily(family)
	if err != nil {
		return "", false
	}
	version, latest, _ = s.versionOf(image)
	return version, latest
}

// Latest implements cloud.ImageProvider and lists all versions.
func (p *ImageProvider) Latest(ctx context.Context, family cloud.ImageFamily, location string) (string, error) {
	s, err := parseFamily(family)
	if err != nil {
		return "", err
	}
	versions, err := p.versions(ctx, s)
	return latestOf(versions, location), err
}

// latestOf returns the version of "latest" in a region: the highest version that is complete and not excluded.
func latestOf(versions []*armcompute.GalleryImageVersion, location string) string {
	for _, version := range slices.Backward(versions) {
		properties := version.Properties
		if properties == nil || value(properties.ProvisioningState) != armcompute.GalleryProvisioningStateSucceeded {
			continue
		}
		profile := properties.PublishingProfile
		if profile != nil && (value(profile.ExcludeFromLatest) || !isInRegion(profile.TargetRegions, location)) {
			continue
		}
		return value(version.Name)
	}
	return ""
}

func isInRegion(regions []*armcompute.TargetRegion, location string) bool {
	if len(regions) == 0 {
		return true
	}
	return slices.ContainsFunc(regions, func(region *armcompute.TargetRegion) bool {
		return region != nil && sameRegion(value(region.Name), location) && !value(region.ExcludeFromLatest)
	})
}
