package memory

import (
	"context"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Reads that the credential of each half needs, besides a capture's writes.
var (
	diskLooks   = []string{opInstance, opSnapshot, opImage, opImages, opPreflight}
	recipeLooks = []string{opPool, opInstances, opRecipeChange, opSetCapacity, opPreflight, opProtection}
)

// Permissions implements cloud.ImageProvider. An action is the name of a call.
func (c *ImageProvider) Permissions(ctx context.Context, family cloud.ImageFamily) ([]cloud.Permission, error) {
	defer c.enter()()
	if err := c.admit(ctx, opPermissions, lineID(family)); err != nil {
		return nil, err
	}
	return c.permissions(lineID(family), slices.Concat(diskCalls, diskLooks), ""), nil
}

// Permissions implements cloud.PoolProvider. An action is the name of a call.
func (c *PoolProvider) Permissions(ctx context.Context, id cloud.PoolID) ([]cloud.Permission, error) {
	defer c.enter()()
	p, err := c.admitPool(ctx, opPermissions, id)
	if err != nil {
		return nil, err
	}
	list := c.permissions(string(p.id), slices.Concat(recipeCalls, recipeLooks), "")
	return slices.Concat(list, c.permissions(string(p.id), []string{opEnsureRebuilt}, "kamino rollback --replace-nodes"),
		c.permissions(string(p.id), []string{opEnsureRemoved}, cloud.ForRemoval),
		c.permissions(string(p.id), []string{opEnsureTrial, opEndTrial}, cloud.ForTrialApart)), nil
}

func (c *credential) permissions(scope string, calls []string, purpose string) []cloud.Permission {
	list := make([]cloud.Permission, len(calls))
	for i, op := range calls {
		list[i] = cloud.Permission{Action: op, Scope: scope, Allowed: !c.forbidden[op], For: purpose}
	}
	return list
}
