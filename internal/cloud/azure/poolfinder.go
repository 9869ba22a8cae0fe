package azure

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// PoolsInScope implements cloud.PoolProvider with a request per resource group and page. The list contains complete models.
// Source: Azure REST reference, "Virtual Machine Scale Sets - List".
func (p *PoolProvider) PoolsInScope(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error) {
	var found []cloud.PoolID
	err := p.eachPool(pools, func(s scaleSet, clients *clients) error {
		pager := clients.scaleSets.NewListPager(s.group, nil)
		for pager.More() {
			page, err := pager.NextPage(ctx)
			if err != nil {
				return fail("list the scale sets of the resource group of", s, err)
			}
			for _, got := range page.Value {
				if other, err := parsePool(cloud.PoolID(value(got.ID))); err == nil {
					found = append(found, other.pool())
					cloud.ReadCacheOf(ctx).Put(other.modelKey(), *got)
				}
			}
		}
		return nil
	})
	return found, err
}

// eachPool calls do once per resource group of the pools, until the first error.
func (p *PoolProvider) eachPool(pools []cloud.PoolID, do func(scaleSet, *clients) error) error {
	sets := make([]scaleSet, len(pools))
	for i, pool := range pools {
		var err error
		if sets[i], err = parsePool(pool); err != nil {
			return err
		}
	}
	return p.eachGroup(sets, do)
}

// ReadPool implements cloud.PoolProvider.
func (p *PoolProvider) ReadPool(text string) (cloud.PoolID, bool) {
	s, err := parsePool(cloud.PoolID(text))
	return s.pool(), err == nil
}
