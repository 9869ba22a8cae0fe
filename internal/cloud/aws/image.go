package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// versionRef is a version of an image family, as text for errors.
type versionRef cloud.FamilyVersion

func (r versionRef) String() string { return "image " + imageName(cloud.FamilyVersion(r)) }

func (r versionRef) key() string {
	return r.Family.Place + "/image/" + imageName(cloud.FamilyVersion(r))
}

// Latest implements cloud.ImageProvider. AWS has no name for the latest image.
func (p *ImageProvider) Latest(context.Context, cloud.ImageFamily, string) (string, error) {
	return "", nil
}

// Image implements cloud.ImageProvider.
func (p *ImageProvider) Image(ctx context.Context, ref cloud.FamilyVersion) (cloud.Image, error) {
	im, err := p.image(ctx, ref)
	if err != nil {
		return cloud.Image{}, err
	}
	if im == nil {
		out := cloud.Image{Version: ref.Version}
		if made := p.recentlyCreated(versionRef(ref).key()); made.id != "" {
			out.ID, out.State, out.Tags = p.ImageID(ref), cloud.Pending, maps.Clone(made.tags)
		}
		return out, nil
	}
	return p.imageOf(ref, *im), nil
}

// image returns the version's image; nil without an image. A foreign image of the same name is a Conflict.
func (p *ImageProvider) image(ctx context.Context, ref cloud.FamilyVersion) (*types.Image, error) {
	all, err := p.images(ctx, ref.Family.Place, versionRef(ref), types.Filter{Name: sdk.String("name"), Values: []string{imageName(ref)}})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	// A failed image does not keep the name. A second image of the name is possible.
	slices.SortStableFunc(all, func(a, b types.Image) int { return cmp.Compare(rank(a), rank(b)) })
	if im := all[0]; tagOf(im.Tags, tagFamily) != shorten(ref.Family.Name, maxTagValue) {
		return nil, &cloud.Error{Kind: cloud.Conflict, Op: "read", Resource: versionRef(ref).String(),
			Message: fmt.Sprintf("%s has this name, but is not Kamino's image of the pool: copy the image to another name, then deregister the original",
				sdk.ToString(im.ImageId))}
	}
	rememberOwn(p.account, ref, all[0])
	for _, d := range all[0].BlockDeviceMappings {
		if d.Ebs != nil {
			cloud.ReadCacheOf(ctx).Put(backsKey(ref.Family.Place, sdk.ToString(d.Ebs.SnapshotId)), true)
		}
	}
	return &all[0], nil
}

func rank(im types.Image) int {
	if imageState(im) == cloud.Failed {
		return 1
	}
	return 0
}

// images lists own images of a region, also disabled ones. Deregistered images, which EC2 shows for some time, are left out.
func (a *account) images(ctx context.Context, region string, of fmt.Stringer, filter types.Filter) ([]types.Image, error) {
	pages := ec2.NewDescribeImagesPaginator(a.ec2(region),
		&ec2.DescribeImagesInput{Owners: []string{"self"}, Filters: []types.Filter{filter}, MaxResults: sdk.Int32(maxPage), IncludeDisabled: sdk.Bool(true)})
	var all []types.Image
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fail("read", of, err)
		}
		for _, im := range page.Images {
			if im.State != types.ImageStateDeregistered && !a.recentlyDeleted(region, sdk.ToString(im.ImageId)) {
				all = append(all, im)
			}
		}
	}
	return all, nil
}

// imageOf converts an image of AWS.
func (p *ImageProvider) imageOf(ref cloud.FamilyVersion, im types.Image) cloud.Image {
	out := cloud.Image{Version: ref.Version, ID: p.ImageID(ref), State: imageState(im), Tags: tagsOf(im.Tags)}
	if fault := billingFault(im); fault != "" && out.State == cloud.Complete {
		out.State, out.Error = cloud.Failed, fault
		return out
	}
	out.CreatedAt, _ = time.Parse("2006-01-02T15:04:05.000Z", sdk.ToString(im.CreationDate))
	out.SizeGB = rootSizeOf(im)
	switch out.State {
	case cloud.Complete:
		out.Percent, out.Launches = 100, cloud.LaunchesAllowed
		if im.State == types.ImageStateDisabled {
			out.Launches = cloud.LaunchesForbidden
		}
	case cloud.Failed:
		out.Error = "AWS gave no reason"
		if im.StateReason != nil {
			out.Error = oneLine(sdk.ToString(im.StateReason.Message))
		}
	case cloud.Absent, cloud.Pending, cloud.Deleting:
	}
	return out
}

// imageState returns an image's state. A disabled image is complete, but cannot be launched: Image.Launches.
func imageState(im types.Image) cloud.State {
	switch im.State {
	case types.ImageStateAvailable, types.ImageStateDisabled:
		return cloud.Complete
	case types.ImageStateFailed, types.ImageStateError, types.ImageStateInvalid:
		return cloud.Failed
	case types.ImageStateDeregistered:
		return cloud.Absent
	default:
		return cloud.Pending
	}
}

// Images implements cloud.ImageProvider.
func (p *ImageProvider) Images(ctx context.Context, family cloud.ImageFamily) ([]cloud.Image, error) {
	all, err := p.images(ctx, family.Place, text("the images of "+family.Place),
		types.Filter{Name: sdk.String("tag:" + tagFamily), Values: []string{shorten(family.Name, maxTagValue)}})
	if err != nil {
		return nil, err
	}
	var out []cloud.Image
	for _, im := range all {
		ref := cloud.FamilyVersion{Family: family, Version: tagOf(im.Tags, tagVersion)}
		if sdk.ToString(im.Name) == imageName(ref) { // otherwise the image is a copy with the same tags
			out = append(out, p.imageOf(ref, im))
		}
	}
	slices.SortFunc(out, func(a, b cloud.Image) int { return imageversion.Compare(a.Version, b.Version) })
	return out, nil
}

// EnsureImage implements cloud.ImageProvider. RegisterImage has no client token, so the unique name prevents duplicates.
func (p *ImageProvider) EnsureImage(ctx context.Context, spec cloud.VersionSpec) (cloud.Image, error) {
	found, err := p.Image(ctx, spec.FamilyVersion)
	if err != nil || found.State != cloud.Absent {
		return found, err
	}
	of := versionRef(spec.FamilyVersion)
	in, id, ok := parseSnapshot(spec.SnapshotID)
	if !ok || in != spec.Family.Place {
		return cloud.Image{}, &cloud.Error{Kind: cloud.Invalid, Op: "make", Resource: of.String(),
			Message: fmt.Sprintf("%q is not a snapshot in %s", spec.SnapshotID, spec.Family.Place)}
	}
	client := p.ec2(in)
	snapshot, err := p.snapshotByID(ctx, of, in, id)
	if err != nil {
		return cloud.Image{}, err
	}
	like, err := propertiesFor(spec, snapshot, id)
	if err != nil {
		return cloud.Image{}, err
	}
	uefi := ""
	if like.Donor != "" {
		donor := instance{region: in, id: like.Donor}
		if uefi, err = uefiData(ctx, p.account, donor); cloud.Is(err, cloud.NotFound) {
			return cloud.Image{}, lostUEFI(of, donor)
		} else if err != nil {
			return cloud.Image{}, err
		}
	}
	own := map[string]string{tagFamily: spec.Family.Name, tagVersion: spec.Version, tagName: imageName(spec.FamilyVersion)}
	if donor := tagOf(snapshot.Tags, tagBilling); donor != "" {
		own[tagBilling] = donor
	}
	if spec.InitializationRate > 0 {
		own[tagRate] = strconv.Itoa(int(spec.InitializationRate))
	}
	request := like.registration(spec.FamilyVersion, id, toTags(spec.Tags, own))
	if uefi != "" {
		request.UefiData = sdk.String(uefi)
	}
	made, err := client.RegisterImage(ctx, request)
	switch {
	case isCode(err, "InvalidAMIName.Duplicate"): // a concurrent call made the image, and EC2 does not show the image yet
		return cloud.Image{Version: spec.Version, ID: p.ImageID(spec.FamilyVersion), State: cloud.Pending}, nil
	case err != nil:
		return cloud.Image{}, fail("make", of, err)
	}
	p.recordCreated(of.key(), sdk.ToString(made.ImageId), spec.Tags)
	return cloud.Image{Version: spec.Version, ID: p.ImageID(spec.FamilyVersion), State: cloud.Pending, Tags: spec.Tags}, nil
}

// propertiesFor returns the properties of the image that a snapshot becomes, or refuses the snapshot. A missing snapshot is nil.
func propertiesFor(spec cloud.VersionSpec, s *types.Snapshot, id string) (imageProperties, error) {
	like, err := imageProperties{}, errors.New("the snapshot does not exist")
	if s != nil {
		like, err = parseProperties(tagOf(s.Tags, tagMachine))
	}
	if err != nil {
		return like, &cloud.Error{Kind: cloud.Invalid, Op: "make", Resource: versionRef(spec.FamilyVersion).String(),
			Message: fmt.Sprintf("tag %s of snapshot %s does not describe the disk's machine (%s): capture again", tagMachine, id, err)}
	}
	return like, refuseUnproven(spec, *s)
}

// refuseUnproven refuses a snapshot of another disk than the proven one. Tags can be written onto any snapshot; the volume that it was made
// from never changes.
func refuseUnproven(spec cloud.VersionSpec, s types.Snapshot) error {
	if of := sdk.ToString(s.VolumeId); spec.Proven != "" && of != spec.Proven {
		return &cloud.Error{Kind: cloud.Invalid, Op: "make", Resource: versionRef(spec.FamilyVersion).String(), Message: fmt.Sprintf(
			"snapshot %s is of volume %s, and the proof is of %s: find the client that writes Kamino's tags", sdk.ToString(s.SnapshotId), of, spec.Proven)}
	}
	return nil
}

// TagImage implements cloud.ImageProvider.
func (p *ImageProvider) TagImage(ctx context.Context, ref cloud.FamilyVersion, tags map[string]string) error {
	im, err := p.image(ctx, ref)
	if err != nil {
		return err
	}
	if im == nil {
		return &cloud.Error{Kind: cloud.NotFound, Op: "tag", Resource: versionRef(ref).String(), Message: "there is no such image"}
	}
	set, gone := map[string]string{}, []types.Tag(nil)
	for key, value := range tags {
		if value == "" {
			gone = append(gone, types.Tag{Key: sdk.String(key)})
		} else {
			set[key] = value
		}
	}
	client, on := p.ec2(ref.Family.Place), []string{sdk.ToString(im.ImageId)}
	if len(set) > 0 {
		if _, err := client.CreateTags(ctx, &ec2.CreateTagsInput{Resources: on, Tags: toTags(set, nil)}); err != nil {
			return fail("tag", versionRef(ref), err)
		}
	}
	if len(gone) > 0 {
		if _, err := client.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: on, Tags: gone}); err != nil {
			return fail("tag", versionRef(ref), err)
		}
	}
	return nil
}

// AllowLaunches implements cloud.ImageProvider. EC2 refuses every launch of a disabled image, and shows it only on request.
func (p *ImageProvider) AllowLaunches(ctx context.Context, ref cloud.FamilyVersion, allow bool) error {
	op := map[bool]string{true: "allow launches of", false: "forbid launches of"}[allow]
	im, err := p.image(ctx, ref)
	if err != nil {
		return err
	}
	client, of := p.ec2(ref.Family.Place), versionRef(ref)
	switch {
	case im == nil:
		return &cloud.Error{Kind: cloud.NotFound, Op: op, Resource: of.String(), Message: "there is no such image"}
	case allow && im.State == types.ImageStateDisabled:
		_, err = client.EnableImage(ctx, &ec2.EnableImageInput{ImageId: im.ImageId})
	case !allow && im.State == types.ImageStateAvailable:
		a := p.account
		a.mu.Lock()
		delete(a.available, imageText(ref))
		a.mu.Unlock()
		_, err = client.DisableImage(ctx, &ec2.DisableImageInput{ImageId: im.ImageId})
	}
	if err != nil {
		return fail(op, of, err)
	}
	return nil
}

// DeleteImage implements cloud.ImageProvider. A snapshot that was handed over to the image is deleted with the image. AWS
// keeps a snapshot that backs a second image. A snapshot of an active capture stays.
func (p *ImageProvider) DeleteImage(ctx context.Context, ref cloud.FamilyVersion) error {
	im, err := p.image(ctx, ref)
	if err != nil || im == nil {
		return err
	}
	of, client := versionRef(ref), p.ec2(ref.Family.Place)
	handed, err := p.handedOver(ctx, ref, *im)
	if err != nil {
		return err
	}
	_, err = client.DeregisterImage(ctx, &ec2.DeregisterImageInput{ImageId: im.ImageId, DeleteAssociatedSnapshots: sdk.Bool(handed)})
	if err != nil && !isNotFound(err) && !isCode(err, "InvalidAMIID.Unavailable") {
		return fail("delete", of, err)
	}
	p.recordDeleted(ref.Family.Place, sdk.ToString(im.ImageId))
	return nil
}

// handedOver reports whether the snapshots of an image belong to the image, and to no capture.
func (p *ImageProvider) handedOver(ctx context.Context, ref cloud.FamilyVersion, im types.Image) (bool, error) {
	var ids []string
	for _, d := range im.BlockDeviceMappings {
		if d.Ebs != nil && d.Ebs.SnapshotId != nil {
			ids = append(ids, *d.Ebs.SnapshotId)
		}
	}
	if len(ids) == 0 {
		return false, nil
	}
	out, err := p.ec2(ref.Family.Place).DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{SnapshotIds: ids})
	if isNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fail("read the snapshots of", versionRef(ref), err)
	}
	return !slices.ContainsFunc(out.Snapshots, func(s types.Snapshot) bool { return tagOf(s.Tags, tagBacks) == "" }), nil
}

// imageTextOf returns Kamino's text for an image ID of AWS: region and name for an image of Kamino, else the ID. The text of
// a deleted image is the ID.
func (a *account) imageTextOf(ctx context.Context, in, id string) (string, error) {
	a.mu.Lock()
	known, found := a.imageTexts[in+"/"+id]
	a.mu.Unlock()
	if found || !strings.HasPrefix(id, "ami-") {
		return cmp.Or(known, id), nil
	}
	im, err := a.imageByID(ctx, in, id)
	if err != nil || im == nil {
		return id, err
	}
	text := textOf(in, *im)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.imageTexts[in+"/"+id] = text
	cacheImage(a, in, id, *im)
	return text, nil
}

// availableLife is how long an image of Kamino is assumed to stay available. A promotion follows the last read at once.
const availableLife = 10 * time.Second

// rememberOwn stores the text and the read of an image of Kamino.
func rememberOwn(a *account, ref cloud.FamilyVersion, im types.Image) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.imageTexts[ref.Family.Place+"/"+sdk.ToString(im.ImageId)] = imageText(ref)
	if canLaunch(im) {
		a.available[imageText(ref)] = cachedImage{im, a.config.Now()}
	}
}

// canLaunch reports whether an instance can be launched from an image, with the right billing.
func canLaunch(im types.Image) bool {
	return im.State == types.ImageStateAvailable && billingFault(im) == ""
}

// recentlyAvailable returns an image of Kamino that was available at a recent read, and that this process has not deleted.
func recentlyAvailable(a *account, in, image string) (types.Image, bool) {
	a.mu.Lock()
	known, found := a.available[image]
	if found && a.config.Now().Sub(known.at) >= availableLife {
		delete(a.available, image)
		found = false
	}
	a.mu.Unlock()
	return known.Image, found && !a.recentlyDeleted(in, sdk.ToString(known.ImageId))
}

// imageLife is how long a read image is valid. Of the registered properties the owner can change the IMDS version only.
const imageLife = time.Hour

// cachedImage is an image with the time of the read.
type cachedImage struct {
	types.Image
	at time.Time
}

// cacheImage stores an image and removes expired images. The caller holds the lock.
func cacheImage(a *account, in, id string, im types.Image) {
	now := a.config.Now()
	maps.DeleteFunc(a.cachedImages, func(_ string, s cachedImage) bool { return now.Sub(s.at) >= imageLife })
	a.cachedImages[in+"/"+id] = cachedImage{im, now}
}

// imageFromCache returns an image of any owner from the cache or from AWS; nil without an image.
func imageFromCache(ctx context.Context, a *account, in, id string) (*types.Image, error) {
	a.mu.Lock()
	known, found := a.cachedImages[in+"/"+id]
	a.mu.Unlock()
	if found && a.config.Now().Sub(known.at) < imageLife {
		return &known.Image, nil
	}
	return a.imageByID(ctx, in, id)
}

// imageByID returns an image of any owner; nil without an image. Instances of a disabled image keep its ID.
func (a *account) imageByID(ctx context.Context, in, id string) (*types.Image, error) {
	out, err := a.ec2(in).DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id}, IncludeDisabled: sdk.Bool(true)})
	if isNotFound(err) || isCode(err, "InvalidAMIID.Unavailable") {
		return nil, nil
	}
	if err != nil {
		return nil, fail("read", text("image "+id), err)
	}
	for i := range out.Images {
		return &out.Images[i], nil
	}
	return nil, nil
}

// textOf returns Kamino's text for an image. Other accounts' tags are invisible, so that no foreign image looks like an
// image of Kamino.
func textOf(in string, im types.Image) string {
	ref := cloud.FamilyVersion{Family: cloud.ImageFamily{Place: in, Name: tagOf(im.Tags, tagFamily)}, Version: tagOf(im.Tags, tagVersion)}
	if ref.Family.Name != "" && sdk.ToString(im.Name) == imageName(ref) {
		return imageText(ref)
	}
	return sdk.ToString(im.ImageId)
}

// NativeImage implements cloud.ImageProvider and returns the ID of the AMI.
func (p *ImageProvider) NativeImage(ctx context.Context, place, image string) (string, error) {
	return p.ami(ctx, "read", text("the images of "+place), place, image)
}

// ImageText implements cloud.ImageProvider.
func (p *ImageProvider) ImageText(ctx context.Context, place, native string) (string, error) {
	return p.imageTextOf(ctx, place, native)
}
