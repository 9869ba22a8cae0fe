package azure

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var _ cloud.Auditor = (*Provider)(nil)

// Permissions implements cloud.Auditor, in one request for each page of the credential's roles.
func (p *Provider) Permissions(ctx context.Context, pool cloud.PoolID) ([]cloud.Permission, error) {
	s, err := parsePool(pool)
	if err != nil {
		return nil, err
	}
	clients, err := p.in(s)
	if err != nil {
		return nil, err
	}
	granted, err := listPermissions(ctx, clients.permissions, s.group)
	if err != nil {
		return nil, fail("list permissions of", text("resource group "+s.group), err)
	}
	var out []cloud.Permission
	add := func(actions []string, purpose string) {
		for _, action := range actions {
			allowed := false
			for _, g := range granted {
				allowed = allowed || g.allows(action)
			}
			out = append(out, cloud.Permission{Action: action, Scope: s.scope(), Allowed: allowed, For: purpose})
		}
	}
	add(requiredActions, "")
	add(rebuildActions, "kamino rollback --replace-nodes")
	return out, nil
}
