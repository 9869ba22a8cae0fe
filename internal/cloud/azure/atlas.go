package azure

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// PoolsBeside implements cloud.Atlas: a request for each resource group, and one more for each full page.
func (p *Provider) PoolsBeside(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error) {
	var found []cloud.PoolID
	err := p.eachGroup(pools, func(s scaleSet, clients *clients) error {
		pager := clients.scaleSets.NewListPager(s.group, nil)
		for pager.More() {
			page, err := pager.NextPage(ctx)
			if err != nil {
				return fail("list the scale sets beside", s, err)
			}
			for _, got := range page.Value {
				if other, err := parsePool(cloud.PoolID(value(got.ID))); err == nil {
					found = append(found, other.pool())
				}
			}
		}
		return nil
	})
	return found, err
}

// eachGroup goes through the resource groups of the pools, each once, and ends with the first error.
func (p *Provider) eachGroup(pools []cloud.PoolID, do func(scaleSet, *clients) error) error {
	seen := map[string]bool{}
	for _, pool := range pools {
		s, err := parsePool(pool)
		if err != nil {
			return err
		}
		if seen[s.scope()] {
			continue
		}
		seen[s.scope()] = true
		clients, err := p.in(s)
		if err != nil {
			return err
		}
		if err := do(s, clients); err != nil {
			return err
		}
	}
	return nil
}

// ReadPool implements cloud.Atlas.
func (p *Provider) ReadPool(text string) (cloud.PoolID, bool) {
	s, err := parsePool(cloud.PoolID(text))
	return s.pool(), err == nil
}
