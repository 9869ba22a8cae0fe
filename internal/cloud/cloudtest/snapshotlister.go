package cloudtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var shelfCases = []testCase{
	{"the list shows each owned snapshot once, by the Prototype's name", shelfShowsSnapshots},
	{"the list does not show a snapshot without an owner", shelfLeavesStrangers},
	{"listing snapshots changes nothing", shelfChangesNothing},
	{"a deleted snapshot leaves the list, and no other snapshot does", shelfDrops},
	{"dropping no snapshot is nil", shelfDropsNothing},
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

// onShelf lists the snapshots by name.
func (s suite) onShelf(t *testing.T, pools ...cloud.PoolID) []cloud.Snapshot {
	t.Helper()
	all := got(s.p.Snapshots(t.Context(), pools...))(t)
	slices.SortFunc(all, func(a, b cloud.Snapshot) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func shelfShowsSnapshots(t *testing.T, s suite) {
	s.shelve(t)
	var want []cloud.Snapshot
	for _, name := range []string{"pool-2026.01.08", "pool-2026.01.09"} {
		want = append(want, got(s.p.Snapshot(t.Context(), s.a, name))(t))
	}
	have := s.onShelf(t, s.Pool, s.Pool) // a repeated place is one place
	for i := range min(len(have), len(want)) {
		if strings.EqualFold(have[i].ID, want[i].ID) { // clouds vary the case of IDs
			have[i].ID = want[i].ID
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("snapshots (-a look +the list):\n%s", diff)
	}
}

func shelfLeavesStrangers(t *testing.T, s suite) {
	s.shelve(t)
	for _, snapshot := range s.onShelf(t, s.Pool) {
		if snapshot.Tags[cloud.TagUID] == "" {
			t.Errorf("a snapshot without an owner is shown: %+v", snapshot)
		}
	}
	if found := s.onShelf(t); len(found) > 0 {
		t.Logf("without a pool, all that the provider knows of is shown: %d", len(found))
	}
}

func shelfChangesNothing(t *testing.T, s suite) {
	s.shelve(t)
	before := s.look(t)
	first := s.onShelf(t, s.Pool)
	if diff := cmp.Diff(first, s.onShelf(t, s.Pool)); diff != "" {
		t.Errorf("the second look shows something else (-first +second):\n%s", diff)
	}
	if diff := cmp.Diff(before, s.look(t)); diff != "" {
		t.Errorf("looking changed the world (-before +after):\n%s", diff)
	}
}

func shelfDrops(t *testing.T, s suite) {
	s.shelve(t)
	all := s.onShelf(t, s.Pool)
	if len(all) != 2 {
		t.Fatalf("the list shows %d snapshots, want 2", len(all))
	}
	must(t, s.p.DropSnapshot(t.Context(), all[0].ID))
	must(t, s.p.DropSnapshot(t.Context(), all[0].ID))
	s.until(t, "absent", func() bool {
		return got(s.p.Snapshot(t.Context(), s.a, all[0].Name))(t).State == cloud.Absent && len(s.onShelf(t, s.Pool)) == 1
	})
	for _, name := range []string{all[1].Name, "another-owner"} {
		if have := got(s.p.Snapshot(t.Context(), s.a, name))(t); have.State != cloud.Complete {
			t.Errorf("snapshot %s is %s after another one was dropped", name, have.State)
		}
	}
	must(t, s.p.DropSnapshot(t.Context(), all[0].ID))
}

func shelfDropsNothing(t *testing.T, s suite) {
	s.shelve(t)
	for _, snapshot := range s.onShelf(t, s.Pool) {
		must(t, s.p.DropSnapshot(t.Context(), snapshot.ID+"-not"))
	}
	if left := s.onShelf(t, s.Pool); len(left) != 2 || left[0].State != cloud.Complete {
		t.Errorf("deleting a missing snapshot changed the list: %+v", left)
	}
}
