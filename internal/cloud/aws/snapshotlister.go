package aws

import (
	"context"
	"regexp"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// text is a resource's description for errors.
type text string

func (t text) String() string { return string(t) }

// snapshotID returns region and ID, because only the region's endpoint finds a snapshot:
// "eu-central-1/snap-0123456789abcdef0".
func snapshotID(in, id string) string { return in + "/" + id }

var snapshotText = regexp.MustCompile(`^([a-z0-9-]+)/(snap-[0-9a-f]+)$`)

// parseSnapshot parses the text of snapshotID.
func parseSnapshot(text string) (in, id string, ok bool) {
	parts := snapshotText.FindStringSubmatch(text)
	if parts == nil {
		return "", "", false
	}
	return parts[1], parts[2], true
}

// placesOf returns the regions of image families, each once.
func placesOf(families []cloud.ImageFamily) (places []string) {
	for _, family := range families {
		if !slices.Contains(places, family.Place) {
			places = append(places, family.Place)
		}
	}
	return places
}

// Snapshots implements cloud.ImageProvider with a request per region and page. Snapshots of images have no owner
// and are left out.
func (p *ImageProvider) Snapshots(ctx context.Context, families ...cloud.ImageFamily) ([]cloud.Snapshot, error) {
	var found []cloud.Snapshot
	for _, place := range placesOf(families) {
		all, err := p.snapshots(ctx, place, text("the snapshots of "+place), types.Filter{Name: sdk.String("tag-key"), Values: []string{cloud.TagUID}})
		if err != nil {
			return nil, err
		}
		holders, err := p.holdersOf(ctx, place, all)
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			if tagOf(s.Tags, cloud.TagUID) == "" || p.recentlyDeleted(place, sdk.ToString(s.SnapshotId)) {
				continue
			}
			one := p.snapshotOf(place, tagOf(s.Tags, cloud.TagPrototype), s)
			if image := holders[sdk.ToString(s.SnapshotId)]; image != "" {
				one.HeldBy, one.Release = "image "+image, "aws ec2 deregister-image --region "+place+" --image-id "+image
			}
			found = append(found, one)
		}
	}
	return found, nil
}

// holdersOf returns the images that other clients made of snapshots of disks in use, by snapshot. EC2 deletes no snapshot of an image.
func (p *ImageProvider) holdersOf(ctx context.Context, place string, all []types.Snapshot) (map[string]string, error) {
	var raw []string
	for _, s := range all {
		if tagOf(s.Tags, cloud.TagUID) != "" && tagOf(s.Tags, cloud.TagEndsAt) != "" {
			raw = append(raw, sdk.ToString(s.SnapshotId))
		}
	}
	holders := map[string]string{}
	for ids := range slices.Chunk(raw, maxFilterValues) {
		images, err := p.images(ctx, place, text("the images of "+place), types.Filter{Name: sdk.String("block-device-mapping.snapshot-id"), Values: ids})
		if err != nil {
			return nil, err
		}
		for _, im := range images {
			for _, d := range im.BlockDeviceMappings {
				if d.Ebs != nil {
					holders[sdk.ToString(d.Ebs.SnapshotId)] = sdk.ToString(im.ImageId)
				}
			}
		}
	}
	return holders, nil
}

// maxFilterValues is the number of values of all filters of a request. Source: "Filtering EC2 resources".
const maxFilterValues = 200

// DropSnapshot implements cloud.ImageProvider. A malformed snapshot ID names no snapshot.
func (p *ImageProvider) DropSnapshot(ctx context.Context, id string) error {
	in, name, ok := parseSnapshot(id)
	if !ok {
		if strings.Contains(id, "/snap-") {
			return nil
		}
		return unsupported(id, "not the ID of a snapshot (REGION/snap-...)")
	}
	ref := snapshotRef{in, name}
	s, err := p.snapshotByID(ctx, ref, in, name)
	switch {
	case err != nil && !cloud.Is(err, cloud.NotFound):
		return err
	case s == nil: // EC2 may show it late
		s = &types.Snapshot{SnapshotId: sdk.String(name)}
	}
	return p.deleteSnapshot(ctx, in, *s, ref)
}
