package memory_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// stopped generalizes and stops instance a.
func (r *rig) stopped(t *testing.T) {
	t.Helper()
	if !r.MarkGeneralized(r.a) || !r.GuestPowerOff(r.a) {
		t.Fatal("instance a does not run")
	}
	r.clock.Advance(latency.GuestOff)
}

func TestFailedSnapshot(t *testing.T) {
	r := newRig(t)
	r.stopped(t)
	r.FailSnapshots(1)
	spec := cloud.SnapshotSpec{Name: "s", Instance: r.a}
	must(t, errorOf(r.EnsureSnapshot(t.Context(), spec)))
	r.clock.Advance(latency.Snapshot)
	for range 2 {
		s, err := r.EnsureSnapshot(t.Context(), spec)
		must(t, err)
		if s.State != cloud.Failed || s.Error == "" {
			t.Fatalf("snapshot %+v", s)
		}
	}
	must(t, r.DeleteSnapshot(t.Context(), r.a, "s"))
	if s, err := r.EnsureSnapshot(t.Context(), spec); err != nil || s.State != cloud.Deleting {
		t.Fatalf("on its way out, the snapshot is %+v, %v", s, err)
	}
	r.clock.Advance(latency.Delete)
	must(t, errorOf(r.EnsureSnapshot(t.Context(), spec)))
	r.clock.Advance(latency.Snapshot)
	if w := r.World(); len(w.Snapshots) != 1 || w.Snapshots[0].State != cloud.Complete {
		t.Errorf("snapshots %+v", w.Snapshots)
	}
}

func TestFailedVersion(t *testing.T) {
	r := newRig(t)
	r.FailImages(1)
	r.published(t, "2026.11.21")
	v, err := r.Image(t.Context(), cloud.ImageRef{Pool: r.pool, Version: "2026.11.21"})
	must(t, err)
	if v.State != cloud.Failed || v.Error == "" || v.Percent < 40 || v.Percent > 60 {
		t.Fatalf("version %+v", v)
	}
	change, err := r.RecipeChange(t.Context(), v.ImageRef, true)
	must(t, err)
	wantKind(t, r.SetRecipe(t.Context(), change), cloud.Conflict)
	must(t, r.DeleteImage(t.Context(), v.ImageRef))
	r.clock.Advance(latency.Delete)
	r.published(t, "2026.11.21")
	r.promote(t, "2026.11.21", true)
	if broken := r.World().Broken(); len(broken) > 0 {
		t.Error(broken)
	}
}

func TestDeletePending(t *testing.T) {
	for name, fail := range map[string]int{"it would succeed": 0, "it would fail": 1} {
		t.Run(name, func(t *testing.T) {
			// A deletion takes longer than all other work, so that earlier work would end first.
			r := newRig(t, func(c *memory.Config, _ *memory.PoolSpec) { c.Latency.Delete = time.Hour })
			r.stopped(t)
			ctx, ref := t.Context(), cloud.ImageRef{Pool: r.pool, Version: "2026.11.21"}
			s, err := r.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: "whole", Instance: r.a})
			must(t, err)
			r.clock.Advance(latency.Snapshot)
			r.FailSnapshots(fail)
			r.FailImages(fail)
			must(t, errorOf(r.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: "part", Instance: r.a})))
			must(t, errorOf(r.EnsureImage(ctx, cloud.ImageSpec{ImageRef: ref, SnapshotID: s.ID})))
			must(t, r.DeleteSnapshot(ctx, r.a, "part"))
			must(t, r.DeleteImage(ctx, ref))
			r.clock.Advance(time.Hour - 1)
			if w := r.World(); w.Snapshots[1].State != cloud.Deleting || w.Images[0].State != cloud.Deleting {
				t.Errorf("snapshots %+v, images %+v", w.Snapshots, w.Images)
			}
			r.clock.Advance(1)
			if w := r.World(); len(w.Snapshots) != 1 || len(w.Images) != 0 {
				t.Errorf("snapshots %+v, images %+v", w.Snapshots, w.Images)
			}
		})
	}
}

func TestVersionNeedsSnapshot(t *testing.T) {
	r := newRig(t)
	r.stopped(t)
	ctx := t.Context()
	spec := cloud.ImageSpec{ImageRef: cloud.ImageRef{Pool: r.pool, Version: "2026.11.21"}, SnapshotID: "memory:///snapshots/s"}
	_, err := r.EnsureImage(ctx, spec)
	wantKind(t, err, cloud.NotFound)
	must(t, errorOf(r.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: "s", Instance: r.a})))
	_, err = r.EnsureImage(ctx, spec)
	wantKind(t, err, cloud.Conflict)
	r.clock.Advance(latency.Snapshot)
	must(t, errorOf(r.EnsureImage(ctx, spec)))
	must(t, r.DeleteSnapshot(ctx, r.a, "s"))
	if v, err := r.Image(ctx, spec.ImageRef); err != nil || v.State != cloud.Failed {
		t.Errorf("a version that lost its source is %+v, %v", v, err)
	}
}

func TestRegionWithoutZoneStorage(t *testing.T) {
	r := newRig(t, func(c *memory.Config, _ *memory.PoolSpec) { c.NoZoneStorage = true })
	r.stopped(t)
	ctx := t.Context()
	s, err := r.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: "s", Instance: r.a})
	must(t, err)
	r.clock.Advance(latency.Snapshot)
	spec := cloud.ImageSpec{ImageRef: cloud.ImageRef{Pool: r.pool, Version: "2026.11.21"}, SnapshotID: s.ID}
	var states []cloud.State
	for range 4 {
		v, err := r.EnsureImage(ctx, spec)
		must(t, err)
		states = append(states, v.State)
		if look, err := r.Image(ctx, spec.ImageRef); err != nil || look.State != v.State {
			t.Errorf("a look finds %q, %v, and EnsureImage %q", look.State, err, v.State)
		}
		r.clock.Advance(latency.Image / 2)
	}
	if diff := cmp.Diff([]cloud.State{cloud.Pending, cloud.Absent, cloud.Pending, cloud.Pending}, states); diff != "" {
		t.Error(diff)
	}
	if w := r.World(); w.Images[0].State != cloud.Complete {
		t.Errorf("images %+v", w.Images)
	}
}

func TestQuotas(t *testing.T) {
	r := newRig(t, func(c *memory.Config, _ *memory.PoolSpec) {
		c.Quota = memory.Quota{Snapshots: 1, Images: 1, Instances: 3}
	})
	ctx := t.Context()
	r.published(t, "2026.11.20")
	must(t, errorOf(r.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: "one", Instance: r.b})))
	_, err := r.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: "two", Instance: r.b})
	wantKind(t, err, cloud.QuotaExceeded)
	r.clock.Advance(latency.Snapshot)
	_, err = r.EnsureImage(ctx, cloud.ImageSpec{ImageRef: cloud.ImageRef{Pool: r.pool, Version: "2026.11.21"}, SnapshotID: "memory:///snapshots/one"})
	wantKind(t, err, cloud.QuotaExceeded)
	wantKind(t, r.Scale(r.pool, 4), cloud.QuotaExceeded)
	must(t, r.Scale(r.pool, 3))
	found, err := r.Preflight(ctx, cloud.PreflightSpec{Pool: r.pool, Instance: r.a, Version: "2026.11.21"})
	must(t, err)
	if len(found) != 2 || found[0].Reason != memory.ReasonQuotaExceeded || found[1].Reason != memory.ReasonQuotaExceeded {
		t.Errorf("preflight finds %+v", found)
	}
	r.SetQuota(memory.Quota{})
	if found, err := r.Preflight(ctx, cloud.PreflightSpec{Pool: r.pool, Instance: r.a, Version: "2026.11.21"}); err != nil || found != nil {
		t.Errorf("without limits, preflight finds %+v, %v", found, err)
	}
}

func TestPermissionsAndRefusals(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	spec := cloud.PreflightSpec{Pool: r.pool, Instance: r.a, Version: "2026.11.21"}
	r.Forbid("EnsureSnapshot", "SetRecipe")
	r.RefusePool(r.pool, cloud.Refusal{Reason: "AutomaticUpgrades", Message: "m"})
	r.RefuseInstance(r.a, cloud.Refusal{Reason: "EphemeralDisk", Message: "m"})
	_, err := r.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: "s", Instance: r.a})
	wantKind(t, err, cloud.Denied)
	found, err := r.Preflight(ctx, spec)
	must(t, err)
	var reasons []string
	for _, f := range found {
		reasons = append(reasons, f.Reason)
	}
	want := []string{"AutomaticUpgrades", memory.ReasonPermissionMissing, "EphemeralDisk", memory.ReasonPermissionMissing}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Error(diff)
	}
	r.Permit("EnsureSnapshot", "SetRecipe")
	r.RefusePool(r.pool)
	r.RefuseInstance(r.a)
	if found, err := r.Preflight(ctx, spec); err != nil || found != nil {
		t.Errorf("preflight finds %+v, %v", found, err)
	}
}

func TestAutoscalerSparesProtected(t *testing.T) {
	r := newRig(t)
	must(t, r.ProtectFromScaleIn(t.Context(), r.b, cloud.TokenUnprotected))
	if taken := r.ScaleIn(r.pool); taken != r.a {
		t.Errorf("the autoscaler took %q", taken)
	}
	if taken := r.ScaleIn(r.pool); taken != "" {
		t.Errorf("the autoscaler took %q, which is protected", taken)
	}
	if p := r.World().Pools[0]; p.Capacity != 1 {
		t.Errorf("capacity %d", p.Capacity)
	}
	_, err := r.Instance(t.Context(), r.a)
	wantKind(t, err, cloud.NotFound)
}

func TestMissingInstance(t *testing.T) {
	r := newRig(t)
	must(t, errorOf(r.EnsureStopped(t.Context(), r.a)))
	r.RemoveInstance(r.a)
	r.clock.Advance(time.Hour)
	r.Settle()
	if got := r.World().Instance(r.a); got.ID != "" {
		t.Errorf("a stop that ends after the removal leaves %+v", got)
	}
}

func TestLatestBecomesPinned(t *testing.T) {
	r := newRig(t, func(_ *memory.Config, p *memory.PoolSpec) { p.Latest = true })
	r.AddVersion(r.pool, memory.VersionSpec{Version: "2026.9.30"})
	r.AddVersion(r.pool, memory.VersionSpec{Version: "2026.10.01"})
	r.AddVersion(r.pool, memory.VersionSpec{Version: "2026.10.02", State: cloud.Failed})
	r.AddVersion(r.pool, memory.VersionSpec{Version: "2026.10.03", ExcludedFromLatest: true})
	p, err := r.Pool(t.Context(), r.pool)
	must(t, err)
	if !p.Recipe.Latest || p.Recipe.Version != "2026.10.01" {
		t.Fatalf("recipe %+v", p.Recipe)
	}
	change, err := r.RecipeChange(t.Context(), cloud.ImageRef{Pool: r.pool, Version: "2026.10.01"}, false)
	must(t, err)
	if change.Done {
		t.Error("naming the definition is not naming the version")
	}
	must(t, r.SetRecipe(t.Context(), change))
	wantKind(t, r.DeleteImage(t.Context(), cloud.ImageRef{Pool: r.pool, Version: "2026.10.1"}), cloud.Conflict)
}

func TestForeignRecipeChange(t *testing.T) {
	for name, bootstrap := range map[string][]string{
		"other image":      {"customData", "extension vmssCSE"},
		"less bootstrap":   {"customData"},
		"more bootstrap":   {"customData", "extension vmssCSE", "extension more"},
		"no bootstrap now": nil,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.published(t, "2026.11.21")
			change, err := r.RecipeChange(t.Context(), cloud.ImageRef{Pool: r.pool, Version: "2026.11.21"}, true)
			must(t, err)
			image := "generic"
			if name == "other image" {
				image = "other"
			}
			r.ChangeRecipe(r.pool, image, bootstrap...)
			wantKind(t, r.SetRecipe(t.Context(), change), cloud.Conflict)
		})
	}
}

func TestCancelledContext(t *testing.T) {
	r := newRig(t)
	before := r.World()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.EnsureStopped(ctx, r.a)
	wantKind(t, err, cloud.Unavailable)
	wantKind(t, r.TagImage(ctx, cloud.ImageRef{Pool: r.pool, Version: "2026.11.21"}, nil), cloud.Unavailable)
	if diff := cmp.Diff(before, r.World()); diff != "" {
		t.Error(diff)
	}
}

func TestMisusePanics(t *testing.T) {
	r := newRig(t)
	for name, mistake := range map[string]func(){
		"pool twice":     func() { r.AddPool(memory.PoolSpec{Name: "POOL1"}) },
		"instance twice": func() { r.AddInstance(r.pool, "A") },
		"unknown pool":   func() { r.AddInstance("memory:///pools/no", "c") },
		"not a version":  func() { r.AddVersion(r.pool, memory.VersionSpec{Version: "latest"}) },
		"unknown recipe": func() { r.ChangeRecipe("memory:///pools/no", "i") },
		"version twice": func() {
			for range 2 {
				r.AddVersion(r.pool, memory.VersionSpec{Version: "1.0.0"})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); r == nil {
					t.Error("no panic")
				} else if fmt.Sprint(r) == "" {
					t.Error("a panic that says nothing")
				}
			}()
			mistake()
		})
	}
	r.Settle() // the lock of the cloud ends
}
