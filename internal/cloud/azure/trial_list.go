package azure

import (
	"context"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Trials implements cloud.PoolProvider with a request per resource group and page.
func (p *PoolProvider) Trials(ctx context.Context, pools ...cloud.PoolID) (found []cloud.TrialSpec, err error) {
	err = trials{p}.eachApart(ctx, pools, func(model armcompute.VirtualMachineScaleSet, at scaleSet, sets []scaleSet) {
		if t, is := apartIn(ofTrial, model, at, sets); is && t.spec.Version != "" {
			found = append(found, t.spec)
		}
	})
	return found, err
}

// eachApart calls do for each scale set in the resource groups of pools.
func (p trials) eachApart(ctx context.Context, pools []cloud.PoolID, do func(model armcompute.VirtualMachineScaleSet, at scaleSet, sets []scaleSet)) error {
	sets := make([]scaleSet, len(pools))
	for i, pool := range pools {
		var err error
		if sets[i], err = parsePool(pool); err != nil {
			return err
		}
	}
	return p.eachGroup(sets, func(at scaleSet, clients *clients) error {
		pager := clients.scaleSets.NewListPager(at.group, nil)
		for pager.More() {
			page, err := pager.NextPage(ctx)
			if err := fail("list the scale sets of the resource group of", at, err); cloud.Is(err, cloud.NotFound) {
				return nil
			} else if err != nil {
				return err
			}
			for _, model := range page.Value {
				if model != nil {
					do(*model, at, sets)
				}
			}
		}
		return nil
	})
}

// apartIn returns the trial or workshop of a scale set, whose name is a digest of pool and caller's name.
func apartIn(kind apartKind, model armcompute.VirtualMachineScaleSet, at scaleSet, pools []scaleSet) (apartRef, bool) {
	at.name = strings.ToLower(value(model.Name))
	name := tagIn(tagsOf(model.Tags), kind.mark)
	own := at
	own.name = strings.ToLower(tagIn(tagsOf(model.Tags), cloud.TagPool))
	for _, pool := range append(slices.Clone(pools), own) {
		t := apartRef{versionRef: versionRef{scaleSet: pool}, apartKind: kind, spec: cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: pool.pool()}, Name: name}}
		if name == "" || t.ownScaleSet() != at {
			continue
		}
		t.spec.Tags = ownerTagsOf(model.Tags)
		if image := imageReference(model); image != nil {
			t.spec.Version = value(image.ID)[strings.LastIndex(value(image.ID), "/")+1:]
		}
		return t, true
	}
	return apartRef{}, false
}

// ownerTagsOf returns the tags of owner and end. Azure ignores the case of tag names.
func ownerTagsOf(tags map[string]*string) map[string]string {
	lower := map[string]string{}
	for name, text := range tagsOf(tags) {
		lower[strings.ToLower(name)] = text
	}
	return cloud.OwnerTags(lower)
}

// tagIn returns a tag. Azure ignores the case of tag names.
func tagIn(tags map[string]string, name string) string {
	for have, text := range tags {
		if strings.EqualFold(have, name) {
			return text
		}
	}
	return ""
}
