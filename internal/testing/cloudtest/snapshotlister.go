package cloudtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var snapshotListerCases = []testCase{
	{"the list shows each owned snapshot once, by the Prototype's name", snapshotListerShowsSnapshots},
	{"the list does not show a snapshot without an owner", snapshotDropKeepsOthers},
	{"listing snapshots changes nothing", snapshotListerChangesNothing},
	{"a deleted snapshot leaves the list, and no other snapshot does", snapshotDropDeletes},
	{"dropping no snapshot is nil", snapshotDropWithoutSnapshot},
}

// owned returns the tags of a Prototype's snapshot.
func owned(prototype, uid string) map[string]string {
	return map[string]string{cloud.TagPrototype: prototype, cloud.TagUID: uid, cloud.TagBuiltFrom: "node-a"}
}

// shelve makes two snapshots with an owner, and one without.
func (s suite) shelve(t *testing.T) {
	t.Helper()
	s.stop(t, s.a)
	s.ensureSnapshot(t, cloud.SnapshotSpec{Name: "pool-2026.01.08", Instance: s.a, Tags: owned("pool-2026.01.08", "u8")})
	s.ensureSnapshot(t, cloud.SnapshotSpec{Name: "pool-2026.01.09", Instance: s.a, Tags: owned("pool-2026.01.09", "u9")})
	s.ensureSnapshot(t, cloud.SnapshotSpec{Name: "another-owner", Instance: s.a, Tags: map[string]string{cloud.TagBuiltFrom: "node-a"}})
}

// listSnapshots lists the snapshots by name.
func (s suite) listSnapshots(t *testing.T, pools ...cloud.PoolID) []cloud.Snapshot {
	t.Helper()
	all := got(s.p.Snapshots(t.Context(), pools...))(t)
	slices.SortFunc(all, func(a, b cloud.Snapshot) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func snapshotListerShowsSnapshots(t *testing.T, s suite) {
	s.shelve(t)
	var want []cloud.Snapshot
	for _, name := range []string{"pool-2026.01.08", "pool-2026.01.09"} {
		want = append(want, got(s.p.Snapshot(t.Context(), s.a, name))(t))
	}
	have := s.listSnapshots(t, s.Pool, s.Pool) // a repeated place is one place
	for i := range min(len(have), len(want)) {
		if strings.EqualFold(have[i].ID, want[i].ID) { // clouds vary the case of IDs
			have[i].ID = want[i].ID
		}
	}
	wantSame(t, "snapshots (-a look +the list)", want, have)
}

func snapshotDropKeepsOthers(t *testing.T, s suite) {
	s.shelve(t)
	for _, snapshot := range s.listSnapshots(t, s.Pool) {
		if snapshot.Tags[cloud.TagUID] == "" {
			t.Errorf("a snapshot without an owner is shown: %+v", snapshot)
		}
	}
	if found := s.listSnapshots(t); len(found) > 0 {
		t.Logf("without a pool, all that the provider knows of is shown: %d", len(found))
	}
}

func snapshotListerChangesNothing(t *testing.T, s suite) {
	s.shelve(t)
	before := s.readAll(t)
	first := s.listSnapshots(t, s.Pool)
	wantSame(t, "the second look shows something else (-first +second)", first, s.listSnapshots(t, s.Pool))
	wantSame(t, "looking changed the world (-before +after)", before, s.readAll(t))
}

func snapshotDropDeletes(t *testing.T, s suite) {
	s.shelve(t)
	all := s.listSnapshots(t, s.Pool)
	if len(all) != 2 {
		t.Fatalf("the list shows %d snapshots, want 2", len(all))
	}
	must(t, s.p.DropSnapshot(t.Context(), all[0].ID))
	must(t, s.p.DropSnapshot(t.Context(), all[0].ID))
	s.until(t, "absent", func() bool {
		return got(s.p.Snapshot(t.Context(), s.a, all[0].Name))(t).State == cloud.Absent && len(s.listSnapshots(t, s.Pool)) == 1
	})
	for _, name := range []string{all[1].Name, "another-owner"} {
		if have := got(s.p.Snapshot(t.Context(), s.a, name))(t); have.State != cloud.Complete {
			t.Errorf("snapshot %s is %s after another one was dropped", name, have.State)
		}
	}
	must(t, s.p.DropSnapshot(t.Context(), all[0].ID))
}

func snapshotDropWithoutSnapshot(t *testing.T, s suite) {
	s.shelve(t)
	for _, snapshot := range s.listSnapshots(t, s.Pool) {
		must(t, s.p.DropSnapshot(t.Context(), snapshot.ID+"-not"))
	}
	if left := s.listSnapshots(t, s.Pool); len(left) != 2 || left[0].State != cloud.Complete {
		t.Errorf("deleting a missing snapshot changed the list: %+v", left)
	}
}
