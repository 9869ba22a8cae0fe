package cloudtest_test

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// hooks is a provider with replaced calls.
type hooks struct {
	cloud.Provider
	sameInstance   func(a, b cloud.InstanceID) bool
	instance       func(context.Context, cloud.InstanceID) (cloud.Instance, error)
	instances      func(context.Context, cloud.PoolID) ([]cloud.Instance, error)
	ensureStopped  func(context.Context, cloud.InstanceID) (cloud.Power, error)
	ensureStarted  func(context.Context, cloud.InstanceID) (cloud.Power, error)
	holdOf         func(context.Context, cloud.InstanceID) (cloud.Protection, error)
	hold           func(context.Context, cloud.InstanceID, string) error
	unhold         func(context.Context, cloud.InstanceID, string) error
	snapshot       func(context.Context, cloud.InstanceID, string) (cloud.Snapshot, error)
	ensureSnapshot func(context.Context, cloud.SnapshotSpec) (cloud.Snapshot, error)
	deleteSnapshot func(context.Context, cloud.InstanceID, string) error
	image          func(context.Context, cloud.ImageRef) (cloud.Image, error)
	images         func(context.Context, cloud.PoolID) ([]cloud.Image, error)
	ensureImage    func(context.Context, cloud.ImageSpec) (cloud.Image, error)
	tagImage       func(context.Context, cloud.ImageRef, map[string]string) error
	deleteImage    func(context.Context, cloud.ImageRef) error
	poolsOf        func(context.Context, []cloud.NodeValues) ([]cloud.Membership, error)
	pool           func(context.Context, cloud.PoolID) (cloud.Pool, error)
	preflight      func(context.Context, cloud.PreflightSpec) ([]cloud.Refusal, error)
	recipeChange   func(context.Context, cloud.ImageRef, bool) (cloud.RecipeChange, error)
	setRecipe      func(context.Context, cloud.RecipeChange) error
	setCapacity    func(context.Context, cloud.PoolID, int64, int64) error
	snapshots      func(context.Context, ...cloud.PoolID) ([]cloud.Snapshot, error)
	dropSnapshot   func(context.Context, string) error
	poolsBeside    func(context.Context, ...cloud.PoolID) ([]cloud.PoolID, error)
	readPool       func(string) (cloud.PoolID, bool)
	restoreChange  func(context.Context, cloud.PoolID, cloud.Saved) (cloud.RecipeChange, error)
	ensureRebuilt  func(context.Context, cloud.InstanceID, string) (cloud.Rebuild, error)
	ensureRemoved  func(context.Context, cloud.InstanceID) (cloud.State, error)
	preflightTrial func(context.Context, cloud.TrialSpec) ([]cloud.Refusal, error)
	trial          func(context.Context, cloud.TrialSpec) (cloud.Trial, error)
	ensureTrial    func(context.Context, cloud.TrialSpec) (cloud.Trial, error)
	trials         func(context.Context, ...cloud.PoolID) ([]cloud.TrialSpec, error)
	closeTrial     func(context.Context, cloud.TrialSpec) error
	endTrial       func(context.Context, cloud.TrialSpec) (cloud.State, error)
}

func (h hooks) SameInstance(a, b cloud.InstanceID) bool {
	if h.sameInstance != nil {
		return h.sameInstance(a, b)
	}
	return h.Provider.SameInstance(a, b)
}

func (h hooks) Instance(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error) {
	return hookOr(h.instance, h.Provider.Instance)(ctx, id)
}

func (h hooks) Instances(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
	return hookOr(h.instances, h.Provider.(cloud.InstanceLister).Instances)(ctx, pool)
}

func (h hooks) Snapshots(ctx context.Context, pools ...cloud.PoolID) ([]cloud.Snapshot, error) {
	if h.snapshots != nil {
		return h.snapshots(ctx, pools...)
	}
	return h.Provider.(cloud.SnapshotLister).Snapshots(ctx, pools...)
}

func (h hooks) DropSnapshot(ctx context.Context, id string) error {
	if h.dropSnapshot != nil {
		return h.dropSnapshot(ctx, id)
	}
	return h.Provider.(cloud.SnapshotLister).DropSnapshot(ctx, id)
}

func (h hooks) PoolsInScope(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error) {
	if h.poolsBeside != nil {
		return h.poolsBeside(ctx, pools...)
	}
	return h.Provider.(cloud.PoolFinder).PoolsInScope(ctx, pools...)
}

func (h hooks) ReadPool(text string) (cloud.PoolID, bool) {
	if h.readPool != nil {
		return h.readPool(text)
	}
	return h.Provider.(cloud.PoolFinder).ReadPool(text)
}

func (h hooks) RestoreChange(ctx context.Context, id cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
	if h.restoreChange != nil {
		return h.restoreChange(ctx, id, saved)
	}
	return h.Provider.(cloud.RecipeRestorer).RestoreChange(ctx, id, saved)
}

func (h hooks) MaxImages(pool cloud.PoolID) int {
	return h.Provider.(cloud.InstanceLister).MaxImages(pool)
}

func (h hooks) EnsureRebuilt(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error) {
	if h.ensureRebuilt != nil {
		return h.ensureRebuilt(ctx, id, version)
	}
	return h.Provider.(cloud.Rebuilder).EnsureRebuilt(ctx, id, version)
}

func (h hooks) EnsureRemoved(ctx context.Context, id cloud.InstanceID) (cloud.State, error) {
	return hookOr(h.ensureRemoved, h.Provider.(cloud.Remover).EnsureRemoved)(ctx, id)
}

func (h hooks) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	return hookOr(h.preflightTrial, h.Provider.(cloud.TrialRunner).PreflightTrial)(ctx, spec)
}

func (h hooks) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return hookOr(h.trial, h.Provider.(cloud.TrialRunner).Trial)(ctx, spec)
}

func (h hooks) Trials(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error) {
	if h.trials != nil {
		return h.trials(ctx, pools...)
	}
	return h.Provider.(cloud.TrialRunner).Trials(ctx, pools...)
}

func (h hooks) EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return hookOr(h.ensureTrial, h.Provider.(cloud.TrialRunner).EnsureTrial)(ctx, spec)
}

func (h hooks) CloseTrial(ctx context.Context, spec cloud.TrialSpec) error {
	if h.closeTrial != nil {
		return h.closeTrial(ctx, spec)
	}
	return h.Provider.(cloud.TrialRunner).CloseTrial(ctx, spec)
}

func (h hooks) EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	return hookOr(h.endTrial, h.Provider.(cloud.TrialRunner).EndTrial)(ctx, spec)
}

func (h hooks) EnsureStopped(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	return hookOr(h.ensureStopped, h.Provider.EnsureStopped)(ctx, id)
}

func (h hooks) EnsureStarted(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	return hookOr(h.ensureStarted, h.Provider.EnsureStarted)(ctx, id)
}

func (h hooks) Protection(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
	return hookOr(h.holdOf, h.Provider.Protection)(ctx, id)
}

func (h hooks) ProtectFromScaleIn(ctx context.Context, id cloud.InstanceID, token string) error {
	if h.hold != nil {
		return h.hold(ctx, id, token)
	}
	return h.Provider.ProtectFromScaleIn(ctx, id, token)
}

func (h hooks) Unprotect(ctx context.Context, id cloud.InstanceID, token string) error {
	if h.unhold != nil {
		return h.unhold(ctx, id, token)
	}
	return h.Provider.Unprotect(ctx, id, token)
}

func (h hooks) Snapshot(ctx context.Context, id cloud.InstanceID, name string) (cloud.Snapshot, error) {
	if h.snapshot != nil {
		return h.snapshot(ctx, id, name)
	}
	return h.Provider.Snapshot(ctx, id, name)
}

func (h hooks) EnsureSnapshot(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
	return hookOr(h.ensureSnapshot, h.Provider.EnsureSnapshot)(ctx, spec)
}

func (h hooks) DeleteSnapshot(ctx context.Context, id cloud.InstanceID, name string) error {
	if h.deleteSnapshot != nil {
		return h.deleteSnapshot(ctx, id, name)
	}
	return h.Provider.DeleteSnapshot(ctx, id, name)
}

func (h hooks) Image(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error) {
	return hookOr(h.image, h.Provider.Image)(ctx, ref)
}

func (h hooks) Images(ctx context.Context, id cloud.PoolID) ([]cloud.Image, error) {
	return hookOr(h.images, h.Provider.Images)(ctx, id)
}

func (h hooks) EnsureImage(ctx context.Context, spec cloud.ImageSpec) (cloud.Image, error) {
	return hookOr(h.ensureImage, h.Provider.EnsureImage)(ctx, spec)
}

func (h hooks) TagImage(ctx context.Context, ref cloud.ImageRef, tags map[string]string) error {
	if h.tagImage != nil {
		return h.tagImage(ctx, ref, tags)
	}
	return h.Provider.TagImage(ctx, ref, tags)
}

func (h hooks) DeleteImage(ctx context.Context, ref cloud.ImageRef) error {
	if h.deleteImage != nil {
		return h.deleteImage(ctx, ref)
	}
	return h.Provider.DeleteImage(ctx, ref)
}

func (h hooks) PoolsOf(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
	return hookOr(h.poolsOf, h.Provider.PoolsOf)(ctx, nodes)
}

func (h hooks) Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error) {
	return hookOr(h.pool, h.Provider.Pool)(ctx, id)
}

func (h hooks) Preflight(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	return hookOr(h.preflight, h.Provider.Preflight)(ctx, spec)
}

func (h hooks) RecipeChange(ctx context.Context, ref cloud.ImageRef, removeBootstrap bool) (cloud.RecipeChange, error) {
	if h.recipeChange != nil {
		return h.recipeChange(ctx, ref, removeBootstrap)
	}
	return h.Provider.RecipeChange(ctx, ref, removeBootstrap)
}

func (h hooks) SetRecipe(ctx context.Context, change cloud.RecipeChange) error {
	if h.setRecipe != nil {
		return h.setRecipe(ctx, change)
	}
	return h.Provider.SetRecipe(ctx, change)
}

func (h hooks) SetCapacity(ctx context.Context, id cloud.PoolID, from, to int64) error {
	if h.setCapacity != nil {
		return h.setCapacity(ctx, id, from, to)
	}
	return h.Provider.SetCapacity(ctx, id, from, to)
}

// hookOr returns the hook if there is a hook.
func hookOr[A, R any](hook, real func(context.Context, A) (R, error)) func(context.Context, A) (R, error) {
	if hook != nil {
		return hook
	}
	return real
}
