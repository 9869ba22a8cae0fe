package azure

import (
	"context"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Snapshots implements cloud.ImageProvider with a request per resource group and page.
func (p *ImageProvider) Snapshots(ctx context.Context, families ...cloud.ImageFamily) ([]cloud.Snapshot, error) {
	var found []cloud.Snapshot
	err := p.eachPlace(families, func(s scaleSet, clients *clients) error {
		pager := clients.snapshots.NewListByResourceGroupPager(s.group, nil)
		for pager.More() {
			page, err := pager.NextPage(ctx)
			if err != nil {
				return fail("list the snapshots of the resource group of", s, err)
			}
			for _, got := range page.Value {
				tags := tagsOf(got.Tags)
				if tags[cloud.TagUID] == "" {
					continue
				}
				found = append(found, cloud.Snapshot{
					Name: tags[cloud.TagPrototype], ID: s.scope() + "/providers/Microsoft.Compute/snapshots/" + value(got.Name),
					State: snapshotState(got.Properties), Tags: tags,
				})
			}
		}
		return nil
	})
	return found, err
}

// eachPlace calls do once per resource group of the image families, until the first error.
func (p *account) eachPlace(families []cloud.ImageFamily, do func(scaleSet, *clients) error) error {
	places := make([]scaleSet, len(families))
	for i, family := range families {
		var err error
		if places[i], err = parseFamily(family); err != nil {
			return err
		}
	}
	return p.eachGroup(places, do)
}

// DropSnapshot implements cloud.ImageProvider.
func (p *ImageProvider) DropSnapshot(ctx context.Context, id string) error {
	group, name, ok := groupAndName(id, "snapshots")
	if !ok {
		return unsupported(id, "not the ID of a snapshot")
	}
	clients, err := p.in(scaleSet{subscription: strings.Split(strings.Trim(id, "/"), "/")[1], group: group})
	if err != nil {
		return err
	}
	poller, err := clients.snapshots.BeginDelete(ctx, group, name, nil)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return fail("delete", snapshotRef{name: name}, err)
	}
	rememberOperation(p.account, id, poller)
	return nil
}
