package azure

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// PoolsBeside implements cloud.Atlas: a request for each resource group, and one more for each full page.
func (p *Provider) PoolsBeside(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error) {
	var found []cloud.PoolID
	seen := map[string]bool{}
	for _, pool := range pools {
		s, err := parsePool(pool)
		if err != nil {
			return nil, err
		}
		if seen[s.scope()] {
			continue
		}
		seen[s.scope()] = true
		clients, err := p.in(s)
		if err != nil {
			return nil, err
		}
		pager := clients.scaleSets.NewListPager(s.group, nil)
		for pager.More() {
			page, err := pager.NextPage(ctx)
			if err != nil {
				return nil, fail("list the scale sets beside", s, err)
			}
			for _, got := range page.Value {
				if other, err := parsePool(cloud.PoolID(value(got.ID))); err == nil {
					found = append(found, other.pool())
				}
			}
		}
	}
	return found, nil
}

// ReadPool implements cloud.Atlas.
func (p *Provider) ReadPool(text string) (cloud.PoolID, bool) {
	s, err := parsePool(cloud.PoolID(text))
	return s.pool(), err == nil
}
