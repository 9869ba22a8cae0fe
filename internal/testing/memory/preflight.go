package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Reasons of refusals from Preflight itself.
const (
	ReasonVersionExists     = "VersionExists"
	ReasonQuotaExceeded     = "QuotaExceeded"
	ReasonPermissionMissing = "PermissionMissing"
)

// diskCalls and recipeCalls are the writes of a capture in order, by half.
var (
	diskCalls   = []string{opEnsureSnapshot, opEnsureImage, opTagImage, opDeleteSnapshot, opDeleteImage}
	recipeCalls = []string{opSetRecipe}
	// powerCalls and protectionCalls are for captures in place only.
	powerCalls      = []string{opEnsureStopped, opEnsureStarted}
	protectionCalls = []string{opProtect, opUnprotect}
)

// PreflightRecipe implements cloud.PoolProvider.
func (c *PoolProvider) PreflightRecipe(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	defer c.enter()()
	p, err := c.admitPool(ctx, opPreflight, spec.Pool)
	if err != nil {
		return nil, err
	}
	calls := slices.Clone(recipeCalls)
	if !spec.Copies {
		calls = slices.Concat(protectionCalls, calls)
	}
	return slices.Concat(p.refusals, p.rollRefusals(), c.missingPermissions(calls, p.spec.Name)), nil
}

// lacksCapacity refuses an instance if the quota of instances is used up.
func (c *machines) lacksCapacity() []cloud.Refusal {
	have := 0
	for _, m := range c.instances {
		if !m.gone {
			have++
		}
	}
	if most := c.config.Quota.Instances; most > 0 && have >= most {
		return []cloud.Refusal{cloud.Refuse(ReasonQuotaExceeded, fmt.Sprintf("the quota of %d instances is used up", most), "ask for more")}
	}
	return nil
}

// PreflightDisk implements cloud.ImageProvider.
func (c *ImageProvider) PreflightDisk(ctx context.Context, spec cloud.DiskSpec) ([]cloud.Refusal, error) {
	defer c.enter()()
	m, err := c.admitInstance(ctx, opPreflight, spec.Instance)
	if err != nil {
		return nil, err
	}
	_, v, err := c.version(ctx, opPreflight, spec.FamilyVersion)
	if err != nil {
		return nil, err
	}
	calls := slices.Clone(diskCalls)
	if !spec.Copies {
		calls = slices.Concat(powerCalls, calls)
	}
	refusals := slices.Concat(m.refusals, c.missingPermissions(calls, spec.Family.Name), c.usedUp())
	if v != nil {
		refusals = append(refusals, cloud.Refuse(ReasonVersionExists,
			fmt.Sprintf("version %s of pool %s exists and is %s", v.version, spec.Family.Name, v.state),
			"choose another version name of the day, or delete the version"))
	}
	return refusals, nil
}

func (c *credential) missingPermissions(calls []string, of string) []cloud.Refusal {
	var refusals []cloud.Refusal
	for _, op := range calls {
		if c.forbidden[op] {
			refusals = append(refusals, cloud.Refuse(ReasonPermissionMissing,
				fmt.Sprintf("the credential may not %s in pool %s", phrase(op), of), "grant it"))
		}
	}
	return refusals
}

func (c *machines) usedUp() []cloud.Refusal {
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

// Reads that the credential of each half needs, besides a capture's writes.
var (
	diskLooks   = []string{opInstance, opSnapshot, opImage, opImages, opPreflight}
	recipeLooks = []string{opPool, opInstances, opRecipeChange, opPreflight, opProtection}
)

// Permissions implements cloud.ImageProvider. An action is the name of a call.
func (c *ImageProvider) Permissions(ctx context.Context, family cloud.ImageFamily) ([]cloud.Permission, error) {
	defer c.enter()()
	if err := c.admit(ctx, opPermissions, lineID(family)); err != nil {
		return nil, err
	}
	return slices.Concat(c.permissions(lineID(family), slices.Concat(diskCalls, diskLooks), ""),
		c.permissions(lineID(family), powerCalls, cloud.ForInPlace),
		c.permissions(lineID(family), []string{opEnsureAttached, opEnsureDetached, opEnsureCopySnapshot, opEndCopy}, cloud.ForCopy)), nil
}

// Permissions implements cloud.PoolProvider. An action is the name of a call.
func (c *PoolProvider) Permissions(ctx context.Context, id cloud.PoolID) ([]cloud.Permission, error) {
	defer c.enter()()
	p, err := c.admitPool(ctx, opPermissions, id)
	if err != nil {
		return nil, err
	}
	list := c.permissions(string(p.id), slices.Concat(recipeCalls, recipeLooks), "")
	return slices.Concat(list, c.permissions(string(p.id), []string{opEnsureRebuilt}, cloud.ForRebuild),
		c.permissions(string(p.id), []string{opResizeWarmPool}, cloud.ForWarmPool),
		c.permissions(string(p.id), []string{opEnsureTrial, opEndTrial}, cloud.ForTrialApart),
		c.permissions(string(p.id), workshopCalls, cloud.ForCopy), c.permissions(string(p.id), protectionCalls, cloud.ForInPlace)), nil
}

func (c *credential) permissions(scope string, calls []string, purpose string) []cloud.Permission {
	list := make([]cloud.Permission, len(calls))
	for i, op := range calls {
		list[i] = cloud.Permission{Action: op, Scope: scope, Allowed: !c.forbidden[op], For: purpose}
	}
	return list
}
