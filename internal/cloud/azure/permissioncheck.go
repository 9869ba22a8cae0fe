package azure

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Permissions implements cloud.PoolProvider. Requests: a page of permissions per resource group, and the pool's
// model unless known. A trial outside the pool may need other resource groups.
func (p *PoolProvider) Permissions(ctx context.Context, pool cloud.PoolID) ([]cloud.Permission, error) {
	s, err := parsePool(pool)
	if err != nil {
		return nil, err
	}
	granted, err := p.grants(ctx, s)
	if err != nil {
		return nil, err
	}
	joining, err := p.trialPermissions(ctx, s)
	if err != nil {
		return nil, err
	}
	var all []cloud.Permission
	for _, feature := range []string{"", cloud.ForRebuild, cloud.ForTrialApart, cloud.ForConsole, cloud.ForReboot, cloud.ForCopy, cloud.ForInPlace} {
		all = append(all, permissionsFor(s, granted, actionsFor(feature, "pool"), feature)...)
	}
	return append(all, joining...), nil
}

// trialPermissions returns the permissions of a trial outside the pool on resources that the pool refers to. Resource groups whose
// permissions the credential may not list are left out, as in PreflightTrial.
func (p *PoolProvider) trialPermissions(ctx context.Context, s scaleSet) (list []cloud.Permission, err error) {
	needs, known := p.joined.Load(s)
	if !known {
		model, err := p.model(ctx, s)
		if err != nil {
			return nil, err
		}
		needs = joinsOrReads(model)
	}
	for _, at := range needs.([]need) {
		granted, err := p.grants(ctx, at.scaleSet)
		switch {
		case cloud.Is(err, cloud.Denied), cloud.Is(err, cloud.NotFound):
		case err != nil:
			return nil, err
		default:
			list = append(list, permissionsFor(at.scaleSet, granted, at.actions, cloud.ForTrialApart)...)
		}
	}
	return list, nil
}

// Permissions implements cloud.ImageProvider.
func (p *ImageProvider) Permissions(ctx context.Context, family cloud.ImageFamily) ([]cloud.Permission, error) {
	s, err := parseFamily(family)
	if err != nil {
		return nil, err
	}
	granted, err := p.grants(ctx, s)
	if err != nil {
		return nil, err
	}
	var all []cloud.Permission
	for _, feature := range []string{"", cloud.ForCopy, cloud.ForInPlace} {
		all = append(all, permissionsFor(s, granted, diskActions(feature, p.externalPools), feature)...)
	}
	if p.externalPools {
		for _, feature := range []string{cloud.ForConsole, cloud.ForReboot} {
			all = append(all, permissionsFor(s, granted, actionsFor(feature, "vm"), feature)...)
		}
	}
	return all, nil
}

// grants lists the credential's permissions in a resource group.
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

func permissionsFor(s scaleSet, granted []grant, actions []string, purpose string) []cloud.Permission {
	out := make([]cloud.Permission, len(actions))
	for i, action := range actions {
		out[i] = cloud.Permission{Action: action, Scope: s.scope(), Allowed: allowed(granted, action), For: purpose,
			Remedy: cloud.PowerRemedy("azure", purpose)}
	}
	return out
}

// refusePermissions returns the refusal for missing actions. Nil means that all actions are allowed, or that the
// permissions are unreadable; the later calls then show a missing permission.
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
