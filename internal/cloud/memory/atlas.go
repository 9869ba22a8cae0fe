package memory

import (
	"context"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const opPoolsBeside = "PoolsBeside"

// PoolsBeside implements cloud.Atlas. All pools are in one place.
func (c *Recipes) PoolsBeside(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error) {
	defer c.enter()()
	if err := c.admit(ctx, opPoolsBeside, ""); err != nil || len(pools) == 0 {
		return nil, err
	}
	var found []cloud.PoolID
	for _, p := range c.all {
		found = append(found, p.id)
	}
	return found, nil
}

// ReadPool implements cloud.Atlas.
func (c *Recipes) ReadPool(text string) (cloud.PoolID, bool) {
	name, ok := strings.CutPrefix(strings.ToLower(text), poolPrefix)
	return poolID(name), ok && name != "" && !strings.Contains(name, "/")
}
