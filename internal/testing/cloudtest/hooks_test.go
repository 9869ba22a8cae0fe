package cloudtest_test

import (
	"context"
	"reflect"

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
	restart        func(context.Context, cloud.InstanceID) error
	consoleOutput  func(context.Context, cloud.InstanceID) (string, error)
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
	resizeWarmPool func(context.Context, cloud.PoolID, cloud.WarmLimits, cloud.WarmLimits) error
	allowLaunches  func(context.Context, cloud.ImageRef, bool) error
	deleteImage    func(context.Context, cloud.ImageRef) error
	poolsOf        func(context.Context, []cloud.NodeValues) ([]cloud.Membership, error)
	pool           func(context.Context, cloud.PoolID) (cloud.Pool, error)
	preflight      func(context.Context, cloud.PreflightSpec) ([]cloud.Refusal, error)
	recipeChange   func(context.Context, cloud.ImageRef, bool) (cloud.RecipeChange, error)
	setRecipe      func(context.Context, cloud.RecipeChange) error
	snapshots      func(context.Context, ...cloud.PoolID) ([]cloud.Snapshot, error)
	dropSnapshot   func(context.Context, string) error
	otherPools     func(context.Context, ...cloud.PoolID) ([]cloud.PoolID, error)
	readPool       func(string) (cloud.PoolID, bool)
	restoreChange  func(context.Context, cloud.PoolID, cloud.Saved) (cloud.RecipeChange, error)
	cannotRebuild  bool
	ensureRebuilt  func(context.Context, cloud.InstanceID, string) (cloud.Rebuild, error)
	preflightTrial func(context.Context, cloud.TrialSpec) ([]cloud.Refusal, error)
	trial          func(context.Context, cloud.TrialSpec) (cloud.Trial, error)
	ensureTrial    func(context.Context, cloud.TrialSpec) (cloud.Trial, error)
	trials         func(context.Context, ...cloud.PoolID) ([]cloud.TrialSpec, error)
	endTrial       func(context.Context, cloud.TrialSpec) (cloud.State, error)

	cannotBuildWorkshops bool
	copiesOnRequest      bool
	preflightWorkshop    func(context.Context, cloud.WorkshopSpec) ([]cloud.Refusal, error)
	workshop             func(context.Context, cloud.WorkshopSpec) (cloud.Trial, error)
	workshops            func(context.Context, ...cloud.PoolID) ([]cloud.WorkshopSpec, error)
	ensureWorkshop       func(context.Context, cloud.WorkshopSpec) (cloud.Trial, error)
	endWorkshop          func(context.Context, cloud.WorkshopSpec) (cloud.State, error)
	copyOf               func(context.Context, cloud.CopySpec) (cloud.DiskCopy, error)
	copies               func(context.Context, ...cloud.PoolID) ([]cloud.CopySpec, error)
	ensureAttached       func(context.Context, cloud.CopySpec) (cloud.DiskCopy, error)
	ensureDetached       func(context.Context, cloud.CopySpec) (cloud.DiskCopy, error)
	ensureCopySnapshot   func(context.Context, cloud.CopySpec, cloud.SnapshotSpec) (cloud.Snapshot, error)
	endCopy              func(context.Context, cloud.CopySpec) (cloud.State, error)
}

func (h hooks) CanBuildWorkshops() bool {
	return !h.cannotBuildWorkshops && h.Provider.CanBuildWorkshops()
}

func (h hooks) CopiesOnRequest() bool { return h.copiesOnRequest || h.Provider.CopiesOnRequest() }

func (h hooks) PreflightWorkshop(ctx context.Context, spec cloud.WorkshopSpec) ([]cloud.Refusal, error) {
	return hookOr(h.preflightWorkshop, h.Provider.PreflightWorkshop)(ctx, spec)
}

func (h hooks) Workshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
	return hookOr(h.workshop, h.Provider.Workshop)(ctx, spec)
}

func (h hooks) Workshops(ctx context.Context, pools ...cloud.PoolID) ([]cloud.WorkshopSpec, error) {
	return hookOr(h.workshops, h.Provider.Workshops)(ctx, pools...)
}

func (h hooks) EnsureWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
	return hookOr(h.ensureWorkshop, h.Provider.EnsureWorkshop)(ctx, spec)
}

func (h hooks) EndWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.State, error) {
	return hookOr(h.endWorkshop, h.Provider.EndWorkshop)(ctx, spec)
}

func (h hooks) Copy(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
	return hookOr(h.copyOf, h.Provider.Copy)(ctx, spec)
}

func (h hooks) Copies(ctx context.Context, pools ...cloud.PoolID) ([]cloud.CopySpec, error) {
	return hookOr(h.copies, h.Provider.Copies)(ctx, pools...)
}

func (h hooks) EnsureAttached(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
	return hookOr(h.ensureAttached, h.Provider.EnsureAttached)(ctx, spec)
}

func (h hooks) EnsureDetached(ctx context.Context, spec cloud.CopySpec) (cloud.DiskCopy, error) {
	return hookOr(h.ensureDetached, h.Provider.EnsureDetached)(ctx, spec)
}

func (h hooks) EnsureCopySnapshot(ctx context.Context, spec cloud.CopySpec, shot cloud.SnapshotSpec) (cloud.Snapshot, error) {
	return hookOr(h.ensureCopySnapshot, h.Provider.EnsureCopySnapshot)(ctx, spec, shot)
}

func (h hooks) EndCopy(ctx context.Context, spec cloud.CopySpec) (cloud.State, error) {
	return hookOr(h.endCopy, h.Provider.EndCopy)(ctx, spec)
}

func (h hooks) SameInstance(a, b cloud.InstanceID) bool {
	return hookOr(h.sameInstance, h.Provider.SameInstance)(a, b)
}

func (h hooks) Instance(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error) {
	return hookOr(h.instance, h.Provider.Instance)(ctx, id)
}

func (h hooks) ConsoleOutput(ctx context.Context, id cloud.InstanceID) (string, error) {
	return hookOr(h.consoleOutput, h.Provider.ConsoleOutput)(ctx, id)
}

func (h hooks) Instances(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error) {
	return hookOr(h.instances, h.Provider.Instances)(ctx, pool)
}

func (h hooks) Snapshots(ctx context.Context, pools ...cloud.PoolID) ([]cloud.Snapshot, error) {
	return hookOr(h.snapshots, h.Provider.Snapshots)(ctx, pools...)
}

func (h hooks) DropSnapshot(ctx context.Context, id string) error {
	return hookOr(h.dropSnapshot, h.Provider.DropSnapshot)(ctx, id)
}

func (h hooks) PoolsInScope(ctx context.Context, pools ...cloud.PoolID) ([]cloud.PoolID, error) {
	return hookOr(h.otherPools, h.Provider.PoolsInScope)(ctx, pools...)
}

func (h hooks) ReadPool(text string) (cloud.PoolID, bool) {
	return hookOr(h.readPool, h.Provider.ReadPool)(text)
}

func (h hooks) RestoreChange(ctx context.Context, id cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
	return hookOr(h.restoreChange, h.Provider.RestoreChange)(ctx, id, saved)
}

func (h hooks) CanRebuild(pool cloud.PoolID) bool {
	return !h.cannotRebuild && h.Provider.CanRebuild(pool)
}

func (h hooks) ResizeWarmPool(ctx context.Context, id cloud.PoolID, from, to cloud.WarmLimits) error {
	return hookOr(h.resizeWarmPool, h.Provider.ResizeWarmPool)(ctx, id, from, to)
}

func (h hooks) EnsureRebuilt(ctx context.Context, id cloud.InstanceID, version string) (cloud.Rebuild, error) {
	return hookOr(h.ensureRebuilt, h.Provider.EnsureRebuilt)(ctx, id, version)
}

func (h hooks) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	return hookOr(h.preflightTrial, h.Provider.PreflightTrial)(ctx, spec)
}

func (h hooks) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return hookOr(h.trial, h.Provider.Trial)(ctx, spec)
}

func (h hooks) Trials(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error) {
	return hookOr(h.trials, h.Provider.Trials)(ctx, pools...)
}

func (h hooks) EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return hookOr(h.ensureTrial, h.Provider.EnsureTrial)(ctx, spec)
}

func (h hooks) EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	return hookOr(h.endTrial, h.Provider.EndTrial)(ctx, spec)
}

func (h hooks) EnsureStopped(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	return hookOr(h.ensureStopped, h.Provider.EnsureStopped)(ctx, id)
}

func (h hooks) EnsureStarted(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	return hookOr(h.ensureStarted, h.Provider.EnsureStarted)(ctx, id)
}

func (h hooks) Restart(ctx context.Context, id cloud.InstanceID) error {
	return hookOr(h.restart, h.Provider.Restart)(ctx, id)
}

func (h hooks) Protection(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
	return hookOr(h.holdOf, h.Provider.Protection)(ctx, id)
}

func (h hooks) ProtectFromScaleIn(ctx context.Context, id cloud.InstanceID, token string) error {
	return hookOr(h.hold, h.Provider.ProtectFromScaleIn)(ctx, id, token)
}

func (h hooks) Unprotect(ctx context.Context, id cloud.InstanceID, token string) error {
	return hookOr(h.unhold, h.Provider.Unprotect)(ctx, id, token)
}

func (h hooks) Snapshot(ctx context.Context, id cloud.InstanceID, name string) (cloud.Snapshot, error) {
	return hookOr(h.snapshot, h.Provider.Snapshot)(ctx, id, name)
}

func (h hooks) EnsureSnapshot(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
	return hookOr(h.ensureSnapshot, h.Provider.EnsureSnapshot)(ctx, spec)
}

func (h hooks) DeleteSnapshot(ctx context.Context, id cloud.InstanceID, name string) error {
	return hookOr(h.deleteSnapshot, h.Provider.DeleteSnapshot)(ctx, id, name)
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
	return hookOr(h.tagImage, h.Provider.TagImage)(ctx, ref, tags)
}

func (h hooks) AllowLaunches(ctx context.Context, ref cloud.ImageRef, allow bool) error {
	return hookOr(h.allowLaunches, h.Provider.AllowLaunches)(ctx, ref, allow)
}

func (h hooks) DeleteImage(ctx context.Context, ref cloud.ImageRef) error {
	return hookOr(h.deleteImage, h.Provider.DeleteImage)(ctx, ref)
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
	return hookOr(h.recipeChange, h.Provider.RecipeChange)(ctx, ref, removeBootstrap)
}

func (h hooks) SetRecipe(ctx context.Context, change cloud.RecipeChange) error {
	return hookOr(h.setRecipe, h.Provider.SetRecipe)(ctx, change)
}

// hookOr returns the hook if there is a hook.
func hookOr[Call any](hook, real Call) Call {
	if reflect.ValueOf(hook).IsNil() {
		return real
	}
	return hook
}
