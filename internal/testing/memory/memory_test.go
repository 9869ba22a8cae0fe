package memory_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

var start = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// latency has a different value for each kind of work, so that a wrong value shows.
var latency = memory.Latency{
	Stop: 20 * time.Second, GuestOff: 5 * time.Second, Start: 40 * time.Second,
	Snapshot: time.Minute, Attach: 15 * time.Second, Image: 10 * time.Minute, Delete: 30 * time.Second,
}

type rig struct {
	*memory.Cloud
	clock *memory.Clock
	pool  cloud.PoolID
	a, b  cloud.InstanceID
}

func newRig(t *testing.T, change ...func(*memory.Config, *memory.PoolSpec)) *rig {
	t.Helper()
	r := &rig{clock: memory.NewClock(start)}
	config := memory.Config{Now: r.clock.Now, Latency: latency}
	pool := memory.PoolSpec{
		Name: "Pool1", Capacity: 2, MaxSize: 5, Bootstrap: []string{"customData", "extension vmssCSE"},
		Unreadable: []string{"customData"}, Extensions: []string{"extension billing"},
	}
	for _, f := range change {
		f(&config, &pool)
	}
	r.Cloud = memory.New(config)
	r.pool = r.AddPool(pool)
	r.a = r.AddInstance(r.pool, "a")
	r.b = r.AddInstance(r.pool, "b")
	return r
}

// published captures the version from instance a, and leaves no snapshot.
func (r *rig) published(t *testing.T, version string) {
	t.Helper()
	ctx := t.Context()
	if !r.MarkGeneralized(r.a) || !r.GuestPowerOff(r.a) {
		t.Fatal("instance a does not run")
	}
	r.clock.Advance(latency.GuestOff)
	s, err := r.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: "s" + version, Instance: r.a})
	must(t, err)
	r.clock.Advance(latency.Snapshot)
	_, err = r.EnsureStarted(ctx, r.a)
	must(t, err)
	spec := cloud.ImageSpec{
		ImageRef: cloud.ImageRef{Pool: r.pool, Version: version}, SnapshotID: s.ID,
		Tags: map[string]string{cloud.TagProof: "sha256:1"},
	}
	_, err = r.EnsureImage(ctx, spec)
	must(t, err)
	_, err = r.EnsureImage(ctx, spec)
	must(t, err)
	r.clock.Advance(latency.Image)
	must(t, r.DeleteSnapshot(ctx, r.a, s.Name))
	r.clock.Advance(latency.Delete)
}

func (r *rig) promote(t *testing.T, version string, removeBootstrap bool) {
	t.Helper()
	change, err := r.RecipeChange(t.Context(), cloud.ImageRef{Pool: r.pool, Version: version}, removeBootstrap)
	must(t, err)
	must(t, r.SetRecipe(t.Context(), change))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, err error, kind cloud.Kind) {
	t.Helper()
	if !cloud.Is(err, kind) {
		t.Fatalf("error %v, want kind %q", err, kind)
	}
}

func TestCapture(t *testing.T) {
	r := newRig(t)
	before := r.BootID(r.a)
	r.published(t, "2026.11.21")
	r.promote(t, "2026.11.21", true)
	must(t, r.Scale(r.pool, 3))
	r.clock.Advance(latency.Start)

	w := r.World()
	if broken := w.Broken(); len(broken) > 0 {
		t.Error(broken)
	}
	if len(w.Snapshots) != 0 || len(w.Images) != 1 || !w.Images[0].InRecipe || !w.Images[0].Generalized {
		t.Errorf("snapshots %+v, images %+v", w.Snapshots, w.Images)
	}
	donor := w.Instance(r.a)
	if donor.Power != cloud.PowerRunning || donor.BootID == before || donor.Boots != 2 || donor.BuiltFrom != "" || donor.Generalized {
		t.Errorf("donor %+v", donor)
	}
	clone := w.Instances[2]
	if clone.Power != cloud.PowerRunning || clone.BuiltFrom != "2026.11.21" || len(clone.Bootstrap) != 0 {
		t.Errorf("clone %+v", clone)
	}
	want := cloud.Recipe{Image: w.Pools[0].Recipe.Image, Version: "2026.11.21"}
	if diff := cmp.Diff(want, w.Pools[0].Recipe); diff != "" {
		t.Error(diff)
	}
}

// TestDiskWrittenDuringCopy: the copy has the old content only if the cloud fixes the snapshot at the
// request.
func TestDiskWrittenDuringCopy(t *testing.T) {
	for _, instant := range []bool{false, true} {
		r := newRig(t, func(c *memory.Config, _ *memory.PoolSpec) { c.Instant = instant })
		r.MarkGeneralized(r.a)
		r.GuestPowerOff(r.a)
		r.clock.Advance(latency.GuestOff)
		s, err := r.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: "s", Instance: r.a})
		must(t, err)
		must(t, errorOf(r.EnsureStarted(t.Context(), r.a)))
		if s.Taken != instant {
			t.Errorf("the snapshot is %+v, and the cloud instant: %t", s, instant)
		}
		r.clock.Advance(latency.Snapshot)
		must(t, errorOf(r.EnsureImage(t.Context(), cloud.ImageSpec{ImageRef: cloud.ImageRef{Pool: r.pool, Version: "2026.11.21"}, SnapshotID: s.ID})))
		if got := r.World().Images[0].Generalized; got != instant {
			t.Errorf("the image is generalized: %t, and the cloud instant: %t", got, instant)
		}
	}
}

func TestTimeFinishesWork(t *testing.T) {
	r := newRig(t)
	power, err := r.EnsureStopped(t.Context(), r.a)
	must(t, err)
	if power != cloud.PowerStopping {
		t.Fatalf("power %q right after the order", power)
	}
	r.clock.Advance(latency.Stop - 1)
	if p := r.World().Instance(r.a).Power; p != cloud.PowerStopping {
		t.Errorf("power %q a moment before its time", p)
	}
	r.clock.Advance(1)
	if p := r.World().Instance(r.a).Power; p != cloud.PowerStopped {
		t.Errorf("power %q when its time has come", p)
	}
	r.clock.Advance(-time.Hour)
	if p := r.World().Instance(r.a).Power; p != cloud.PowerStopped {
		t.Errorf("power %q after the clock was set back", p)
	}
}

func errorOf[T any](_ T, err error) error { return err }

func TestZeroLatency(t *testing.T) {
	c := memory.New(memory.Config{})
	pool := c.AddPool(memory.PoolSpec{Name: "p"})
	a := c.AddInstance(pool, "a")
	ctx := t.Context()
	if p, err := c.EnsureStopped(ctx, a); err != nil || p != cloud.PowerStopped {
		t.Fatalf("power %q, %v", p, err)
	}
	s, err := c.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: "s", Instance: a})
	if err != nil || s.State != cloud.Complete {
		t.Fatalf("snapshot %+v, %v", s, err)
	}
	v, err := c.EnsureImage(ctx, cloud.ImageSpec{ImageRef: cloud.ImageRef{Pool: pool, Version: "1.0.0"}, SnapshotID: s.ID})
	if err != nil || v.State != cloud.Complete || v.Percent != 100 {
		t.Fatalf("image %+v, %v", v, err)
	}
	must(t, c.DeleteSnapshot(ctx, a, "s"))
	if p, err := c.EnsureStarted(ctx, a); err != nil || p != cloud.PowerRunning {
		t.Fatalf("power %q, %v", p, err)
	}
	if w := c.World(); len(w.Snapshots) != 0 {
		t.Errorf("snapshots %+v", w.Snapshots)
	}
}

func TestDirtyDisks(t *testing.T) {
	for name, prepare := range map[string]func(*rig){
		"never generalized": func(r *rig) { r.StopByStranger(r.a); r.clock.Advance(latency.Stop) },
		"still running":     func(r *rig) { r.MarkGeneralized(r.a) },
		"booted since": func(r *rig) {
			r.MarkGeneralized(r.a)
			r.GuestPowerOff(r.a)
			r.clock.Advance(latency.GuestOff)
			r.StartByStranger(r.a)
			r.clock.Advance(latency.Start)
			r.StopByStranger(r.a)
			r.clock.Advance(latency.Stop)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			prepare(r)
			must(t, errorOf(r.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: "s", Instance: r.a})))
			if w := r.World(); w.Snapshots[0].Generalized {
				t.Errorf("snapshot %+v passes as generalized", w.Snapshots[0])
			}
		})
	}
}

func TestBrokenReportsViolations(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	s, err := r.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: "s", Instance: r.a})
	must(t, err)
	r.clock.Advance(latency.Snapshot)
	ref := cloud.ImageRef{Pool: r.pool, Version: "2026.11.21"}
	must(t, errorOf(r.EnsureImage(ctx, cloud.ImageSpec{ImageRef: ref, SnapshotID: s.ID})))
	r.clock.Advance(latency.Image)
	r.promote(t, ref.Version, false)
	must(t, r.TagImage(ctx, ref, map[string]string{cloud.TagQuarantined: "clones collide"}))
	want := []string{
		"version 2026.11.21 of memory:///pools/pool1 was published from a disk that was not generalized",
		"version 2026.11.21 of memory:///pools/pool1 carries no proof",
		"memory:///pools/pool1 is built from version 2026.11.21, which is Complete, quarantined true",
		"memory:///pools/pool1 was pointed at version 2026.11.21 when it was Complete, generalized false, quarantined false",
	}
	if diff := cmp.Diff(want, r.World().Broken()); diff != "" {
		t.Error(diff)
	}
}
