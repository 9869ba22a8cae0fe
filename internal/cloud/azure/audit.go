package azure

import (
	"context"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Permissions implements cloud.Auditor, in one request for each page of the credential's roles.
func (p *Recipes) Permissions(ctx context.Context, pool cloud.PoolID) ([]cloud.Permission, error) {
	s, err := parsePool(pool)
	if err != nil {
		return nil, err
	}
	granted, err := p.grants(ctx, s)
	if err != nil {
		return nil, err
	}
	return slices.Concat(judged(s, granted, recipeActions, ""), judged(s, granted, rebuildActions, "kamino rollback --replace-nodes"),
		judged(s, granted, removeActions, cloud.ForRemoval), judged(s, granted, trialActions, cloud.ForTrial)), nil
}

// Permissions implements cloud.LineAuditor, likewise.
func (p *Disks) Permissions(ctx context.Context, line cloud.Line) ([]cloud.Permission, error) {
	s, err := parseLine(line)
	if err != nil {
		return nil, err
	}
	granted, err := p.grants(ctx, s)
	if err != nil {
		return nil, err
	}
	return judged(s, granted, diskActions, ""), nil
}

// grants lists what the credential may do in a resource group.
func (p *account) grants(ctx context.Context, s scaleSet) ([]grant, error) {
	clients, err := p.in(s)
	if err != nil {
		return nil, err
	}
	granted, err := listPermissions(ctx, clients.permissions, s.group)
	if err != nil {
		return nil, fail("list permissions of", text("resource group "+s.group), err)
	}
	return granted, nil
}

func judged(s scaleSet, granted []grant, actions []string, purpose string) []cloud.Permission {
	out := make([]cloud.Permission, len(actions))
	for i, action := range actions {
		out[i] = cloud.Permission{Action: action, Scope: s.scope(), Allowed: allowed(granted, action), For: purpose}
	}
	return out
}

// refusePermissions compares what is to be done with what the credential may do; nil where it may all, or nobody can
// tell: then the calls themselves will.
func (p *account) refusePermissions(ctx context.Context, s scaleSet, actions []string) (*cloud.Refusal, error) {
	granted, err := p.grants(ctx, s)
	switch {
	case cloud.Is(err, cloud.Denied), cloud.Is(err, cloud.NotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return missing(s, granted, actions), nil
}
