package metrics

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A counted provider counts the calls of each optional interface of the wrapped provider. cloud.As hides interfaces that
// the wrapped provider lacks, so that each call here has an implementation.
var (
	_ cloud.Decorator         = (*counted)(nil)
	_ cloud.InstanceLister    = (*counted)(nil)
	_ cloud.PermissionChecker = (*counted)(nil)
	_ cloud.Rebuilder         = (*counted)(nil)
	_ cloud.RecipeRestorer    = (*counted)(nil)
	_ cloud.SnapshotLister    = (*counted)(nil)
	_ cloud.PoolFinder        = (*counted)(nil)
	_ cloud.Remover           = (*counted)(nil)
	_ cloud.TrialRunner       = (*counted)(nil)
)

// behind is the optional interface of the wrapped provider.
func behind[Power any](c *counted) Power {
	power, _ := cloud.As[Power](c.Provider)
	return power
}

func (c *counted) Instances(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
	return measure(c, "Instances", func() ([]cloud.Instance, error) { return behind[cloud.InstanceLister](c).Instances(ctx, pool) })
}

func (c *counted) Permissions(ctx context.Context, pool cloud.PoolID) ([]cloud.Permission, error) {
	return measure(c, "Permissions", func() ([]cloud.Permission, error) { return behind[cloud.PermissionChecker](c).Permissions(ctx, pool) })
}

func (c *counted) RestoreChange(ctx context.Context, id cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
	return measure(c, "RestoreChange", func() (cloud.RecipeChange, error) {
		return behind[cloud.RecipeRestorer](c).RestoreChange(ctx, id, saved)
	})
}

func (c *counted) EnsureRebuilt(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error) {
	return measure(c, "EnsureRebuilt", func() (cloud.Rebuild, error) { return behind[cloud.Rebuilder](c).EnsureRebuilt(ctx, id, version) })
}

func (c *counted) EnsureRemoved(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
	return measure(c, "EnsureRemoved", func() (cloud.State, error) { return behind[cloud.Remover](c).EnsureRemoved(ctx, id) })
}

func (c *counted) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	return measure(c, "PreflightTrial", func() ([]cloud.Refusal, error) { return behind[cloud.TrialRunner](c).PreflightTrial(ctx, spec) })
}

func (c *counted) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return measure(c, "Trial", func() (cloud.Trial, error) { return behind[cloud.TrialRunner](c).Trial(ctx, spec) })
}

func (c *counted) Trials(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error) {
	return measure(c, "Trials", func() ([]cloud.TrialSpec, error) { return behind[cloud.TrialRunner](c).Trials(ctx, pools...) })
}

func (c *counted) EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return measure(c, "EnsureTrial", func() (cloud.Trial, error) { return behind[cloud.TrialRunner](c).EnsureTrial(ctx, spec) })
}

func (c *counted) CloseTrial(ctx context.Context, spec cloud.TrialSpec) error {
	return measureAlone(c, "CloseTrial", func() error { return behind[cloud.TrialRunner](c).CloseTrial(ctx, spec) })
}

func (c *counted) EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	return measure(c, "EndTrial", func() (cloud.State, error) { return behind[cloud.TrialRunner](c).EndTrial(ctx, spec) })
}

func (c *counted) Snapshots(ctx context.Context, pools ...cloud.PoolID) ([]cloud.Snapshot, error) {
	return measure(c, "Snapshots", func() ([]cloud.Snapshot, error) { return behind[cloud.SnapshotLister](c).Snapshots(ctx, pools...) })
}

func (c *counted) DropSnapshot(ctx context.Context, id string) error {
	return measureAlone(c, "DropSnapshot", func() error { return behind[cloud.SnapshotLister](c).DropSnapshot(ctx, id) })
}

func (c *counted) PoolsInScope(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error) {
	return measure(c, "PoolsInScope", func() ([]cloud.PoolID, error) { return behind[cloud.PoolFinder](c).PoolsInScope(ctx, pools...) })
}

func (c *counted) ReadPool(text string) (cloud.PoolID, bool) {
	return behind[cloud.PoolFinder](c).ReadPool(text)
}

func (c *counted) MaxImages(pool cloud.PoolID) int {
	return behind[cloud.InstanceLister](c).MaxImages(pool)
}
