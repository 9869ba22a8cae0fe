package memory

import (
	"context"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const opPoolsInScope = "PoolsInScope"

// PoolsInScope implements cloud.PoolProvider. All pools are in one place.
func (c *PoolProvider) PoolsInScope(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error) {
	defer c.enter()()
	if err := c.admit(ctx, opPoolsInScope, ""); err != nil || len(pools) == 0 {
		return nil, err
	}
	var found []cloud.PoolID
	for _, p := range c.all {
		found = append(found, p.id)
	}
	return found, nil
}

// ReadPool implements cloud.PoolProvider.
func (c *PoolProvider) ReadPool(text string) (cloud.PoolID, bool) {
	name, ok := strings.CutPrefix(strings.ToLower(text), poolPrefix)
	return poolID(name), ok && name != "" && !strings.Contains(name, "/")
}
