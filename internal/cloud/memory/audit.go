package memory

import (
	"context"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Permissions implements cloud.Auditor: an action is a call of the contract by its name.
func (c *Cloud) Permissions(ctx context.Context, id cloud.PoolID) ([]cloud.Permission, error) {
	defer c.enter()()
	if err := c.admit(ctx, opPermissions, string(id)); err != nil {
		return nil, err
	}
	p, err := c.findPool(opPermissions, id)
	if err != nil {
		return nil, err
	}
	var list []cloud.Permission
	for op := range phrases {
		switch op {
		case opPoolsOf, opPermissions, opSnapshots, opDropSnapshot, opPoolsBeside, opRestoreChange: // no capture needs them
			continue
		}
		permission := cloud.Permission{Action: op, Scope: string(p.id), Allowed: !c.forbidden[op]}
		if op == opEnsureRebuilt {
			permission.For = "kamino rollback --replace-nodes"
		}
		list = append(list, permission)
	}
	slices.SortFunc(list, func(a, b cloud.Permission) int {
		if a.Action < b.Action {
			return -1
		}
		return 1
	})
	return list, nil
}
