package azure

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/process"
)

// noZoneRedundancyTexts are Azure's messages for a region without zone-redundant image storage. After such a message, and no
// other, the version gets locally redundant storage.
var noZoneRedundancyTexts = []string{
	"detail:zrs is not supported",
	"zrs storage account type is not supported in this region",
}

func lacksZoneRedundancy(message string) bool {
	message = strings.ToLower(oneLine(message))
	return slices.ContainsFunc(noZoneRedundancyTexts, func(t string) bool { return strings.Contains(message, t) })
}

// versionRef names a version of a pool's definition.
type versionRef struct {
	scaleSet
	version string
}

func (r versionRef) id() string { return r.versionID(r.version) }

func (r versionRef) String() string {
	return "image version " + r.version + " of " + r.scaleSet.String()
}

func versionOfRef(ref cloud.FamilyVersion) (versionRef, error) {
	s, err := parseFamily(ref.Family)
	if err != nil {
		return versionRef{}, err
	}
	return versionRef{s, ref.Version}, checkVersion(ref.Version)
}

func versionOfPool(pool cloud.PoolID, version string) (versionRef, error) {
	s, err := parsePool(pool)
	if err != nil {
		return versionRef{}, err
	}
	return versionRef{s, version}, checkVersion(version)
}

// Image implements cloud.ImageProvider. A version that failed only for missing zone-redundant storage is Absent, and
// EnsureImage replaces the version.
func (p *ImageProvider) Image(ctx context.Context, ref cloud.FamilyVersion) (cloud.Image, error) {
	r, err := versionOfRef(ref)
	if err != nil {
		return cloud.Image{}, err
	}
	found, err := p.version(ctx, r)
	if err != nil {
		return cloud.Image{}, err
	}
	if found.replace {
		return absentImage(ref.Version), nil
	}
	return found.image, nil
}

func absentImage(version string) cloud.Image { return cloud.Image{Version: version} }

// foundVersion is the result of a read of a version.
type foundVersion struct {
	image cloud.Image
	// replace is true if the version failed, or is being deleted, because the region lacks zone-redundant storage.
	replace bool
}

func (p *ImageProvider) version(ctx context.Context, r versionRef) (foundVersion, error) {
	clients, err := p.in(r.scaleSet)
	if err != nil {
		return foundVersion{}, err
	}
	if parents, err := p.pollPrerequisites(ctx, r.scaleSet); err != nil || !parents.ready {
		return foundVersion{image: absentImage(r.version)}, err
	}
	if p.contains(p.empty, r.galleryID()) || p.contains(p.empty, r.definitionID()) {
		return foundVersion{image: absentImage(r.version)}, nil
	}
	got, err := clients.versions.Get(ctx, r.group, r.gallery(), r.definition(), r.version,
		&armcompute.GalleryImageVersionsClientGetOptions{Expand: to.Ptr(armcompute.ReplicationStatusTypesReplicationStatus)})
	if isNotFound(err) {
		return foundVersion{image: absentImage(r.version)}, nil
	}
	if err != nil {
		return foundVersion{}, fail("read", r, err)
	}
	out := foundVersion{image: imageOf(r.scaleSet, got.GalleryImageVersion)}
	out.image.Version = r.version
	zonal, region := isZonal(got.GalleryImageVersion), regionKey(r.scaleSet, value(got.Location))
	switch out.image.State {
	case cloud.Failed:
		out.image.Error = p.whyFailed(ctx, r, out.image.Error)
		if zonal && lacksZoneRedundancy(out.image.Error) {
			p.add(p.noZoneRedundancy, region)
		}
		out.replace = zonal && p.contains(p.noZoneRedundancy, region)
	case cloud.Deleting:
		out.replace = zonal && p.contains(p.noZoneRedundancy, region)
	case cloud.Absent, cloud.Pending, cloud.Complete:
	}
	return out, nil
}

// whyFailed returns the reason of a failed version, from the operation and from the regions' states.
func (p *ImageProvider) whyFailed(ctx context.Context, r versionRef, message string) string {
	reported := p.reason(ctx, r.id())
	switch {
	case reported == "" && message == "":
		return "Azure gave no reason: see the activity log of the image version"
	case reported == "":
		return message
	case strings.Contains(reported, message):
		return reported
	}
	return reported + " " + message
}

func regionKey(s scaleSet, location string) string { return s.subscription + "/" + location }

func isZonal(version armcompute.GalleryImageVersion) bool {
	if version.Properties == nil || version.Properties.PublishingProfile == nil {
		return false
	}
	profile := version.Properties.PublishingProfile
	if value(profile.StorageAccountType) == armcompute.StorageAccountTypeStandardZRS {
		return true
	}
	return slices.ContainsFunc(profile.TargetRegions, func(region *armcompute.TargetRegion) bool {
		return region != nil && value(region.StorageAccountType) == armcompute.StorageAccountTypeStandardZRS
	})
}

// imageOf converts a gallery image version.
func imageOf(s scaleSet, version armcompute.GalleryImageVersion) cloud.Image {
	name := value(version.Name)
	out := cloud.Image{
		Version: name,
		ID:      s.versionID(name), // Azure varies the case
		State:   cloud.Pending,
		Tags:    tagsOf(version.Tags),
	}
	properties := version.Properties
	if properties == nil {
		return out
	}
	if profile := properties.PublishingProfile; profile != nil && profile.PublishedDate != nil {
		out.CreatedAt = *profile.PublishedDate
	}
	if storage := properties.StorageProfile; storage != nil && storage.OSDiskImage != nil {
		out.SizeGB = value(storage.OSDiskImage.SizeInGB)
	}
	var details string
	out.Percent, details = progressOf(properties.ReplicationStatus)
	region := replicationIn(value(version.Location), properties.ReplicationStatus)
	switch value(properties.ProvisioningState) {
	case armcompute.GalleryProvisioningStateSucceeded, armcompute.GalleryProvisioningStateUpdating:
		// Azure may report a version as made before the region has the version. An update may be of tags, or a replication
		// to more regions.
		updating := value(properties.ProvisioningState) == armcompute.GalleryProvisioningStateUpdating
		switch {
		case region == armcompute.ReplicationStateFailed:
			out.State, out.Error = cloud.Failed, details
		case region == armcompute.ReplicationStateCompleted, region == armcompute.ReplicationStateUnknown && !updating:
			out.State = cloud.Complete
		}
	case armcompute.GalleryProvisioningStateFailed:
		out.State, out.Error = cloud.Failed, details
	case armcompute.GalleryProvisioningStateDeleting:
		out.State = cloud.Deleting
	case armcompute.GalleryProvisioningStateCreating, armcompute.GalleryProvisioningStateMigrating:
	}
	if out.State == cloud.Complete {
		out.Percent = 100
	}
	return out
}

// replicationIn returns the state of the replication to a region. If Azure does not name the region, the state of all regions
// counts. Lists of versions have no states: the result is then Unknown.
func replicationIn(location string, status *armcompute.ReplicationStatus) armcompute.ReplicationState {
	if status == nil {
		return armcompute.ReplicationStateUnknown
	}
	for _, region := range status.Summary {
		if region != nil && value(region.State) != "" && locationKey(value(region.Region)) == locationKey(location) {
			return value(region.State)
		}
	}
	switch value(status.AggregatedState) {
	case armcompute.AggregatedReplicationStateCompleted:
		return armcompute.ReplicationStateCompleted
	case armcompute.AggregatedReplicationStateFailed:
		return armcompute.ReplicationStateFailed
	case armcompute.AggregatedReplicationStateInProgress:
		return armcompute.ReplicationStateReplicating
	case armcompute.AggregatedReplicationStateUnknown:
	}
	return armcompute.ReplicationStateUnknown
}

// locationKey makes "West US 2" and "westus2" equal. Azure shows both forms.
func locationKey(location string) string {
	return strings.ToLower(strings.ReplaceAll(location, " ", ""))
}

// progressOf returns the progress of the slowest region, and the messages of all regions.
func progressOf(status *armcompute.ReplicationStatus) (percent int32, details string) {
	if status == nil {
		return 0, ""
	}
	percent = 100
	var messages []string
	for _, region := range status.Summary {
		if region == nil {
			continue
		}
		percent = min(percent, value(region.Progress))
		if text := oneLine(value(region.Details)); text != "" {
			messages = append(messages, text)
		}
	}
	if len(status.Summary) == 0 {
		percent = 0
	}
	return percent, strings.Join(messages, "; ")
}

// Images implements cloud.ImageProvider.
func (p *ImageProvider) Images(ctx context.Context, family cloud.ImageFamily) ([]cloud.Image, error) {
	s, err := parseFamily(family)
	if err != nil {
		return nil, err
	}
	versions, err := p.versions(ctx, s)
	if err != nil {
		return nil, err
	}
	var out []cloud.Image
	for _, version := range versions {
		out = append(out, imageOf(s, *version))
	}
	return out, nil
}

// versions lists the versions of the pool's definition, oldest first; none without a definition.
func (p *ImageProvider) versions(ctx context.Context, s scaleSet) ([]*armcompute.GalleryImageVersion, error) {
	clients, err := p.in(s)
	if err != nil {
		return nil, err
	}
	var out []*armcompute.GalleryImageVersion
	pager := clients.versions.NewListByGalleryImagePager(s.group, s.gallery(), s.definition(), nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if isNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fail("list image versions of", s, err)
		}
		out = append(out, page.Value...)
	}
	out = slices.DeleteFunc(out, func(v *armcompute.GalleryImageVersion) bool { return v == nil })
	slices.SortFunc(out, func(a, b *armcompute.GalleryImageVersion) int {
		return imageversion.Compare(value(a.Name), value(b.Name))
	})
	return out, nil
}

// Azure refuses a tag update during another tag update for a moment.
const (
	maxTagWrites = 3
	tagPause     = 400 * time.Millisecond
)

// TagImage implements cloud.ImageProvider. TagImage sends all tags, because Azure's documentation does not say whether a
// patch merges tags. A removed tag is null.
func (p *ImageProvider) TagImage(ctx context.Context, ref cloud.FamilyVersion, tags map[string]string) error {
	r, err := versionOfRef(ref)
	if err != nil {
		return err
	}
	found, err := p.version(ctx, r)
	if err != nil {
		return err
	}
	if found.replace || found.image.State == cloud.Absent || found.image.State == cloud.Deleting {
		return &cloud.Error{Kind: cloud.NotFound, Op: "tag", Resource: r.String(), Message: "the image version does not exist"}
	}
	sent, changes := mergeTags(found.image.Tags, tags)
	if !changes {
		return nil
	}
	clients, err := p.in(r.scaleSet)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		poller, err := clients.versions.BeginUpdate(ctx, r.group, r.gallery(), r.definition(), r.version,
			armcompute.GalleryImageVersionUpdate{Tags: sent}, nil)
		if err == nil {
			rememberOperation(p.account, r.id(), poller)
			return nil
		}
		if try == maxTagWrites || !isStatus(err, http.StatusConflict) {
			return fail("tag", r, err)
		}
		if err := process.Wait(ctx, tagPause); err != nil {
			return fail("tag", r, err)
		}
	}
}

// AllowLaunches implements cloud.ImageProvider. Azure launches every version that is named: an end of life is for people, and a lock
// prevents writes and deletions only. No version of Kamino is the latest.
func (p *ImageProvider) AllowLaunches(context.Context, cloud.FamilyVersion, bool) error { return nil }

func mergeTags(have, change map[string]string) (sent map[string]*string, changes bool) {
	sent = toTags(have)
	for name, text := range change {
		if have[name] == text {
			continue
		}
		changes = true
		if text == "" {
			sent[name] = nil // null in JSON
			continue
		}
		sent[name] = to.Ptr(text)
	}
	return sent, changes
}

// DeleteImage implements cloud.ImageProvider.
func (p *ImageProvider) DeleteImage(ctx context.Context, ref cloud.FamilyVersion) error {
	r, err := versionOfRef(ref)
	if err != nil {
		return err
	}
	return p.deleteVersion(ctx, r)
}

func (p *ImageProvider) deleteVersion(ctx context.Context, r versionRef) error {
	clients, err := p.in(r.scaleSet)
	if err != nil {
		return err
	}
	poller, err := clients.versions.BeginDelete(ctx, r.group, r.gallery(), r.definition(), r.version, nil)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return fail("delete", r, err)
	}
	rememberOperation(p.account, r.id(), poller)
	return nil
}
