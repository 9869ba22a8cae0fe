package world

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// Snapshots lists the names of the snapshots that are in the resource group.
func (w *World) Snapshots(ctx context.Context) ([]string, error) {
	credential, options, err := w.principal()
	if err != nil {
		return nil, err
	}
	client, err := armcompute.NewSnapshotsClient(w.site.SubscriptionID, credential, options)
	if err != nil {
		return nil, err
	}
	var names []string
	for pager := client.NewListByResourceGroupPager(w.site.ResourceGroup, nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, brief(err)
		}
		for _, s := range page.Value {
			names = append(names, *s.Name)
		}
	}
	return names, nil
}
