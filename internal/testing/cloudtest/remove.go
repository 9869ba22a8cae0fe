package cloudtest

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var removeCases = []testCase{
	{"EnsureRemoved is repeated until the instance is gone, and its pool wants one node fewer", removes},
	{"removing takes one place from the pool, however often it is asked for", removesOnce},
	{"a stopped and protected instance is removed", removesWhatIsHeld},
	{"removing a missing instance changes nothing", removesNothing},
	{"preflight reports a pool that cannot grow before its donor is removed, and only then", preflightOfGrowth},
	{"preflight reports an instance that cannot be removed, and only where removal is asked for", preflightOfRemoval},
	{"a snapshot outlives the instance", snapshotOutlives},
}

// remove removes instance a, and checks each answer.
func (s suite) remove(t *testing.T) {
	t.Helper()
	s.until(t, "removed", func() bool {
		state := got(s.p.EnsureRemoved(t.Context(), s.a))(t)
		if state != cloud.Deleting && state != cloud.Absent {
			t.Fatalf("an instance that is removed is %q", state)
		}
		_, err := s.p.Instance(t.Context(), s.a)
		if state == cloud.Absent {
			wantError(t, err, cloud.NotFound)
		}
		return state == cloud.Absent
	})
}

func removes(t *testing.T, s suite) {
	other, size := got(s.p.Instance(t.Context(), s.b))(t), s.capacity(t)
	recipe := got(s.p.Pool(t.Context(), s.Pool))(t).Recipe
	s.remove(t)
	if have := s.capacity(t); have != size-1 {
		t.Errorf("the pool's wanted size is %d nodes, of %d before", have, size)
	}
	if s.List != nil {
		// No replacement is created, now or later.
		for range 20 {
			s.Advance(t)
		}
		if list := s.List(t); int64(len(list)) != size-1 {
			t.Errorf("the pool has the instances %v", list)
		}
	}
	wantSame(t, "another instance was changed (-before +after)", other, got(s.p.Instance(t.Context(), s.b))(t))
	wantSame(t, "the recipe was changed (-before +after)", recipe, got(s.p.Pool(t.Context(), s.Pool))(t).Recipe)
}

func removesOnce(t *testing.T, s suite) {
	size := s.capacity(t)
	for range 3 {
		got(s.p.EnsureRemoved(t.Context(), s.a))(t)
	}
	s.remove(t)
	for range 3 {
		if state := got(s.p.EnsureRemoved(t.Context(), s.a))(t); state != cloud.Absent {
			t.Errorf("asked again, it is %q", state)
		}
	}
	if have := s.capacity(t); have != size-1 {
		t.Errorf("the pool's wanted size is %d nodes, of %d before", have, size)
	}
	got(s.p.Instance(t.Context(), s.b))(t)
}

func removesWhatIsHeld(t *testing.T, s suite) {
	hold := got(s.p.Protection(t.Context(), s.a))(t)
	must(t, s.p.ProtectFromScaleIn(t.Context(), s.a, hold.Token))
	s.stop(t, s.a)
	s.remove(t)
}

func removesNothing(t *testing.T, s suite) {
	before := s.readAll(t)
	if state := got(s.p.EnsureRemoved(t.Context(), s.Missing))(t); state != cloud.Absent {
		t.Errorf("one that does not exist is %q", state)
	}
	s.Advance(t)
	wantSame(t, "removing nothing changed the world (-before +after)", before, s.readAll(t))
}

// snapshotOutlives makes the image after the removal of the donor.
func snapshotOutlives(t *testing.T, s suite) {
	made := s.snapshot(t)
	s.remove(t)
	if have := got(s.p.Snapshot(t.Context(), s.a, made.Name))(t); have.State != cloud.Complete || have.ID != made.ID {
		t.Errorf("the snapshot is %+v, and was %+v", have, made)
	}
	s.ensureImage(t, firstVersion, made)
}

// preflight returns the preflight of a capture that removes its donor, grows the pool first, or neither.
func (s suite) preflight(t *testing.T, removes, grows bool) []cloud.Refusal {
	t.Helper()
	found := got(s.p.Preflight(t.Context(), cloud.PreflightSpec{Pool: s.Pool, Instance: s.a, Version: firstVersion, Removes: removes, Grows: grows}))(t)
	for _, r := range found {
		if r.Reason == "" || r.Message == "" {
			t.Errorf("a refusal without a reason or a sentence: %+v", r)
		}
	}
	return found
}

func preflightOfGrowth(t *testing.T, s suite) {
	if s.Crowd == nil {
		t.Skip("the harness cannot fill the cloud")
	}
	if found := s.preflight(t, true, true); found != nil {
		t.Fatalf("with room for an instance more, preflight finds %+v", found)
	}
	s.Crowd(t)
	if found := s.preflight(t, true, true); len(found) == 0 {
		t.Error("preflight finds room where there is none")
	}
	if found := s.preflight(t, true, false); found != nil {
		t.Errorf("of a pool that is not to grow, preflight finds %+v", found)
	}
	if err := s.p.SetCapacity(t.Context(), s.Pool, s.capacity(t), s.capacity(t)+1); err == nil {
		t.Error("the harness left room")
	}
}

func preflightOfRemoval(t *testing.T, s suite) {
	if s.Bind == nil {
		t.Skip("the harness cannot keep instances from being removed")
	}
	if found := s.preflight(t, true, false); found != nil {
		t.Fatalf("of an instance that can be removed, preflight finds %+v", found)
	}
	s.Bind(t)
	if found := s.preflight(t, true, false); len(found) == 0 {
		t.Error("preflight does not report that the instance cannot be removed")
	}
	if found := s.preflight(t, false, false); found != nil {
		t.Errorf("of a donor that returns, preflight finds %+v", found)
	}
	fails(s.p.EnsureRemoved(t.Context(), s.a))(t, cloud.Denied)
}
