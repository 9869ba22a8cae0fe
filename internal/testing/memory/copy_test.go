package memory_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

var ofIt = map[string]string{cloud.TagUID: "u", cloud.TagOrder: "o", cloud.TagEndsAt: "2026-01-09T05:05:06Z", cloud.TagProof: "sha256:1"}

// copied takes instance a's disk to a copy on instance b.
func (r *rig) copied(t *testing.T) cloud.CopySpec {
	t.Helper()
	raw, err := r.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: "raw", Instance: r.a, InUse: true, Tags: ofIt})
	must(t, err)
	r.clock.Advance(latency.Snapshot)
	spec := cloud.CopySpec{Name: "it", Instance: r.b, SnapshotID: raw.ID, Tags: ofIt}
	_, err = r.EnsureAttached(t.Context(), spec)
	must(t, err)
	r.clock.Advance(latency.Attach)
	return spec
}

// TestCopyOfADiskInUse: only the copy is cleaned, and the version of the clean copy is of the donor's disk. Without cleaning, the
// world shows it.
func TestCopyOfADiskInUse(t *testing.T) {
	for _, clean := range []bool{true, false} {
		r := newRig(t)
		boot := r.BootID(r.a)
		spec := r.copied(t)
		if clean && !r.CleanCopy("it") {
			t.Fatal("the copy is not attached")
		}
		_, err := r.EnsureDetached(t.Context(), spec)
		must(t, err)
		r.clock.Advance(latency.Attach)
		if r.CleanCopy("it") {
			t.Error("a copy of no machine was cleaned")
		}
		shot, err := r.EnsureCopySnapshot(t.Context(), spec, cloud.SnapshotSpec{Name: "clean", Instance: r.a, Tags: ofIt})
		must(t, err)
		r.clock.Advance(latency.Snapshot)
		_, err = r.EnsureImage(t.Context(), cloud.ImageSpec{ImageRef: cloud.ImageRef{Pool: r.pool, Version: "2026.11.21"}, SnapshotID: shot.ID, Tags: ofIt})
		must(t, err)
		r.clock.Advance(time.Hour)
		r.Settle()
		w := r.World()
		if v := w.Images[0]; v.Generalized != clean || v.Instance != r.a || v.BootID != boot {
			t.Errorf("cleaned %t, the version is %+v", clean, v)
		}
		if broken := w.Broken(); len(broken) > 0 == clean {
			t.Errorf("cleaned %t, broken is %q", clean, broken)
		}
		if m := w.Instance(r.a); m.Generalized || m.Power != cloud.PowerRunning || m.Boots != 1 {
			t.Errorf("the donor is %+v", m)
		}
	}
}

// TestBootWithACopy: a machine that boots with the copy of another root breaks a guarantee.
func TestBootWithACopy(t *testing.T) {
	r := newRig(t)
	spec := r.copied(t)
	if broken := r.World().Broken(); len(broken) > 0 {
		t.Errorf("at first, broken is %q", broken)
	}
	r.Reboot(r.b)
	r.clock.Advance(latency.Start)
	if broken := r.World().Broken(); len(broken) != 1 || !strings.Contains(broken[0], "copy it") {
		t.Errorf("broken is %q", broken)
	}
	r.RemoveInstance(r.b)
	if have, err := r.Copy(t.Context(), spec); err != nil || have.State != cloud.Complete || have.IsAttached {
		t.Errorf("after its machine, the copy is %+v, %v", have, err)
	}
}

// TestFailuresOfCopies: the failures that a test orders.
func TestFailuresOfCopies(t *testing.T) {
	r := newRig(t)
	r.FailCopies(1)
	spec := r.copied(t)
	if have, err := r.Copy(t.Context(), spec); err != nil || have.State != cloud.Failed || have.Error == "" {
		t.Errorf("the copy is %+v, %v", have, err)
	}
	r.FailWorkshops(1, memory.TrialFailure{Trouble: "no", LacksCapacity: true})
	workshop := cloud.WorkshopSpec{Pool: r.pool, Name: "w", CustomData: []byte("c"), Tags: ofIt}
	_, err := r.EnsureWorkshop(t.Context(), workshop)
	must(t, err)
	r.clock.Advance(latency.Start)
	if have, err := r.Workshop(t.Context(), workshop); err != nil || have.State != cloud.Failed || !have.LacksCapacity {
		t.Errorf("the workshop is %+v, %v", have, err)
	}
}

// TestDonorThatStays: a donor whose disk is copied in use need not be stopped.
func TestDonorThatStays(t *testing.T) {
	r := newRig(t)
	r.Forbid("EnsureStopped", "EnsureStarted", "ProtectFromScaleIn")
	for copies, want := range map[bool]int{false: 3, true: 0} {
		found, err := r.Preflight(t.Context(), cloud.PreflightSpec{Pool: r.pool, Instance: r.a, Version: "2026.11.21", Copies: copies})
		must(t, err)
		if len(found) != want {
			t.Errorf("with copies %t: %+v", copies, found)
		}
	}
}
