package cloud

import (
	"context"
	"errors"
)

// Op describes a call of a Provider to the function of Intercept.
type Op struct {
	// Name is the name of the method.
	Name string
	// Resource is the object of the call: an instance or pool ID, a snapshot's name or ID, or a version. Empty for a call
	// about several objects.
	Resource string
	// Writes is true if the call can change something.
	Writes bool
	// Result points to the result of the call; nil for a call that returns only an error.
	Result any
}

// Interceptor makes a call, or replaces the call. call sets the result; a read may run again. The caller gets the
// returned error, and no result if the error is not the last error of call.
type Interceptor func(ctx context.Context, op Op, call func(context.Context) error) error

// Intercept returns a provider whose calls with I/O run through the interceptor. Methods without I/O are the provider's.
func Intercept(provider Provider, around Interceptor) Provider {
	return Provider{
		Machines: interceptedMachines{provider.Machines, around}, Pools: interceptedPools{provider.Pools, around},
		TrialBuilder: interceptedTrials{provider.TrialBuilder, around}, WorkshopBuilder: interceptedWorkshops{provider.WorkshopBuilder, around},
		DiskCopier: interceptedCopies{provider.DiskCopier, around}, Versions: interceptedVersions{provider.Versions, around},
	}
}

// The intercepted parts forward each method with a context. The embedded part answers the methods without I/O.
type (
	interceptedMachines struct {
		Machines
		around Interceptor
	}
	interceptedPools struct {
		Pools
		around Interceptor
	}
	interceptedTrials struct {
		TrialBuilder
		around Interceptor
	}
	interceptedWorkshops struct {
		WorkshopBuilder
		around Interceptor
	}
	interceptedCopies struct {
		DiskCopier
		around Interceptor
	}
	interceptedVersions struct {
		Versions
		around Interceptor
	}
)

func readOp[Name ~string](op string, resource Name) Op {
	return Op{Name: op, Resource: string(resource)}
}

func writeOp[Name ~string](op string, resource Name) Op {
	return Op{Name: op, Resource: string(resource), Writes: true}
}

// result makes a call with a result.
func result[T any](ctx context.Context, around Interceptor, op Op, call func(context.Context) (T, error)) (T, error) {
	var value, none T
	var own error
	op.Result = &value
	err := around(ctx, op, func(ctx context.Context) error {
		value, own = call(ctx)
		return own
	})
	if !errors.Is(err, own) {
		return none, err
	}
	return value, err
}

// with makes a call with one argument and a result.
func with[A, T any](ctx context.Context, around Interceptor, op Op, call func(context.Context, A) (T, error), a A) (T, error) {
	return result(ctx, around, op, func(ctx context.Context) (T, error) { return call(ctx, a) })
}

// callPools makes a call about several pools.
func callPools[T any](ctx context.Context, around Interceptor, op string, call func(context.Context, ...PoolID) (T, error), pools []PoolID) (T, error) {
	return result(ctx, around, Op{Name: op}, func(ctx context.Context) (T, error) { return call(ctx, pools...) })
}

func (p interceptedMachines) Instance(ctx context.Context, id InstanceID) (Instance, error) {
	return with(ctx, p.around, readOp("Instance", id), p.Machines.Instance, id)
}

func (p interceptedMachines) EnsureStopped(ctx context.Context, id InstanceID) (Power, error) {
	return with(ctx, p.around, writeOp("EnsureStopped", id), p.Machines.EnsureStopped, id)
}

func (p interceptedMachines) EnsureStarted(ctx context.Context, id InstanceID) (Power, error) {
	return with(ctx, p.around, writeOp("EnsureStarted", id), p.Machines.EnsureStarted, id)
}

func (p interceptedMachines) Restart(ctx context.Context, id InstanceID) error {
	return p.around(ctx, writeOp("Restart", id), func(ctx context.Context) error { return p.Machines.Restart(ctx, id) })
}

func (p interceptedMachines) ConsoleOutput(ctx context.Context, id InstanceID) (string, error) {
	return with(ctx, p.around, readOp("ConsoleOutput", id), p.Machines.ConsoleOutput, id)
}

func (p interceptedMachines) Snapshot(ctx context.Context, instance InstanceID, name string) (Snapshot, error) {
	return result(ctx, p.around, readOp("Snapshot", name), func(ctx context.Context) (Snapshot, error) { return p.Machines.Snapshot(ctx, instance, name) })
}

func (p interceptedMachines) EnsureSnapshot(ctx context.Context, spec SnapshotSpec) (Snapshot, error) {
	return with(ctx, p.around, writeOp("EnsureSnapshot", spec.Name), p.Machines.EnsureSnapshot, spec)
}

func (p interceptedMachines) DeleteSnapshot(ctx context.Context, instance InstanceID, name string) error {
	return p.around(ctx, writeOp("DeleteSnapshot", name), func(ctx context.Context) error { return p.Machines.DeleteSnapshot(ctx, instance, name) })
}

func (p interceptedMachines) DropSnapshot(ctx context.Context, id string) error {
	return p.around(ctx, writeOp("DropSnapshot", id), func(ctx context.Context) error { return p.Machines.DropSnapshot(ctx, id) })
}

func (p interceptedPools) PoolsOf(ctx context.Context, nodes []NodeValues) ([]Membership, error) {
	return with(ctx, p.around, readOp("PoolsOf", ""), p.Pools.PoolsOf, nodes)
}

func (p interceptedPools) SetRecipe(ctx context.Context, change RecipeChange) error {
	return p.around(ctx, writeOp("SetRecipe", change.Version), func(ctx context.Context) error { return p.Pools.SetRecipe(ctx, change) })
}

func (p interceptedPools) Protection(ctx context.Context, id InstanceID) (Protection, error) {
	return with(ctx, p.around, readOp("Protection", id), p.Pools.Protection, id)
}

func (p interceptedPools) ProtectFromScaleIn(ctx context.Context, id InstanceID, token string) error {
	return p.around(ctx, writeOp("ProtectFromScaleIn", id), func(ctx context.Context) error { return p.Pools.ProtectFromScaleIn(ctx, id, token) })
}

func (p interceptedPools) Unprotect(ctx context.Context, id InstanceID, token string) error {
	return p.around(ctx, writeOp("Unprotect", id), func(ctx context.Context) error { return p.Pools.Unprotect(ctx, id, token) })
}

func (p interceptedPools) Instances(ctx context.Context, pool PoolID) ([]Instance, error) {
	return with(ctx, p.around, readOp("Instances", pool), p.Pools.Instances, pool)
}

func (p interceptedPools) PoolsInScope(ctx context.Context, pools ...PoolID) ([]PoolID, error) {
	return callPools(ctx, p.around, "PoolsInScope", p.Pools.PoolsInScope, pools)
}

func (p interceptedPools) Permissions(ctx context.Context, pool PoolID) ([]Permission, error) {
	return with(ctx, p.around, readOp("Permissions", pool), p.Pools.Permissions, pool)
}

func (p interceptedPools) RestoreChange(ctx context.Context, pool PoolID, saved Saved) (RecipeChange, error) {
	return result(ctx, p.around, readOp("RestoreChange", pool),
		func(ctx context.Context) (RecipeChange, error) { return p.Pools.RestoreChange(ctx, pool, saved) })
}

func (p interceptedPools) ResizeWarmPool(ctx context.Context, pool PoolID, from, to WarmLimits) error {
	return p.around(ctx, writeOp("ResizeWarmPool", pool), func(ctx context.Context) error { return p.Pools.ResizeWarmPool(ctx, pool, from, to) })
}

func (p interceptedPools) EnsureRebuilt(ctx context.Context, id InstanceID, version string) (Rebuild, error) {
	return result(ctx, p.around, writeOp("EnsureRebuilt", id), func(ctx context.Context) (Rebuild, error) { return p.Pools.EnsureRebuilt(ctx, id, version) })
}

func (p interceptedTrials) PreflightTrial(ctx context.Context, spec TrialSpec) ([]Refusal, error) {
	return with(ctx, p.around, readOp("PreflightTrial", spec.Pool), p.TrialBuilder.PreflightTrial, spec)
}

func (p interceptedTrials) Trial(ctx context.Context, spec TrialSpec) (Trial, error) {
	return with(ctx, p.around, readOp("Trial", spec.Version), p.TrialBuilder.Trial, spec)
}

func (p interceptedTrials) Trials(ctx context.Context, pools ...PoolID) ([]TrialSpec, error) {
	return callPools(ctx, p.around, "Trials", p.TrialBuilder.Trials, pools)
}

func (p interceptedTrials) EnsureTrial(ctx context.Context, spec TrialSpec) (Trial, error) {
	return with(ctx, p.around, writeOp("EnsureTrial", spec.Version), p.TrialBuilder.EnsureTrial, spec)
}

func (p interceptedTrials) EndTrial(ctx context.Context, spec TrialSpec) (State, error) {
	return with(ctx, p.around, writeOp("EndTrial", spec.Version), p.TrialBuilder.EndTrial, spec)
}

func (p interceptedWorkshops) PreflightWorkshop(ctx context.Context, spec WorkshopSpec) ([]Refusal, error) {
	return with(ctx, p.around, readOp("PreflightWorkshop", spec.Pool), p.WorkshopBuilder.PreflightWorkshop, spec)
}

func (p interceptedWorkshops) Workshop(ctx context.Context, spec WorkshopSpec) (Trial, error) {
	return with(ctx, p.around, readOp("Workshop", spec.Name), p.WorkshopBuilder.Workshop, spec)
}

func (p interceptedWorkshops) Workshops(ctx context.Context, pools ...PoolID) ([]WorkshopSpec, error) {
	return callPools(ctx, p.around, "Workshops", p.WorkshopBuilder.Workshops, pools)
}

func (p interceptedWorkshops) EnsureWorkshop(ctx context.Context, spec WorkshopSpec) (Trial, error) {
	return with(ctx, p.around, writeOp("EnsureWorkshop", spec.Name), p.WorkshopBuilder.EnsureWorkshop, spec)
}

func (p interceptedWorkshops) EndWorkshop(ctx context.Context, spec WorkshopSpec) (State, error) {
	return with(ctx, p.around, writeOp("EndWorkshop", spec.Name), p.WorkshopBuilder.EndWorkshop, spec)
}

func (p interceptedCopies) Copy(ctx context.Context, spec CopySpec) (DiskCopy, error) {
	return with(ctx, p.around, readOp("Copy", spec.Name), p.DiskCopier.Copy, spec)
}

func (p interceptedCopies) EnsureAttached(ctx context.Context, spec CopySpec) (DiskCopy, error) {
	return with(ctx, p.around, writeOp("EnsureAttached", spec.Name), p.DiskCopier.EnsureAttached, spec)
}

func (p interceptedCopies) EnsureDetached(ctx context.Context, spec CopySpec) (DiskCopy, error) {
	return with(ctx, p.around, writeOp("EnsureDetached", spec.Name), p.DiskCopier.EnsureDetached, spec)
}

func (p interceptedCopies) EnsureCopySnapshot(ctx context.Context, spec CopySpec, snapshot SnapshotSpec) (Snapshot, error) {
	return result(ctx, p.around, writeOp("EnsureCopySnapshot", snapshot.Name),
		func(ctx context.Context) (Snapshot, error) {
			return p.DiskCopier.EnsureCopySnapshot(ctx, spec, snapshot)
		})
}

func (p interceptedCopies) EndCopy(ctx context.Context, spec CopySpec) (State, error) {
	return with(ctx, p.around, writeOp("EndCopy", spec.Name), p.DiskCopier.EndCopy, spec)
}

func (p interceptedVersions) Pool(ctx context.Context, id PoolID) (Pool, error) {
	return with(ctx, p.around, readOp("Pool", id), p.Versions.Pool, id)
}

func (p interceptedVersions) Preflight(ctx context.Context, spec PreflightSpec) ([]Refusal, error) {
	return with(ctx, p.around, readOp("Preflight", spec.Instance), p.Versions.Preflight, spec)
}

func (p interceptedVersions) Image(ctx context.Context, ref ImageRef) (Image, error) {
	return with(ctx, p.around, readOp("Image", ref.Version), p.Versions.Image, ref)
}

func (p interceptedVersions) Images(ctx context.Context, pool PoolID) ([]Image, error) {
	return with(ctx, p.around, readOp("Images", pool), p.Versions.Images, pool)
}

func (p interceptedVersions) EnsureImage(ctx context.Context, spec ImageSpec) (Image, error) {
	return with(ctx, p.around, writeOp("EnsureImage", spec.Version), p.Versions.EnsureImage, spec)
}

func (p interceptedVersions) TagImage(ctx context.Context, ref ImageRef, tags map[string]string) error {
	return p.around(ctx, writeOp("TagImage", ref.Version), func(ctx context.Context) error { return p.Versions.TagImage(ctx, ref, tags) })
}

func (p interceptedVersions) AllowLaunches(ctx context.Context, ref ImageRef, allow bool) error {
	return p.around(ctx, writeOp("AllowLaunches", ref.Version), func(ctx context.Context) error { return p.Versions.AllowLaunches(ctx, ref, allow) })
}

func (p interceptedVersions) DeleteImage(ctx context.Context, ref ImageRef) error {
	return p.around(ctx, writeOp("DeleteImage", ref.Version), func(ctx context.Context) error { return p.Versions.DeleteImage(ctx, ref) })
}

func (p interceptedVersions) Snapshots(ctx context.Context, pools ...PoolID) ([]Snapshot, error) {
	return callPools(ctx, p.around, "Snapshots", p.Versions.Snapshots, pools)
}

func (p interceptedVersions) Copies(ctx context.Context, pools ...PoolID) ([]CopySpec, error) {
	return callPools(ctx, p.around, "Copies", p.Versions.Copies, pools)
}

func (p interceptedVersions) RecipeChange(ctx context.Context, ref ImageRef, removeBootstrap bool) (RecipeChange, error) {
	return result(ctx, p.around, readOp("RecipeChange", ref.Version), func(ctx context.Context) (RecipeChange, error) {
		return p.Versions.RecipeChange(ctx, ref, removeBootstrap)
	})
}
