package azure

import (
	"context"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Trials implements cloud.PoolProvider with a request per resource group and page.
func (p *PoolProvider) Trials(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error) {
	sets := make([]scaleSet, len(pools))
	for i, pool := range pools {
		var err error
		if sets[i], err = parsePool(pool); err != nil {
			return nil, err
		}
	}
	var found []cloud.TrialSpec
	err := p.eachGroup(sets, func(at scaleSet, clients *clients) error {
		pager := clients.scaleSets.NewListPager(at.group, nil)
		for pager.More() {
			page, err := pager.NextPage(ctx)
			if err := fail("list the scale sets of the resource group of", at, err); cloud.Is(err, cloud.NotFound) {
				return nil
			} else if err != nil {
				return err
			}
			for _, model := range page.Value {
				if model == nil {
					continue
				}
				if spec, is := trialIn(*model, at, sets); is {
					found = append(found, spec)
				}
			}
		}
		return nil
	})
	return found, err
}

// trialIn returns the trial of a scale set, whose name is a digest of pool and trial.
func trialIn(model armcompute.VirtualMachineScaleSet, at scaleSet, pools []scaleSet) (cloud.TrialSpec, bool) {
	at.name = value(model.Name)
	tags, name := tagsOf(model.Tags), markOf(model)
	if name == "" {
		return cloud.TrialSpec{}, false
	}
	for _, pool := range pools {
		if pool.scope() != at.scope() {
			continue
		}
		spec := cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: pool.pool()}, Name: name}
		if (trialRef{versionRef{scaleSet: pool}, spec}).ownScaleSet().name != strings.ToLower(at.name) {
			continue
		}
		id := ""
		if image := imageReference(model); image != nil {
			id = value(image.ID)
		}
		spec.Version = id[strings.LastIndex(id, "/")+1:]
		spec.Tags = cloud.OwnerTags(map[string]string{cloud.TagPrototype: tagIn(tags, cloud.TagPrototype), cloud.TagUID: tagIn(tags, cloud.TagUID),
			cloud.TagCluster: tagIn(tags, cloud.TagCluster)})
		return spec, spec.Version != ""
	}
	return cloud.TrialSpec{}, false
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
