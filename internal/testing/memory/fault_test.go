package memory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name    string
		outcome memory.Outcome
		kind    cloud.Kind
		crashed bool
		done    bool
	}{
		{"pass", memory.Pass(), "", false, true},
		{"fail before", memory.FailBefore(cloud.Unavailable), cloud.Unavailable, false, false},
		{"fail after", memory.FailAfter(cloud.Conflict), cloud.Conflict, false, true},
		{"throttle", memory.Throttle(time.Minute), cloud.Throttled, false, false},
		{"crash before", memory.CrashBefore(), "", true, false},
		{"crash after", memory.CrashAfter(), "", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			f := memory.NewFaulty(r.Cloud, func(memory.Call) memory.Outcome { return c.outcome })
			var err error
			crashed := memory.RunUntilCrash(func() { err = f.ProtectFromScaleIn(t.Context(), r.a, cloud.TokenUnprotected) })
			if crashed != c.crashed || cloud.KindOf(err) != c.kind {
				t.Errorf("crashed %t with error %v", crashed, err)
			}
			var e *cloud.Error
			if errors.As(err, &e) && (e.Op == "" || e.Resource == "") {
				t.Errorf("error %q does not say what was lost", err)
			}
			if c.kind == cloud.Throttled && cloud.RetryAfter(err) != time.Minute {
				t.Errorf("come back after %s", cloud.RetryAfter(err))
			}
			if done := r.World().Instance(r.a).ScaleInProtected; done != c.done {
				t.Errorf("done %t, want %t", done, c.done)
			}
		})
	}
}

// callAll makes every call that can be lost once, and ignores errors.
func callAll(t *testing.T, p cloud.Provider, r *rig) {
	ctx, ref := t.Context(), cloud.ImageRef{Pool: r.pool, Version: "2026.11.21"}
	_, _ = p.Instance(ctx, r.a)
	_, _ = p.EnsureStopped(ctx, r.a)
	_, _ = p.EnsureStarted(ctx, r.a)
	_, _ = p.Protection(ctx, r.a)
	_ = p.ProtectFromScaleIn(ctx, r.a, cloud.TokenUnprotected)
	_ = p.Unprotect(ctx, r.a, cloud.TokenUnprotected)
	_, _ = p.Snapshot(ctx, r.a, "s")
	_, _ = p.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: "s", Instance: r.a})
	_ = p.DeleteSnapshot(ctx, r.a, "s")
	_, _ = p.Image(ctx, ref)
	_, _ = p.Images(ctx, r.pool)
	_, _ = p.EnsureImage(ctx, cloud.ImageSpec{ImageRef: ref})
	_ = p.TagImage(ctx, ref, nil)
	_ = p.DeleteImage(ctx, ref)
	_, _ = p.Pool(ctx, r.pool)
	_, _ = p.Preflight(ctx, cloud.PreflightSpec{Pool: r.pool, Instance: r.a, Version: ref.Version})
	_, _ = p.RecipeChange(ctx, ref, true)
	_ = p.SetRecipe(ctx, cloud.RecipeChange{Pool: r.pool, Version: ref.Version})
	_, _ = p.Snapshots(ctx, r.pool)
	_ = p.DropSnapshot(ctx, "memory:///snapshots/s")
	_, _ = p.PoolsInScope(ctx, r.pool)
	_, _ = p.ReadPool(string(r.pool))
	_, _ = p.RestoreChange(ctx, r.pool, cloud.Saved{})
	_, _ = p.PoolsOf(ctx, []cloud.NodeValues{{ProviderID: r.a}})
	try := cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: r.pool, Version: "2026.11.21"}, Name: "t"}
	_, _ = p.PreflightTrial(ctx, try)
	_, _ = p.EnsureTrial(ctx, try)
	_, _ = p.Trial(ctx, try)
	_, _ = p.EndTrial(ctx, try)
	p.PoolName(r.pool)
	p.SameInstance(r.a, r.b)
}

func TestLostCalls(t *testing.T) {
	r := newRig(t)
	f := memory.NewFaulty(r.Cloud, func(memory.Call) memory.Outcome { return memory.FailBefore(cloud.Unavailable) })
	before := r.World()
	callAll(t, f.Provider, r)
	if diff := cmp.Diff(before, r.World()); diff != "" {
		t.Errorf("calls lost on their way changed the world: %s", diff)
	}
	want := []memory.Call{
		{0, "Instance", string(r.a), false}, {1, "EnsureStopped", string(r.a), true}, {2, "EnsureStarted", string(r.a), true},
		{3, "Protection", string(r.a), false}, {4, "ProtectFromScaleIn", string(r.a), true}, {5, "Unprotect", string(r.a), true},
		{6, "Snapshot", "s", false}, {7, "EnsureSnapshot", "s", true}, {8, "DeleteSnapshot", "s", true},
		{9, "Image", "2026.11.21", false}, {10, "Images", string(r.pool), false}, {11, "EnsureImage", "2026.11.21", true},
		{12, "TagImage", "2026.11.21", true}, {13, "DeleteImage", "2026.11.21", true}, {14, "Pool", string(r.pool), false},
		{15, "Preflight", string(r.a), false}, {16, "RecipeChange", "2026.11.21", false}, {17, "SetRecipe", "2026.11.21", true},
		{18, "Snapshots", "", false}, {19, "DropSnapshot", "memory:///snapshots/s", true},
		{20, "PoolsInScope", "", false},
		{21, "RestoreChange", string(r.pool), false}, {22, "PoolsOf", "", false},
		{23, "PreflightTrial", string(r.pool), false}, {24, "EnsureTrial", "2026.11.21", true}, {25, "Trial", "2026.11.21", false},
		{26, "EndTrial", "2026.11.21", true},
	}
	if diff := cmp.Diff(want, f.Calls()); diff != "" {
		t.Error(diff)
	}
}

func TestReadsWriteNothing(t *testing.T) {
	r := newRig(t)
	last := r.World()
	f := memory.NewFaulty(r.Cloud, nil)
	f.Inject(func(c memory.Call) memory.Outcome {
		now := r.World()
		if calls := f.Calls(); len(calls) > 1 && !calls[c.Index-1].Writes && !cmp.Equal(last, now) {
			t.Errorf("%s is marked as a look and changed the world", calls[c.Index-1].Op)
		}
		last = now
		return memory.Pass()
	})
	callAll(t, f.Provider, r)
	callAll(t, f.Provider, r)
}

func TestOtherPanics(t *testing.T) {
	defer func() {
		if r := recover(); r != "other" {
			t.Errorf("recovered %v", r)
		}
	}()
	memory.RunUntilCrash(func() { panic("other") })
}
