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

// Protection may be lost.
func (f *Faulty) Protection(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
	return through(ctx, f, opProtection, string(id), looksOnce, func() (cloud.Protection, error) { return f.provider.Protection(ctx, id) })
}

// ProtectFromScaleIn may be lost.
func (f *Faulty) ProtectFromScaleIn(ctx context.Context, id cloud.InstanceID, token string) error {
	_, err := through(ctx, f, opProtect, string(id), writes, alone(func() error { return f.provider.ProtectFromScaleIn(ctx, id, token) }))
	return err
}

// Unprotect may be lost.
func (f *Faulty) Unprotect(ctx context.Context, id cloud.InstanceID, token string) error {
	_, err := through(ctx, f, opUnprotect, string(id), writes, alone(func() error { return f.provider.Unprotect(ctx, id, token) }))
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

// Instances implements cloud.InstanceLister, and may be lost.
func (f *Faulty) Instances(ctx context.Context, id cloud.PoolID) ([]cloud.Instance, error) {
	return through(ctx, f, opInstances, string(id), looksOnce, func() ([]cloud.Instance, error) { return behind[cloud.InstanceLister](f).Instances(ctx, id) })
}

// Permissions implements cloud.PermissionChecker, and may be lost.
func (f *Faulty) Permissions(ctx context.Context, id cloud.PoolID) ([]cloud.Permission, error) {
	return through(ctx, f, opPermissions, string(id), looks, func() ([]cloud.Permission, error) { return behind[cloud.PermissionChecker](f).Permissions(ctx, id) })
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

// RestoreChange implements cloud.RecipeRestorer, and may be lost.
func (f *Faulty) RestoreChange(ctx context.Context, id cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
	return through(ctx, f, opRestoreChange, string(id), looks, func() (cloud.RecipeChange, error) {
		return behind[cloud.RecipeRestorer](f).RestoreChange(ctx, id, saved)
	})
}

// Snapshots implements cloud.SnapshotLister, and may be lost.
func (f *Faulty) Snapshots(ctx context.Context, pools ...cloud.PoolID) ([]cloud.Snapshot, error) {
	return through(ctx, f, opSnapshots, "", looks, func() ([]cloud.Snapshot, error) { return behind[cloud.SnapshotLister](f).Snapshots(ctx, pools...) })
}

// DropSnapshot implements cloud.SnapshotLister, and may be lost.
func (f *Faulty) DropSnapshot(ctx context.Context, id string) error {
	_, err := through(ctx, f, opDropSnapshot, id, writes, alone(func() error { return behind[cloud.SnapshotLister](f).DropSnapshot(ctx, id) }))
	return err
}

// PoolsInScope implements cloud.PoolFinder; the request or answer may be lost. Within one look, PoolsInScope caches the recipes.
func (f *Faulty) PoolsInScope(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error) {
	all, err := through(ctx, f, opPoolsInScope, "", looks, func() ([]cloud.PoolID, error) { return behind[cloud.PoolFinder](f).PoolsInScope(ctx, pools...) })
	for _, id := range all {
		if pool, err := f.provider.Pool(ctx, id); err == nil {
			cloud.ReadCacheOf(ctx).Put(opPool+" "+string(id), kept[cloud.Pool]{result: pool})
		}
	}
	return all, err
}

// ReadPool passes, because it does no I/O.
func (f *Faulty) ReadPool(text string) (cloud.PoolID, bool) {
	return behind[cloud.PoolFinder](f).ReadPool(text)
}

// MaxImages passes, because it does no I/O.
func (f *Faulty) MaxImages(pool cloud.PoolID) int {
	return behind[cloud.InstanceLister](f).MaxImages(pool)
}
