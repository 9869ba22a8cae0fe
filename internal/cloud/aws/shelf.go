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

// region of a line: what its place is.
type region string

func (r region) String() string { return "the snapshots of " + string(r) }

// snapshotID writes a snapshot with its region, without which it can't be found: "eu-central-1/snap-0123456789abcdef0".
func snapshotID(in, id string) string { return in + "/" + id }

var snapshotText = regexp.MustCompile(`^([a-z0-9-]+)/(snap-[0-9a-f]+)$`)

// parseSnapshot reads what snapshotID wrote.
func parseSnapshot(text string) (in, id string, ok bool) {
	parts := snapshotText.FindStringSubmatch(text)
	if parts == nil {
		return "", "", false
	}
	return parts[1], parts[2], true
}

// Snapshots implements cloud.FamilySnapshotLister: a request for each region, and one more for each full page. Those that were handed over to
// images have no owner any more.
func (p *ImageProvider) Snapshots(ctx context.Context, lines ...cloud.ImageFamily) ([]cloud.Snapshot, error) {
	var places []string
	for _, line := range lines {
		if !slices.Contains(places, line.Place) {
			places = append(places, line.Place)
		}
	}
	var found []cloud.Snapshot
	for _, place := range places {
		all, err := p.snapshots(ctx, place, region(place), types.Filter{Name: sdk.String("tag-key"), Values: []string{cloud.TagUID}})
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			if tagOf(s.Tags, cloud.TagUID) != "" && !p.buried(place, sdk.ToString(s.SnapshotId)) {
				found = append(found, p.snapshotOf(place, tagOf(s.Tags, cloud.TagPrototype), s))
			}
		}
	}
	return found, nil
}

// DropSnapshot implements cloud.FamilySnapshotLister. An ID that AWS would never have given names nothing.
func (p *ImageProvider) DropSnapshot(ctx context.Context, id string) error {
	in, name, ok := parseSnapshot(id)
	if !ok {
		if strings.Contains(id, "/snap-") {
			return nil
		}
		return unsupported(id, "this is not the ID of a snapshot (REGION/snap-...)")
	}
	return p.deleteSnapshot(ctx, in, name, snapshotRef{in, name})
}
