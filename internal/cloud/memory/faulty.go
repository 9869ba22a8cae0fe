package memory

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// SameInstance passes, because it does no I/O.
func (f *Faulty) SameInstance(a, b cloud.InstanceID) bool { return f.provider.SameInstance(a, b) }

// PoolsOf may be lost.
func (f *Faulty) PoolsOf(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
	return through(ctx, f, opPoolsOf, "", looks, func() ([]cloud.Membership, error) { return f.provider.PoolsOf(ctx, nodes) })
}

// PoolName passes, because it does no I/O.
func (f *Faulty) PoolName(id cloud.PoolID) string { return f.provider.PoolName(id) }

// BuiltFrom passes, because it does no I/O.
func (f *Faulty) BuiltFrom(pool cloud.PoolID, instance cloud.Instance) string {
	return f.provider.BuiltFrom(pool, instance)
}

// Instance may be lost.
func (f *Faulty) Instance(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error) {
	return through(ctx, f, opInstance, string(id), looksOnce, func() (cloud.Instance, error) { return f.provider.Instance(ctx, id) })
}

// EnsureStopped may be lost.
func (f *Faulty) EnsureStopped(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	return through(ctx, f, opEnsureStopped, string(id), writes, func() (cloud.Power, error) { return f.provider.EnsureStopped(ctx, id) })
}

// EnsureStarted may be lost.
func (f *Faulty) EnsureStarted(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	return through(ctx, f, opEnsureStarted, string(id), writes, func() (cloud.Power, error) { return f.provider.EnsureStarted(ctx, id) })
}

// HoldOf may be lost.
func (f *Faulty) HoldOf(ctx context.Context, id cloud.InstanceID) (cloud.Hold, error) {
	return through(ctx, f, opHoldOf, string(id), looksOnce, func() (cloud.Hold, error) { return f.provider.HoldOf(ctx, id) })
}

// Hold may be lost.
func (f *Faulty) Hold(ctx context.Context, id cloud.InstanceID, token string) error {
	_, err := through(ctx, f, opHold, string(id), writes, alone(func() error { return f.provider.Hold(ctx, id, token) }))
	return err
}

// Unhold may be lost.
func (f *Faulty) Unhold(ctx context.Context, id cloud.InstanceID, token string) error {
	_, err := through(ctx, f, opUnhold, string(id), writes, alone(func() error { return f.provider.Unhold(ctx, id, token) }))
	return err
}

// Snapshot may be lost.
func (f *Faulty) Snapshot(ctx context.Context, id cloud.InstanceID, name string) (cloud.Snapshot, error) {
	return through(ctx, f, opSnapshot, name, looksOnce, func() (cloud.Snapshot, error) { return f.provider.Snapshot(ctx, id, name) })
}

// EnsureSnapshot may be lost.
func (f *Faulty) EnsureSnapshot(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
	return through(ctx, f, opEnsureSnapshot, spec.Name, writes, func() (cloud.Snapshot, error) { return f.provider.EnsureSnapshot(ctx, spec) })
}

// DeleteSnapshot may be lost.
func (f *Faulty) DeleteSnapshot(ctx context.Context, id cloud.InstanceID, name string) error {
	_, err := through(ctx, f, opDeleteSnapshot, name, writes, alone(func() error { return f.provider.DeleteSnapshot(ctx, id, name) }))
	return err
}

// Image may be lost.
func (f *Faulty) Image(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error) {
	return through(ctx, f, opImage, ref.Version, looksOnce, func() (cloud.Image, error) { return f.provider.Image(ctx, ref) })
}

// Images may be lost.
func (f *Faulty) Images(ctx context.Context, id cloud.PoolID) ([]cloud.Image, error) {
	return through(ctx, f, opImages, string(id), looksOnce, func() ([]cloud.Image, error) { return f.provider.Images(ctx, id) })
}

// EnsureImage may be lost.
func (f *Faulty) EnsureImage(ctx context.Context, spec cloud.ImageSpec) (cloud.Image, error) {
	return through(ctx, f, opEnsureImage, spec.Version, writes, func() (cloud.Image, error) { return f.provider.EnsureImage(ctx, spec) })
}

// TagImage may be lost.
func (f *Faulty) TagImage(ctx context.Context, ref cloud.ImageRef, tags map[string]string) error {
	_, err := through(ctx, f, opTagImage, ref.Version, writes, alone(func() error { return f.provider.TagImage(ctx, ref, tags) }))
	return err
}

// DeleteImage may be lost.
func (f *Faulty) DeleteImage(ctx context.Context, ref cloud.ImageRef) error {
	_, err := through(ctx, f, opDeleteImage, ref.Version, writes, alone(func() error { return f.provider.DeleteImage(ctx, ref) }))
	return err
}

// Pool may be lost.
func (f *Faulty) Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error) {
	return through(ctx, f, opPool, string(id), looksOnce, func() (cloud.Pool, error) { return f.provider.Pool(ctx, id) })
}

// Preflight may be lost.
func (f *Faulty) Preflight(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	return through(ctx, f, opPreflight, string(spec.Instance), looks, func() ([]cloud.Refusal, error) { return f.provider.Preflight(ctx, spec) })
}

// RecipeChange may be lost.
func (f *Faulty) RecipeChange(ctx context.Context, ref cloud.ImageRef, removeBootstrap bool) (cloud.RecipeChange, error) {
	return through(ctx, f, opRecipeChange, ref.Version, looksOnce, func() (cloud.RecipeChange, error) {
		return f.provider.RecipeChange(ctx, ref, removeBootstrap)
	})
}

// SetRecipe may be lost.
func (f *Faulty) SetRecipe(ctx context.Context, change cloud.RecipeChange) error {
	_, err := through(ctx, f, opSetRecipe, change.Version, writes, alone(func() error { return f.provider.SetRecipe(ctx, change) }))
	return err
}

// SetCapacity may be lost.
func (f *Faulty) SetCapacity(ctx context.Context, id cloud.PoolID, from, to int64) error {
	_, err := through(ctx, f, opSetCapacity, string(id), writes, alone(func() error { return f.provider.SetCapacity(ctx, id, from, to) }))
	return err
}

// Decorated implements cloud.Decorator. cloud.As returns only the powers of the wrapped provider.
func (f *Faulty) Decorated() cloud.Provider { return f.provider }

// behind returns a power of the wrapped provider.
func behind[Power any](f *Faulty) Power {
	power, _ := cloud.As[Power](f.provider)
	return power
}

// Instances implements cloud.Census, and may be lost.
func (f *Faulty) Instances(ctx context.Context, id cloud.PoolID) ([]cloud.Instance, error) {
	return through(ctx, f, opInstances, string(id), looksOnce, func() ([]cloud.Instance, error) { return behind[cloud.Census](f).Instances(ctx, id) })
}

// Permissions implements cloud.Auditor, and may be lost.
func (f *Faulty) Permissions(ctx context.Context, id cloud.PoolID) ([]cloud.Permission, error) {
	return through(ctx, f, opPermissions, string(id), looks, func() ([]cloud.Permission, error) { return behind[cloud.Auditor](f).Permissions(ctx, id) })
}

// EnsureRemoved implements cloud.Remover, and may be lost.
func (f *Faulty) EnsureRemoved(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
	return through(ctx, f, opEnsureRemoved, string(id), writes, func() (cloud.State, error) {
		return behind[cloud.Remover](f).EnsureRemoved(ctx, id)
	})
}

// EnsureRebuilt implements cloud.Rebuilder, and may be lost.
func (f *Faulty) EnsureRebuilt(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error) {
	return through(ctx, f, opEnsureRebuilt, string(id), writes, func() (cloud.Rebuild, error) {
		return behind[cloud.Rebuilder](f).EnsureRebuilt(ctx, id, version)
	})
}

// RestoreChange implements cloud.Restorer, and may be lost.
func (f *Faulty) RestoreChange(ctx context.Context, id cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
	return through(ctx, f, opRestoreChange, string(id), looks, func() (cloud.RecipeChange, error) {
		return behind[cloud.Restorer](f).RestoreChange(ctx, id, saved)
	})
}

// Snapshots implements cloud.Shelf, and may be lost.
func (f *Faulty) Snapshots(ctx context.Context, pools ...cloud.PoolID) ([]cloud.Snapshot, error) {
	return through(ctx, f, opSnapshots, "", looks, func() ([]cloud.Snapshot, error) { return behind[cloud.Shelf](f).Snapshots(ctx, pools...) })
}

// DropSnapshot implements cloud.Shelf, and may be lost.
func (f *Faulty) DropSnapshot(ctx context.Context, id string) error {
	_, err := through(ctx, f, opDropSnapshot, id, writes, alone(func() error { return behind[cloud.Shelf](f).DropSnapshot(ctx, id) }))
	return err
}

// PoolsBeside implements cloud.Atlas; the request or answer may be lost. Within one look, PoolsBeside caches the recipes.
func (f *Faulty) PoolsBeside(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error) {
	all, err := through(ctx, f, opPoolsBeside, "", looks, func() ([]cloud.PoolID, error) { return behind[cloud.Atlas](f).PoolsBeside(ctx, pools...) })
	for _, id := range all {
		if pool, err := f.provider.Pool(ctx, id); err == nil {
			cloud.SightOf(ctx).Keep(opPool+" "+string(id), kept[cloud.Pool]{result: pool})
		}
	}
	return all, err
}

// ReadPool passes, because it does no I/O.
func (f *Faulty) ReadPool(text string) (cloud.PoolID, bool) {
	return behind[cloud.Atlas](f).ReadPool(text)
}

// MaxImages passes, because it does no I/O.
func (f *Faulty) MaxImages(pool cloud.PoolID) int {
	return behind[cloud.Census](f).MaxImages(pool)
}
