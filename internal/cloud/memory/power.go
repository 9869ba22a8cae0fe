package memory

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// The powers of the joined cloud.
var (
	_ cloud.InstanceLister    = (*Cloud)(nil)
	_ cloud.Rebuilder         = (*Cloud)(nil)
	_ cloud.PermissionChecker = (*Cloud)(nil)
	_ cloud.SnapshotLister    = (*Cloud)(nil)
	_ cloud.PoolFinder        = (*Cloud)(nil)
	_ cloud.RecipeRestorer    = (*Cloud)(nil)
	_ cloud.Remover           = (*Cloud)(nil)
	_ cloud.TrialRunner       = (*Cloud)(nil)
)

func of[Power any](c *Cloud) Power {
	power, _ := cloud.As[Power](c.Provider)
	return power
}

// Instances implements cloud.InstanceLister.
func (c *Cloud) Instances(ctx context.Context, id cloud.PoolID) ([]cloud.Instance, error) {
	return of[cloud.InstanceLister](c).Instances(ctx, id)
}

// MaxImages implements cloud.InstanceLister.
func (c *Cloud) MaxImages(pool cloud.PoolID) int { return of[cloud.InstanceLister](c).MaxImages(pool) }

// EnsureRebuilt implements cloud.Rebuilder.
func (c *Cloud) EnsureRebuilt(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error) {
	return of[cloud.Rebuilder](c).EnsureRebuilt(ctx, id, version)
}

// EnsureRemoved implements cloud.Remover.
func (c *Cloud) EnsureRemoved(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
	return of[cloud.Remover](c).EnsureRemoved(ctx, id)
}

// Permissions implements cloud.PermissionChecker.
func (c *Cloud) Permissions(ctx context.Context, id cloud.PoolID) ([]cloud.Permission, error) {
	return of[cloud.PermissionChecker](c).Permissions(ctx, id)
}

// Snapshots implements cloud.SnapshotLister.
func (c *Cloud) Snapshots(ctx context.Context, pools ...cloud.PoolID) ([]cloud.Snapshot, error) {
	return of[cloud.SnapshotLister](c).Snapshots(ctx, pools...)
}

// DropSnapshot implements cloud.SnapshotLister.
func (c *Cloud) DropSnapshot(ctx context.Context, id string) error {
	return of[cloud.SnapshotLister](c).DropSnapshot(ctx, id)
}

// PoolsInScope implements cloud.PoolFinder.
func (c *Cloud) PoolsInScope(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error) {
	return of[cloud.PoolFinder](c).PoolsInScope(ctx, pools...)
}

// ReadPool implements cloud.PoolFinder.
func (c *Cloud) ReadPool(text string) (cloud.PoolID, bool) {
	return of[cloud.PoolFinder](c).ReadPool(text)
}

// RestoreChange implements cloud.RecipeRestorer.
func (c *Cloud) RestoreChange(ctx context.Context, id cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
	return of[cloud.RecipeRestorer](c).RestoreChange(ctx, id, saved)
}

// PreflightTrial implements cloud.TrialRunner.
func (c *Cloud) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	return of[cloud.TrialRunner](c).PreflightTrial(ctx, spec)
}

// Trial implements cloud.TrialRunner.
func (c *Cloud) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return of[cloud.TrialRunner](c).Trial(ctx, spec)
}

// Trials implements cloud.TrialRunner.
func (c *Cloud) Trials(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error) {
	return of[cloud.TrialRunner](c).Trials(ctx, pools...)
}

// EnsureTrial implements cloud.TrialRunner.
func (c *Cloud) EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return of[cloud.TrialRunner](c).EnsureTrial(ctx, spec)
}

// CloseTrial implements cloud.TrialRunner.
func (c *Cloud) CloseTrial(ctx context.Context, spec cloud.TrialSpec) error {
	return of[cloud.TrialRunner](c).CloseTrial(ctx, spec)
}

// EndTrial implements cloud.TrialRunner.
func (c *Cloud) EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	return of[cloud.TrialRunner](c).EndTrial(ctx, spec)
}
