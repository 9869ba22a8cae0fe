package azure

import (
	"context"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Snapshots implements cloud.Shelf: a request for each resource group, and one more for each full page.
func (p *Provider) Snapshots(ctx context.Context, pools ...cloud.PoolID) ([]cloud.Snapshot, error) {
	var found []cloud.Snapshot
	err := p.eachGroup(pools, func(s scaleSet, clients *clients) error {
		pager := clients.snapshots.NewListByResourceGroupPager(s.group, nil)
		for pager.More() {
			page, err := pager.NextPage(ctx)
			if err != nil {
				return fail("list the snapshots beside", s, err)
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

// DropSnapshot implements cloud.Shelf.
func (p *Provider) DropSnapshot(ctx context.Context, id string) error {
	group, name, ok := groupAndName(id, "snapshots")
	if !ok {
		return unsupported(id, "this is not the ID of a snapshot")
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
	remember(p, id, poller)
	return nil
}
