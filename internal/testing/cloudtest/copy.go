package cloudtest

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Instance a is the donor, and b has the copy, as a workshop would.
var copyCases = []testCase{
	{"a copy that was never made is absent, and ending it changes nothing", copyOfNothing},
	{"the snapshot of a disk in use is fixed at once, and leaves its instance running", snapshotInUse},
	{"a copy of a disk in use without order, owner or end is refused and leaves nothing", copyForOwner},
	{"a copy is attached to its instance, which stays as it was, and shows how its guest finds it", copyAttached},
	{"asked for again, a copy is not made a second time", copyOnce},
	{"no copy is made of a snapshot that is missing or incomplete, or on a missing instance", copyOfMissing},
	{"no copy is attached to an instance that is off", copyOnStopped},
	{"a copy outlives its snapshot", copyOutlivesSnapshot},
	{"no snapshot is made of a copy that is attached or not the proven disk, and one of a free copy becomes a version", copyPublished},
	{"a detached copy stays, and can be attached again", copyDetached},
	{"copies are listed until they have ended, each as it can be ended by", listsCopies},
	{"a copy that is attached is ended, and its instance stays as it was", endsAttachedCopy},
}

// needCopies skips the case for a provider that says, as its harness does, that it copies no disks in use.
func needCopies(t *testing.T, s suite) {
	t.Helper()
	if have := s.p.CanCopyDisks(); have == s.NoCopy {
		t.Fatalf("the provider copies disks in use: %t, and its harness says otherwise", have)
	}
	if s.NoCopy {
		t.Skip("the provider copies no disks in use")
	}
}

const (
	rawSnapshot = "raw-of-a"
	theCopy     = "copy-of-a"
)

// rawSpec returns the spec of a snapshot of the donor's disk in use.
func rawSpec(s suite) cloud.SnapshotSpec {
	return cloud.SnapshotSpec{Name: rawSnapshot, Instance: s.a, InUse: true, Tags: ofOwner()}
}

// copySpec returns the spec of a copy on an instance, from a complete snapshot of the donor's disk in use.
func copySpec(t *testing.T, s suite, on cloud.InstanceID) cloud.CopySpec {
	t.Helper()
	return cloud.CopySpec{Name: theCopy, Instance: on, SnapshotID: s.ensureSnapshot(t, rawSpec(s)).ID, Tags: ofOwner()}
}

// attachCopy attaches a copy and waits for it.
func attachCopy(t *testing.T, s suite, spec cloud.CopySpec) cloud.DiskCopy {
	t.Helper()
	var have cloud.DiskCopy
	s.until(t, "attached", func() bool {
		have = got(s.p.EnsureAttached(t.Context(), spec))(t)
		if have.State != cloud.Pending && have.State != cloud.Complete {
			t.Fatalf("a copy that is being attached is %+v", have)
		}
		return have.State == cloud.Complete && have.IsAttached
	})
	if have.ID == "" || have.Device.IsZero() || have.Error != "" {
		t.Errorf("an attached copy is %+v", have)
	}
	return have
}

// detachCopy detaches a copy and waits for it.
func detachCopy(t *testing.T, s suite, spec cloud.CopySpec) {
	t.Helper()
	s.until(t, "detached", func() bool {
		have := got(s.p.EnsureDetached(t.Context(), spec))(t)
		if have.State != cloud.Pending && have.State != cloud.Complete {
			t.Fatalf("a copy that is being detached is %+v", have)
		}
		return have.State == cloud.Complete && !have.IsAttached
	})
}

// endCopy ends a copy, and checks that nothing remains.
func endCopy(t *testing.T, s suite, spec cloud.CopySpec) {
	t.Helper()
	s.until(t, "ended", func() bool {
		state := got(s.p.EndCopy(t.Context(), spec))(t)
		if state != cloud.Deleting && state != cloud.Absent {
			t.Fatalf("a copy that is ended is %q", state)
		}
		return state == cloud.Absent
	})
	wantSame(t, "ended, something is left of it (-want +got)", cloud.DiskCopy{}, got(s.p.Copy(t.Context(), spec))(t))
}

// publishCopy makes a snapshot of a free copy, and a version of the snapshot.
func publishCopy(t *testing.T, s suite, spec cloud.CopySpec) {
	t.Helper()
	shot := cloud.SnapshotSpec{Name: theSnapshot, Instance: s.a, Tags: tags()}
	var have cloud.Snapshot
	s.until(t, "complete", func() bool {
		have = got(s.p.EnsureCopySnapshot(t.Context(), spec, shot))(t)
		if have.State != cloud.Pending && have.State != cloud.Complete {
			t.Fatalf("the snapshot of a copy is %+v", have)
		}
		return have.State == cloud.Complete
	})
	wantSame(t, "the snapshot of a copy", cloud.Snapshot{Name: theSnapshot, ID: have.ID, State: cloud.Complete, Tags: tags()}, have)
	wantSame(t, "read as one of the donor", have, got(s.p.Snapshot(t.Context(), s.a, theSnapshot))(t))
	forged := cloud.ImageSpec{ImageRef: s.ref(firstVersion), SnapshotID: have.ID, Proven: "of-another-disk", Tags: tags()}
	fails(s.p.EnsureImage(t.Context(), forged))(t, cloud.Invalid)
	s.ensureImageOf(t, firstVersion, have, got(s.p.Copy(t.Context(), spec))(t).ID)
}

// noCopies checks that there is no copy at all.
func noCopies(t *testing.T, s suite) {
	t.Helper()
	if all := got(s.p.Copies(t.Context(), s.Pool))(t); len(all) > 0 {
		t.Errorf("there are copies: %+v", all)
	}
}

func copyOfNothing(t *testing.T, s suite) {
	needCopies(t, s)
	spec, before := cloud.CopySpec{Name: theCopy, Instance: s.b}, s.instances(t)
	wantSame(t, "a copy that was never made (-want +got)", cloud.DiskCopy{}, got(s.p.Copy(t.Context(), spec))(t))
	wantSame(t, "and detached", cloud.DiskCopy{}, got(s.p.EnsureDetached(t.Context(), spec))(t))
	endCopy(t, s, spec)
	fails(s.p.EnsureCopySnapshot(t.Context(), spec, cloud.SnapshotSpec{Name: theSnapshot, Instance: s.a, Tags: tags()}))(t, cloud.NotFound)
	noCopies(t, s)
	wantSame(t, "an instance has changed", before, s.instances(t))
}

func snapshotInUse(t *testing.T, s suite) {
	needCopies(t, s)
	before := s.instances(t)
	asked, spec, failed := 0, rawSpec(s), errors.New("the disk is not quiet")
	spec.BeforeCopy = func(ctx context.Context) error {
		asked++
		if have := got(s.p.Snapshot(ctx, s.a, rawSnapshot))(t); have.State != cloud.Absent {
			t.Errorf("before the copy there is %+v", have)
		}
		return failed
	}
	if _, err := s.p.EnsureSnapshot(t.Context(), spec); !errors.Is(err, failed) {
		t.Errorf("EnsureSnapshot returns %v instead of the error before the copy", err)
	}
	failed = nil
	have := got(s.p.EnsureSnapshot(t.Context(), spec))(t)
	if asked != 2 {
		t.Errorf("called %d times before two copies", asked)
	}
	got(s.p.EnsureSnapshot(t.Context(), spec))(t)
	if asked != 2 {
		t.Error("called for a snapshot that exists")
	}
	if !have.Taken && have.State != cloud.Complete {
		t.Errorf("when the call returns, the content may still change: %+v", have)
	}
	wantSame(t, "an instance has changed", before, s.instances(t))
	have = s.ensureSnapshot(t, rawSpec(s))
	wantSame(t, "its tags", rawSpec(s).Tags, have.Tags)
	wantSame(t, "an instance has changed", before, s.instances(t))
}

func copyForOwner(t *testing.T, s suite) {
	needCopies(t, s)
	spec := copySpec(t, s, s.b)
	for _, tag := range []string{cloud.TagUID, cloud.TagOrder, cloud.TagEndsAt} {
		raw := rawSpec(s)
		raw.Name = "raw-of-no-one"
		delete(raw.Tags, tag)
		fails(s.p.EnsureSnapshot(t.Context(), raw))(t, cloud.Invalid)
		if have := got(s.p.Snapshot(t.Context(), s.a, raw.Name))(t); have.State != cloud.Absent {
			t.Errorf("without %s, there is %+v", tag, have)
		}
		stray := spec
		stray.Tags = maps.Clone(spec.Tags)
		delete(stray.Tags, tag)
		fails(s.p.EnsureAttached(t.Context(), stray))(t, cloud.Invalid)
	}
	noCopies(t, s)
}

func copyAttached(t *testing.T, s suite) {
	needCopies(t, s)
	spec, before := copySpec(t, s, s.b), s.instances(t)
	have := attachCopy(t, s, spec)
	wantSame(t, "read again", have, got(s.p.Copy(t.Context(), spec))(t))
	wantSame(t, "an instance has changed", before, s.instances(t))
	other := spec
	other.Instance = s.a
	fails(s.p.EnsureAttached(t.Context(), other))(t, cloud.Conflict)
	wantSame(t, "asked for elsewhere, it has changed", have, got(s.p.Copy(t.Context(), spec))(t))
}

func copyOnce(t *testing.T, s suite) {
	needCopies(t, s)
	spec := copySpec(t, s, s.b)
	for range 3 {
		got(s.p.EnsureAttached(t.Context(), spec))(t)
	}
	first := attachCopy(t, s, spec)
	wantSame(t, "asked for again", first, got(s.p.EnsureAttached(t.Context(), spec))(t))
	if all := got(s.p.Copies(t.Context(), s.Pool))(t); len(all) != 1 {
		t.Errorf("there are %d copies: %+v", len(all), all)
	}
}

func copyOfMissing(t *testing.T, s suite) {
	needCopies(t, s)
	young := got(s.p.EnsureSnapshot(t.Context(), rawSpec(s)))(t)
	spec := cloud.CopySpec{Name: theCopy, Instance: s.b, SnapshotID: young.ID, Tags: ofOwner()}
	if young.State == cloud.Pending {
		_, err := s.p.EnsureAttached(t.Context(), spec)
		if now := got(s.p.Snapshot(t.Context(), s.a, rawSnapshot))(t); err != nil || now.State == cloud.Pending {
			wantError(t, err, cloud.Conflict)
		} else { // complete since
			endCopy(t, s, spec)
		}
	}
	spec.SnapshotID = s.ensureSnapshot(t, rawSpec(s)).ID
	missing := spec
	missing.Instance = s.Missing
	fails(s.p.EnsureAttached(t.Context(), missing))(t, cloud.NotFound)
	s.deleteSnapshot(t, rawSnapshot)
	fails(s.p.EnsureAttached(t.Context(), spec))(t, cloud.NotFound)
	noCopies(t, s)
}

func copyOnStopped(t *testing.T, s suite) {
	needCopies(t, s)
	spec := copySpec(t, s, s.b)
	attachCopy(t, s, spec)
	detachCopy(t, s, spec)
	s.stop(t, s.b)
	fails(s.p.EnsureAttached(t.Context(), spec))(t, cloud.Conflict)
	if have := got(s.p.Copy(t.Context(), spec))(t); have.IsAttached || have.State != cloud.Complete {
		t.Errorf("the copy is %+v", have)
	}
	fresh := spec
	fresh.Name = "another-copy"
	fails(s.p.EnsureAttached(t.Context(), fresh))(t, cloud.Conflict)
	wantSame(t, "it was made", cloud.DiskCopy{}, got(s.p.Copy(t.Context(), fresh))(t))
	s.wantPower(t, s.b, cloud.PowerStopped)
}

func copyOutlivesSnapshot(t *testing.T, s suite) {
	needCopies(t, s)
	spec := copySpec(t, s, s.b)
	first := attachCopy(t, s, spec)
	s.deleteSnapshot(t, rawSnapshot)
	wantSame(t, "without its snapshot", first, got(s.p.EnsureAttached(t.Context(), spec))(t))
	detachCopy(t, s, spec)
	publishCopy(t, s, spec)
}

func copyPublished(t *testing.T, s suite) {
	needCopies(t, s)
	spec, shot := copySpec(t, s, s.b), cloud.SnapshotSpec{Name: theSnapshot, Instance: s.a, Tags: tags()}
	have := attachCopy(t, s, spec)
	fails(s.p.EnsureCopySnapshot(t.Context(), spec, shot))(t, cloud.Conflict)
	if shown := got(s.p.Snapshot(t.Context(), s.a, theSnapshot))(t); shown.State != cloud.Absent {
		t.Errorf("of an attached copy there is %+v", shown)
	}
	before := s.instances(t)
	detachCopy(t, s, spec)
	other := spec
	other.Proven = "of-another-disk"
	fails(s.p.EnsureCopySnapshot(t.Context(), other, shot))(t, cloud.Invalid)
	spec.Proven = have.ID
	publishCopy(t, s, spec)
	wantSame(t, "an instance has changed", before, s.instances(t))
}

func copyDetached(t *testing.T, s suite) {
	needCopies(t, s)
	spec := copySpec(t, s, s.b)
	first := attachCopy(t, s, spec)
	detachCopy(t, s, spec)
	if have := got(s.p.Copy(t.Context(), spec))(t); have.ID != first.ID || !have.Device.IsZero() {
		t.Errorf("detached, %+v is %+v", first, have)
	}
	if again := attachCopy(t, s, spec); again.ID != first.ID {
		t.Errorf("attached again, %+v is %+v", first, again)
	}
}

func listsCopies(t *testing.T, s suite) {
	needCopies(t, s)
	spec := copySpec(t, s, s.b)
	listed := func(when string, want int) []cloud.CopySpec {
		t.Helper()
		list := got(s.p.Copies(t.Context(), s.Pool))(t)
		if len(list) != want {
			t.Fatalf("%s, these are listed: %+v", when, list)
		}
		for _, have := range list {
			if have.Name != spec.Name || !s.p.SameInstance(have.Instance, spec.Instance) || !maps.Equal(have.Tags, spec.Tags) {
				t.Errorf("%s, it is listed as %+v, and was made as %+v", when, have, spec)
			}
		}
		return list
	}
	listed("before", 0)
	got(s.p.EnsureAttached(t.Context(), spec))(t)
	listed("just made", 1)
	attachCopy(t, s, spec)
	if found := got(s.p.Copies(t.Context()))(t); len(found) > 0 {
		t.Errorf("of no pool, these are listed: %+v", found)
	}
	endCopy(t, s, listed("attached", 1)[0])
	listed("ended", 0)
}

func endsAttachedCopy(t *testing.T, s suite) {
	needCopies(t, s)
	spec := copySpec(t, s, s.b)
	attachCopy(t, s, spec)
	before := s.instances(t)
	endCopy(t, s, spec)
	wantSame(t, "an instance has changed", before, s.instances(t))
	if have := got(s.p.Snapshot(t.Context(), s.a, rawSnapshot))(t); have.State != cloud.Complete {
		t.Errorf("the snapshot went with the copy: %+v", have)
	}
}
