package cloudtest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var snapshotCases = []testCase{
	{"EnsureSnapshot is repeated until complete, and carries name and tags", snapshotCompletes},
	{"a snapshot is never made twice and never changed", snapshotOnce},
	{"a snapshot leaves its instance as it was", snapshotLeavesInstance},
	{"a new snapshot is seen at once, as requested", snapshotSeen},
	{"an instance may run again once its snapshot is taken", snapshotTaken},
	{"a snapshot is deleted until absent, and can be made again", snapshotDeleted},
	{"deleting no snapshot is nil", deleteNoSnapshot},
	{"long names that begin alike are two snapshots", longSnapshotNames},
}

func tags() map[string]string {
	return map[string]string{
		cloud.TagBuiltFrom: "node-a",
		cloud.TagBuiltAt:   "2026-01-09 04:05:06.000007",
		cloud.TagPrototype: "pool-2026.01.09",
		cloud.TagUID:       "0b5a7f0e-8d0f-4f0e-9a6e-0a1b2c3d4e5f",
		cloud.TagProof:     "sha256:0123456789abcdef",
	}
}

// ensureSnapshot makes a snapshot and waits for it.
func (s suite) ensureSnapshot(t *testing.T, spec cloud.SnapshotSpec) cloud.Snapshot {
	t.Helper()
	var have cloud.Snapshot
	s.until(t, "complete", func() bool {
		have = got(s.p.EnsureSnapshot(t.Context(), spec))(t)
		if have.State != cloud.Pending && have.State != cloud.Complete {
			t.Fatalf("snapshot %s is %q: %s", spec.Name, have.State, have.Error)
		}
		return have.State == cloud.Complete
	})
	return have
}

// snapshot generalizes, stops and snapshots the donor.
func (s suite) snapshot(t *testing.T) cloud.Snapshot {
	t.Helper()
	if s.Generalize != nil {
		s.Generalize(t, s.a)
	}
	s.stop(t, s.a)
	return s.ensureSnapshot(t, cloud.SnapshotSpec{Name: theSnapshot, Instance: s.a, Tags: tags()})
}

// deleteSnapshot deletes a snapshot and waits for the end.
func (s suite) deleteSnapshot(t *testing.T, name string) {
	t.Helper()
	must(t, s.p.DeleteSnapshot(t.Context(), s.a, name))
	s.until(t, "absent", func() bool {
		have := got(s.p.Snapshot(t.Context(), s.a, name))(t)
		switch have.State {
		case cloud.Absent:
			return true
		case cloud.Deleting:
		case cloud.Pending, cloud.Complete, cloud.Failed:
			t.Fatalf("snapshot %s is %q after its deletion began", name, have.State)
		}
		return false
	})
}

func snapshotCompletes(t *testing.T, s suite) {
	have := s.snapshot(t)
	if have.ID == "" {
		t.Error("a complete snapshot has no ID")
	}
	want := cloud.Snapshot{Name: theSnapshot, ID: have.ID, State: cloud.Complete, Tags: tags()}
	wantSame(t, "EnsureSnapshot", want, have)
	wantSame(t, "Snapshot", want, got(s.p.Snapshot(t.Context(), s.a, theSnapshot))(t))
}

func snapshotOnce(t *testing.T, s suite) {
	s.stop(t, s.a)
	first := got(s.p.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: theSnapshot, Instance: s.a, Tags: tags()}))(t)
	other := cloud.SnapshotSpec{Name: theSnapshot, Instance: s.a, Tags: map[string]string{cloud.TagBuiltFrom: "another"}}
	if second := got(s.p.EnsureSnapshot(t.Context(), other))(t); second.ID != first.ID {
		t.Errorf("the second snapshot %s is not the first %s", second.ID, first.ID)
	}
	have := s.ensureSnapshot(t, other)
	wantSame(t, "asking again changed the tags", tags(), have.Tags)
	before := got(s.p.Snapshot(t.Context(), s.a, theSnapshot))(t)
	again := got(s.p.EnsureSnapshot(t.Context(), other))(t)
	wantSame(t, "asking again changed a complete snapshot", before, again)
}

func snapshotLeavesInstance(t *testing.T, s suite) {
	s.stop(t, s.a)
	before := s.instances(t)
	s.ensureSnapshot(t, cloud.SnapshotSpec{Name: theSnapshot, Instance: s.a})
	wantSame(t, "the snapshot changed an instance", before, s.instances(t))
	s.start(t, s.a)
	if have := got(s.p.Snapshot(t.Context(), s.a, theSnapshot))(t); have.State != cloud.Complete {
		t.Errorf("the snapshot is %q once its instance runs again", have.State)
	}
}

// snapshotSeen checks that a look right after the request shows the snapshot with its tags.
func snapshotSeen(t *testing.T, s suite) {
	s.stop(t, s.a)
	made := got(s.p.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: theSnapshot, Instance: s.a, Tags: tags()}))(t)
	have := got(s.p.Snapshot(t.Context(), s.a, theSnapshot))(t)
	if have.State != made.State && have.State != cloud.Complete || have.ID != made.ID {
		t.Errorf("what was made is %+v, and what is seen %+v", made, have)
	}
	wantSame(t, "its tags", tags(), have.Tags)
}

// snapshotTaken accepts clouds without a Taken state.
func snapshotTaken(t *testing.T, s suite) {
	if s.Generalize != nil {
		s.Generalize(t, s.a)
	}
	s.stop(t, s.a)
	spec := cloud.SnapshotSpec{Name: theSnapshot, Instance: s.a, Tags: tags()}
	s.until(t, "taken", func() bool {
		have := got(s.p.EnsureSnapshot(t.Context(), spec))(t)
		if have.Taken && have.State != cloud.Pending {
			t.Errorf("a snapshot that is %q is taken", have.State)
		}
		return have.Taken || have.State == cloud.Complete
	})
	s.start(t, s.a)
	have := s.ensureSnapshot(t, spec)
	if diff := cmp.Diff(tags(), have.Tags); diff != "" || have.Taken {
		t.Errorf("it is %+v; its tags: %s", have, diff)
	}
	s.ensureImage(t, firstVersion, have)
}

func snapshotDeleted(t *testing.T, s suite) {
	s.snapshot(t)
	s.deleteSnapshot(t, theSnapshot)
	must(t, s.p.DeleteSnapshot(t.Context(), s.a, theSnapshot))
	if have := got(s.p.Snapshot(t.Context(), s.a, theSnapshot))(t); have.State != cloud.Absent || have.ID != "" {
		t.Errorf("a deleted snapshot looks like %+v", have)
	}
	again := s.ensureSnapshot(t, cloud.SnapshotSpec{Name: theSnapshot, Instance: s.a, Tags: map[string]string{"try": "2"}})
	if again.Tags["try"] != "2" {
		t.Errorf("the second snapshot has the tags %v", again.Tags)
	}
	s.wantPower(t, s.a, cloud.PowerStopped)
}

func deleteNoSnapshot(t *testing.T, s suite) {
	for range 2 {
		must(t, s.p.DeleteSnapshot(t.Context(), s.a, "never-made"))
	}
	if have := got(s.p.Snapshot(t.Context(), s.a, "never-made"))(t); have.State != cloud.Absent {
		t.Errorf("deleting nothing made %+v", have)
	}
}

func longSnapshotNames(t *testing.T, s suite) {
	s.stop(t, s.a)
	long := strings.Repeat("a-rather-long-pool-name-", 6)
	one, two := long+"2026.01.09", long+"2026.01.10"
	first := s.ensureSnapshot(t, cloud.SnapshotSpec{Name: one, Instance: s.a})
	if have := got(s.p.Snapshot(t.Context(), s.a, two))(t); have.State != cloud.Absent || have.Name != two {
		t.Errorf("the snapshot that was not made looks like %+v", have)
	}
	second := s.ensureSnapshot(t, cloud.SnapshotSpec{Name: two, Instance: s.a})
	if first.ID == second.ID || first.Name != one || second.Name != two {
		t.Errorf("two names, and the snapshots %+v and %+v", first, second)
	}
}
