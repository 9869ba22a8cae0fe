package world

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
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

// ScaleSets are those of the resource group, in no order, as the SDK tells of them: the pools' and all others.
func (w *World) ScaleSets(ctx context.Context) ([]*armcompute.VirtualMachineScaleSet, error) {
	client, err := w.scaleSets()
	if err != nil {
		return nil, err
	}
	var all []*armcompute.VirtualMachineScaleSet
	for pager := client.NewListPager(w.site.ResourceGroup, nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, brief(err)
		}
		all = append(all, page.Value...)
	}
	return all, nil
}

// Versions of the images that a pool's captures published, in no order, as the SDK tells of them: none for a pool
// that was never captured.
func (w *World) Versions(ctx context.Context, pool string) ([]*armcompute.GalleryImageVersion, error) {
	spec, err := w.poolNamed(pool)
	if err != nil {
		return nil, err
	}
	credential, options, err := w.principal()
	if err != nil {
		return nil, err
	}
	client, err := armcompute.NewGalleryImageVersionsClient(w.site.SubscriptionID, credential, options)
	if err != nil {
		return nil, err
	}
	gallery := "SIG_" + strings.ReplaceAll(w.site.ResourceGroup, "-", "_")
	var all []*armcompute.GalleryImageVersion
	for pager := client.NewListByGalleryImagePager(w.site.ResourceGroup, gallery, "kamino-"+spec.ScaleSet()+"-prototype", nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if missing(err) {
			return nil, nil
		}
		if err != nil {
			return nil, brief(err)
		}
		all = append(all, page.Value...)
	}
	return all, nil
}

// Instances of a pool, as the SDK tells of them.
func (w *World) Instances(ctx context.Context, pool string) ([]*armcompute.VirtualMachineScaleSetVM, error) {
	spec, err := w.poolNamed(pool)
	if err != nil {
		return nil, err
	}
	credential, options, err := w.principal()
	if err != nil {
		return nil, err
	}
	client, err := armcompute.NewVirtualMachineScaleSetVMsClient(w.site.SubscriptionID, credential, options)
	if err != nil {
		return nil, err
	}
	var all []*armcompute.VirtualMachineScaleSetVM
	for pager := client.NewListPager(w.site.ResourceGroup, spec.ScaleSet(), nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, brief(err)
		}
		all = append(all, page.Value...)
	}
	return all, nil
}

// Remove takes a node's instance out of its pool for good, as an autoscaler does that finds it idle, and returns
// when it is gone.
func (w *World) Remove(ctx context.Context, node string) error {
	m, err := w.machineNamed(node)
	if err != nil {
		return err
	}
	client, err := w.scaleSets()
	if err != nil {
		return err
	}
	poller, err := client.BeginDeleteInstances(ctx, w.site.ResourceGroup, path.Base(m.Pool),
		armcompute.VirtualMachineScaleSetVMInstanceRequiredIDs{InstanceIDs: []*string{to.Ptr(path.Base(m.ID))}}, nil)
	if err != nil {
		return brief(err)
	}
	if _, err := poller.PollUntilDone(ctx, &runtime.PollUntilDoneOptions{Frequency: time.Second}); err != nil {
		return brief(err)
	}
	return nil
}

func missing(err error) bool {
	var response *azcore.ResponseError
	return errors.As(err, &response) && response.StatusCode == http.StatusNotFound
}
