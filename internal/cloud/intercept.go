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

// Interceptor makes a call, or replaces the call. call sets the result, and may run at most once. The caller gets the
// returned error, and no result if the error is not the error of call.
type Interceptor func(ctx context.Context, op Op, call func(context.Context) error) error

// Intercept returns a provider whose calls with I/O run through the interceptor. Methods without I/O are the provider's.
func Intercept(provider Provider, around Interceptor) Provider {
	return &intercepted{Provider: provider, interceptor: around}
}

// intercepted forwards each method with a context. The embedded provider answers the methods without I/O.
type intercepted struct {
	Provider
	interceptor Interceptor
}

func readOp[Name ~string](op string, resource Name) Op {
	return Op{Name: op, Resource: string(resource)}
}

func writeOp[Name ~string](op string, resource Name) Op {
	return Op{Name: op, Resource: string(resource), Writes: true}
}

// result makes a call with a result.
func result[T any](ctx context.Context, p *intercepted, op Op, call func(context.Context) (T, error)) (T, error) {
	var value, none T
	var own error
	op.Result = &value
	err := p.interceptor(ctx, op, func(ctx context.Context) error {
		value, own = call(ctx)
		return own
	})
	if !errors.Is(err, own) {
		return none, err
	}
	return value, err
}

// with makes a call with one argument and a result.
func with[A, T any](ctx context.Context, p *intercepted, op Op, call func(context.Context, A) (T, error), a A) (T, error) {
	return result(ctx, p, op, func(ctx context.Context) (T, error) { return call(ctx, a) })
}

// callPools makes a call about several pools.
func callPools[T any](ctx context.Context, p *intercepted, op string, call func(context.Context, ...PoolID) (T, error), pools []PoolID) (T, error) {
	return result(ctx, p, Op{Name: op}, func(ctx context.Context) (T, error) { return call(ctx, pools...) })
}

func (p *intercepted) Instance(ctx context.Context, id InstanceID) (Instance, error) {
	return with(ctx, p, readOp("Instance", id), p.Provider.Instance, id)
}

func (p *intercepted) EnsureStopped(ctx context.Context, id InstanceID) (Power, error) {
	return with(ctx, p, writeOp("EnsureStopped", id), p.Provider.EnsureStopped, id)
}

func (p *intercepted) EnsureStarted(ctx context.Context, id InstanceID) (Power, error) {
	return with(ctx, p, writeOp("EnsureStarted", id), p.Provider.EnsureStarted, id)
}

func (p *intercepted) ConsoleOutput(ctx context.Context, id InstanceID) (string, error) {
	return with(ctx, p, readOp("ConsoleOutput", id), p.Provider.ConsoleOutput, id)
}

func (p *intercepted) Snapshot(ctx context.Context, instance InstanceID, name string) (Snapshot, error) {
	return result(ctx, p, readOp("Snapshot", name), func(ctx context.Context) (Snapshot, error) { return p.Provider.Snapshot(ctx, instance, name) })
}

func (p *intercepted) EnsureSnapshot(ctx context.Context, spec SnapshotSpec) (Snapshot, error) {
	return with(ctx, p, writeOp("EnsureSnapshot", spec.Name), p.Provider.EnsureSnapshot, spec)
}

func (p *intercepted) DeleteSnapshot(ctx context.Context, instance InstanceID, name string) error {
	return p.interceptor(ctx, writeOp("DeleteSnapshot", name), func(ctx context.Context) error { return p.Provider.DeleteSnapshot(ctx, instance, name) })
}

func (p *intercepted) DropSnapshot(ctx context.Context, id string) error {
	return p.interceptor(ctx, writeOp("DropSnapshot", id), func(ctx context.Context) error { return p.Provider.DropSnapshot(ctx, id) })
}

func (p *intercepted) PoolsOf(ctx context.Context, nodes []NodeValues) ([]Membership, error) {
	return with(ctx, p, readOp("PoolsOf", ""), p.Provider.PoolsOf, nodes)
}

func (p *intercepted) SetRecipe(ctx context.Context, change RecipeChange) error {
	return p.interceptor(ctx, writeOp("SetRecipe", change.Version), func(ctx context.Context) error { return p.Provider.SetRecipe(ctx, change) })
}

func (p *intercepted) Protection(ctx context.Context, id InstanceID) (Protection, error) {
	return with(ctx, p, readOp("Protection", id), p.Provider.Protection, id)
}

func (p *intercepted) ProtectFromScaleIn(ctx context.Context, id InstanceID, token string) error {
	return p.interceptor(ctx, writeOp("ProtectFromScaleIn", id), func(ctx context.Context) error { return p.Provider.ProtectFromScaleIn(ctx, id, token) })
}

func (p *intercepted) Unprotect(ctx context.Context, id InstanceID, token string) error {
	return p.interceptor(ctx, writeOp("Unprotect", id), func(ctx context.Context) error { return p.Provider.Unprotect(ctx, id, token) })
}

func (p *intercepted) SetCapacity(ctx context.Context, id PoolID, from, to int64) error {
	return p.interceptor(ctx, writeOp("SetCapacity", id), func(ctx context.Context) error { return p.Provider.SetCapacity(ctx, id, from, to) })
}

func (p *intercepted) Instances(ctx context.Context, pool PoolID) ([]Instance, error) {
	return with(ctx, p, readOp("Instances", pool), p.Provider.Instances, pool)
}

func (p *intercepted) PoolsInScope(ctx context.Context, pools ...PoolID) ([]PoolID, error) {
	return callPools(ctx, p, "PoolsInScope", p.Provider.PoolsInScope, pools)
}

func (p *intercepted) Permissions(ctx context.Context, pool PoolID) ([]Permission, error) {
	return with(ctx, p, readOp("Permissions", pool), p.Provider.Permissions, pool)
}

func (p *intercepted) RestoreChange(ctx context.Context, pool PoolID, saved Saved) (RecipeChange, error) {
	return result(ctx, p, readOp("RestoreChange", pool), func(ctx context.Context) (RecipeChange, error) { return p.Provider.RestoreChange(ctx, pool, saved) })
}

func (p *intercepted) EnsureRemoved(ctx context.Context, id InstanceID) (State, error) {
	return with(ctx, p, writeOp("EnsureRemoved", id), p.Provider.EnsureRemoved, id)
}

func (p *intercepted) EnsureRebuilt(ctx context.Context, id InstanceID, version string) (Rebuild, error) {
	return result(ctx, p, writeOp("EnsureRebuilt", id), func(ctx context.Context) (Rebuild, error) { return p.Provider.EnsureRebuilt(ctx, id, version) })
}

func (p *intercepted) PreflightTrial(ctx context.Context, spec TrialSpec) ([]Refusal, error) {
	return with(ctx, p, readOp("PreflightTrial", spec.Pool), p.Provider.PreflightTrial, spec)
}

func (p *intercepted) Trial(ctx context.Context, spec TrialSpec) (Trial, error) {
	return with(ctx, p, readOp("Trial", spec.Version), p.Provider.Trial, spec)
}

func (p *intercepted) Trials(ctx context.Context, pools ...PoolID) ([]TrialSpec, error) {
	return callPools(ctx, p, "Trials", p.Provider.Trials, pools)
}

func (p *intercepted) EnsureTrial(ctx context.Context, spec TrialSpec) (Trial, error) {
	return with(ctx, p, writeOp("EnsureTrial", spec.Version), p.Provider.EnsureTrial, spec)
}

func (p *intercepted) EndTrial(ctx context.Context, spec TrialSpec) (State, error) {
	return with(ctx, p, writeOp("EndTrial", spec.Version), p.Provider.EndTrial, spec)
}

func (p *intercepted) Pool(ctx context.Context, id PoolID) (Pool, error) {
	return with(ctx, p, readOp("Pool", id), p.Provider.Pool, id)
}

func (p *intercepted) Preflight(ctx context.Context, spec PreflightSpec) ([]Refusal, error) {
	return with(ctx, p, readOp("Preflight", spec.Instance), p.Provider.Preflight, spec)
}

func (p *intercepted) Image(ctx context.Context, ref ImageRef) (Image, error) {
	return with(ctx, p, readOp("Image", ref.Version), p.Provider.Image, ref)
}

func (p *intercepted) Images(ctx context.Context, pool PoolID) ([]Image, error) {
	return with(ctx, p, readOp("Images", pool), p.Provider.Images, pool)
}

func (p *intercepted) EnsureImage(ctx context.Context, spec ImageSpec) (Image, error) {
	return with(ctx, p, writeOp("EnsureImage", spec.Version), p.Provider.EnsureImage, spec)
}

func (p *intercepted) TagImage(ctx context.Context, ref ImageRef, tags map[string]string) error {
	return p.interceptor(ctx, writeOp("TagImage", ref.Version), func(ctx context.Context) error { return p.Provider.TagImage(ctx, ref, tags) })
}

func (p *intercepted) DeleteImage(ctx context.Context, ref ImageRef) error {
	return p.interceptor(ctx, writeOp("DeleteImage", ref.Version), func(ctx context.Context) error { return p.Provider.DeleteImage(ctx, ref) })
}

func (p *intercepted) Snapshots(ctx context.Context, pools ...PoolID) ([]Snapshot, error) {
	return callPools(ctx, p, "Snapshots", p.Provider.Snapshots, pools)
}

func (p *intercepted) RecipeChange(ctx context.Context, ref ImageRef, removeBootstrap bool) (RecipeChange, error) {
	return result(ctx, p, readOp("RecipeChange", ref.Version), func(ctx context.Context) (RecipeChange, error) {
		return p.Provider.RecipeChange(ctx, ref, removeBootstrap)
	})
}
