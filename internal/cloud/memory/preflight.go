package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Reasons of refusals that Preflight finds by itself.
const (
	ReasonVersionExists     = "VersionExists"
	ReasonQuotaExceeded     = "QuotaExceeded"
	ReasonPermissionMissing = "PermissionMissing"
)

// captureCalls are those that a capture makes to change something, in the order in which it makes them.
var captureCalls = []string{
	opHold, opEnsureStopped, opEnsureSnapshot, opEnsureStarted, opUnhold, opEnsureImage, opTagImage,
	opDeleteSnapshot, opSetRecipe, opDeleteImage,
}

// Preflight looks for what would make a capture fail.
func (c *Cloud) Preflight(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	defer c.enter()()
	if err := c.admit(ctx, opPreflight, string(spec.Instance)); err != nil {
		return nil, err
	}
	m, err := c.find(opPreflight, spec.Instance)
	if err != nil {
		return nil, err
	}
	_, _, v, err := c.version(ctx, opPreflight, cloud.ImageRef{Pool: m.pool.id, Version: spec.Version})
	if err != nil {
		return nil, err
	}
	refusals := slices.Concat(m.pool.refusals, m.pool.rollRefusals(), m.refusals, c.missingPermissions(m), c.usedUp())
	if v != nil {
		refusals = append(refusals, cloud.Refuse(ReasonVersionExists,
			fmt.Sprintf("version %s of pool %s exists and is %s", v.version, m.pool.spec.Name, v.state), "name another one of that day, or delete it"))
	}
	return refusals, nil
}

func (c *Cloud) missingPermissions(m *instance) []cloud.Refusal {
	var refusals []cloud.Refusal
	for _, op := range captureCalls {
		if c.forbidden[op] {
			refusals = append(refusals, cloud.Refuse(ReasonPermissionMissing,
				fmt.Sprintf("the credential may not %s in pool %s", phrases[op], m.pool.spec.Name), "grant it"))
		}
	}
	return refusals
}

func (c *Cloud) usedUp() []cloud.Refusal {
	var refusals []cloud.Refusal
	for _, limit := range []struct {
		what      string
		have, max int
	}{
		{"snapshots", len(c.snapshots), c.config.Quota.Snapshots},
		{"image versions", len(c.images), c.config.Quota.Images},
	} {
		if limit.max > 0 && limit.have >= limit.max {
			refusals = append(refusals, cloud.Refuse(ReasonQuotaExceeded,
				fmt.Sprintf("the quota of %d %s is used up", limit.max, limit.what), "delete some, or ask for more"))
		}
	}
	return refusals
}
