package memory

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// The powers of the joined cloud.
var (
	_ cloud.Census    = (*Cloud)(nil)
	_ cloud.Rebuilder = (*Cloud)(nil)
	_ cloud.Auditor   = (*Cloud)(nil)
	_ cloud.Shelf     = (*Cloud)(nil)
	_ cloud.Atlas     = (*Cloud)(nil)
	_ cloud.Restorer  = (*Cloud)(nil)
	_ cloud.Remover   = (*Cloud)(nil)
	_ cloud.Trialist  = (*Cloud)(nil)
)

func of[Power any](c *Cloud) Power {
	power, _ := cloud.As[Power](c.Provider)
	return power
}

// Instances implements cloud.Census.
func (c *Cloud) Instances(ctx context.Context, id cloud.PoolID) ([]cloud.Instance, error) {
	return of[cloud.Census](c).Instances(ctx, id)
}

// MaxImages implements cloud.Census.
func (c *Cloud) MaxImages(pool cloud.PoolID) int { return of[cloud.Census](c).MaxImages(pool) }

// EnsureRebuilt implements cloud.Rebuilder.
func (c *Cloud) EnsureRebuilt(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error) {
	return of[cloud.Rebuilder](c).EnsureRebuilt(ctx, id, version)
}

// EnsureRemoved implements cloud.Remover.
func (c *Cloud) EnsureRemoved(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
	return of[cloud.Remover](c).EnsureRemoved(ctx, id)
}

// Permissions implements cloud.Auditor.
func (c *Cloud) Permissions(ctx context.Context, id cloud.PoolID) ([]cloud.Permission, error) {
	return of[cloud.Auditor](c).Permissions(ctx, id)
}

// Snapshots implements cloud.Shelf.
func (c *Cloud) Snapshots(ctx context.Context, pools ...cloud.PoolID) ([]cloud.Snapshot, error) {
	return of[cloud.Shelf](c).Snapshots(ctx, pools...)
}

// DropSnapshot implements cloud.Shelf.
func (c *Cloud) DropSnapshot(ctx context.Context, id string) error {
	return of[cloud.Shelf](c).DropSnapshot(ctx, id)
}

// PoolsBeside implements cloud.Atlas.
func (c *Cloud) PoolsBeside(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error) {
	return of[cloud.Atlas](c).PoolsBeside(ctx, pools...)
}

// ReadPool implements cloud.Atlas.
func (c *Cloud) ReadPool(text string) (cloud.PoolID, bool) { return of[cloud.Atlas](c).ReadPool(text) }

// RestoreChange implements cloud.Restorer.
func (c *Cloud) RestoreChange(ctx context.Context, id cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
	return of[cloud.Restorer](c).RestoreChange(ctx, id, saved)
}

// PreflightTrial implements cloud.Trialist.
func (c *Cloud) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	return of[cloud.Trialist](c).PreflightTrial(ctx, spec)
}

// Trial implements cloud.Trialist.
func (c *Cloud) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return of[cloud.Trialist](c).Trial(ctx, spec)
}

// Trials implements cloud.Trialist.
func (c *Cloud) Trials(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error) {
	return of[cloud.Trialist](c).Trials(ctx, pools...)
}

// EnsureTrial implements cloud.Trialist.
func (c *Cloud) EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return of[cloud.Trialist](c).EnsureTrial(ctx, spec)
}

// CloseTrial implements cloud.Trialist.
func (c *Cloud) CloseTrial(ctx context.Context, spec cloud.TrialSpec) error {
	return of[cloud.Trialist](c).CloseTrial(ctx, spec)
}

// EndTrial implements cloud.Trialist.
func (c *Cloud) EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	return of[cloud.Trialist](c).EndTrial(ctx, spec)
}
