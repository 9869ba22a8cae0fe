package cloudtest

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Providers that cannot rebuild skip these cases, apart from the last one.
var rebuildCases = []testCase{
	{"EnsureRebuilt is repeated until complete, and the instance runs what the version holds", rebuilds},
	{"rebuilding an instance of the version does nothing", rebuildsOnce},
	{"rebuilding from a version that the recipe does not name is a conflict and changes nothing", rebuildsWhatTheRecipeNames},
	{"rebuilding a missing instance is not found", rebuildsNothing},
	{"a provider that cannot rebuild says so, and changes nothing", rebuildsNowhere},
}

func (s suite) needsRebuild(t *testing.T) {
	t.Helper()
	if !s.p.CanRebuild(s.Pool) {
		t.Skip("this provider cannot rebuild instances")
	}
}

// rebuild rebuilds instance a, and checks each answer.
func (s suite) rebuild(t *testing.T, version string) {
	t.Helper()
	s.until(t, "rebuilt", func() bool {
		have := got(s.p.EnsureRebuilt(t.Context(), s.a, version))(t)
		if have.State != cloud.Complete && have.State != cloud.Pending {
			t.Fatalf("an instance that is rebuilt is %+v", have)
		}
		return have.State == cloud.Complete
	})
}

func rebuilds(t *testing.T, s suite) {
	s.needsRebuild(t)
	s.publishAndPromote(t)
	other := got(s.p.Instance(t.Context(), s.b))(t)
	before := got(s.p.Instance(t.Context(), s.a))(t)
	s.rebuild(t, firstVersion)
	after := got(s.p.Instance(t.Context(), s.a))(t)
	if s.p.BuiltFrom(s.Pool, after) != firstVersion || after.Power != cloud.PowerRunning {
		t.Errorf("it is complete, and the instance is %+v", after)
	}
	after.Image, after.BuiltFrom, after.Disk, after.CreatedAt = before.Image, before.BuiltFrom, before.Disk, before.CreatedAt
	wantSame(t, "the instance is another one (-before +after)", before, after)
	wantSame(t, "another instance was changed (-before +after)", other, got(s.p.Instance(t.Context(), s.b))(t))
}

// rebuildsOnce checks that repeated calls start no second rebuild.
func rebuildsOnce(t *testing.T, s suite) {
	s.needsRebuild(t)
	s.publishAndPromote(t)
	s.rebuild(t, firstVersion)
	for range 3 {
		if have := got(s.p.EnsureRebuilt(t.Context(), s.a, firstVersion))(t); have != (cloud.Rebuild{State: cloud.Complete}) {
			t.Errorf("asked again, it is %+v", have)
		}
		if have := got(s.p.Instance(t.Context(), s.a))(t); have.Power != cloud.PowerRunning {
			t.Errorf("asked again, the instance is %+v", have)
		}
	}
}

func rebuildsWhatTheRecipeNames(t *testing.T, s suite) {
	s.needsRebuild(t)
	s.publish(t, firstVersion)
	s.start(t, s.a)
	before := s.readAll(t)
	fails(s.p.EnsureRebuilt(t.Context(), s.a, firstVersion))(t, cloud.Conflict)
	s.Advance(t)
	wantSame(t, "a refused rebuild changed the world (-before +after)", before, s.readAll(t))
}

func rebuildsNothing(t *testing.T, s suite) {
	s.needsRebuild(t)
	fails(s.p.EnsureRebuilt(t.Context(), s.Missing, firstVersion))(t, cloud.NotFound)
}

func rebuildsNowhere(t *testing.T, s suite) {
	if s.p.CanRebuild(s.Pool) {
		t.Skip("this provider can rebuild instances")
	}
	before := s.readAll(t)
	fails(s.p.EnsureRebuilt(t.Context(), s.a, firstVersion))(t, cloud.Unsupported)
	wantSame(t, "an unsupported rebuild changed the world (-before +after)", before, s.readAll(t))
}
