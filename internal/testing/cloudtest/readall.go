package cloudtest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var lookCases = []testCase{
	{"looks change nothing in a fresh pool", looksOfFreshPool},
	{"looks change nothing in a pool with history", looksOfOldPool},
	{"a pool that never had a version lists none", noVersions},
	{"an absent snapshot is a state and no error", absentSnapshot},
	{"an absent version is a state and no error", absentVersion},
	{"preflight finds nothing in a pool that can be captured", preflightOfFreshPool},
	{"preflight reports a version that exists", preflightOfTakenVersion},
	{"a pool shows itself and its recipe", poolShowsItself},
}

// readResults has the results of all looks.
type readResults struct {
	Pool      cloud.Pool
	Instances []cloud.Instance
	Images    []cloud.Image
	Image     cloud.Image
	Snapshot  cloud.Snapshot
	Changes   [2]cloud.RecipeChange
}

const (
	firstVersion  = "2026.01.09"
	secondVersion = "2026.01.10"
	theSnapshot   = "capture-of-a"
)

// readAll calls all looks.
func (s suite) readAll(t *testing.T) readResults {
	t.Helper()
	ctx, ref := t.Context(), s.ref(firstVersion)
	v := readResults{
		Pool:     got(s.p.Pool(ctx, s.Pool))(t),
		Images:   got(s.p.Images(ctx, s.Pool))(t),
		Image:    got(s.p.Image(ctx, ref))(t),
		Snapshot: got(s.p.Snapshot(ctx, s.a, theSnapshot))(t),
		Changes: [2]cloud.RecipeChange{
			got(s.p.RecipeChange(ctx, ref, false))(t),
			got(s.p.RecipeChange(ctx, ref, true))(t),
		},
	}
	v.Instances = s.instances(t)
	return v
}

func (s suite) instances(t *testing.T) []cloud.Instance {
	t.Helper()
	var list []cloud.Instance
	for _, id := range s.Instances {
		list = append(list, got(s.p.Instance(t.Context(), id))(t))
		list[len(list)-1].Recipe = "" // known or not
	}
	return list
}

func (s suite) ref(version string) cloud.ImageRef {
	return cloud.ImageRef{Pool: s.Pool, Version: version}
}

func (s suite) looksChangeNothing(t *testing.T) {
	t.Helper()
	before := s.readAll(t)
	for range 2 {
		got(s.p.Preflight(t.Context(), cloud.PreflightSpec{Pool: s.Pool, Instance: s.a, Version: firstVersion}))(t)
		got(s.p.Preflight(t.Context(), cloud.PreflightSpec{Pool: s.Pool, Instance: s.b, Version: secondVersion}))(t)
		got(s.p.RecipeChange(t.Context(), s.ref(secondVersion), true))(t)
		got(s.p.Image(t.Context(), s.ref(secondVersion)))(t)
		got(s.p.Snapshot(t.Context(), s.b, "nothing"))(t)
		s.Advance(t)
	}
	wantSame(t, "looking changed the world (-before +after)", before, s.readAll(t))
}

func looksOfFreshPool(t *testing.T, s suite) {
	s.looksChangeNothing(t)
	// A change by the very first look would be in both results.
	v := s.readAll(t)
	if len(v.Images) > 0 || v.Image.State != cloud.Absent || v.Snapshot.State != cloud.Absent || v.Pool.Recipe.Version != "" {
		t.Errorf("looking made something: %+v", v)
	}
}

func looksOfOldPool(t *testing.T, s suite) {
	s.publish(t, firstVersion)
	s.promote(t, firstVersion, true)
	s.looksChangeNothing(t)
}

func noVersions(t *testing.T, s suite) {
	if list := got(s.p.Images(t.Context(), s.Pool))(t); len(list) != 0 {
		t.Errorf("a pool without history lists %+v", list)
	}
}

func absentSnapshot(t *testing.T, s suite) {
	have := got(s.p.Snapshot(t.Context(), s.a, theSnapshot))(t)
	wantSame(t, "the snapshot", cloud.Snapshot{Name: theSnapshot, State: cloud.Absent}, have)
}

func absentVersion(t *testing.T, s suite) {
	have := got(s.p.Image(t.Context(), s.ref(firstVersion)))(t)
	if have.State != cloud.Absent || have.ID != "" || have.Version != firstVersion || have.ImageRef != s.ref(firstVersion) {
		t.Errorf("an absent version looks like %+v", have)
	}
}

func preflightOfFreshPool(t *testing.T, s suite) {
	for _, id := range s.Instances {
		if found := got(s.p.Preflight(t.Context(), cloud.PreflightSpec{Pool: s.Pool, Instance: id, Version: firstVersion}))(t); found != nil {
			t.Errorf("preflight of %s finds %+v", id, found)
		}
	}
}

var camelCase = regexp.MustCompile(`^([A-Z][a-z0-9]*)+$`)

func preflightOfTakenVersion(t *testing.T, s suite) {
	s.publish(t, firstVersion)
	s.start(t, s.a)
	found := got(s.p.Preflight(t.Context(), cloud.PreflightSpec{Pool: s.Pool, Instance: s.a, Version: firstVersion}))(t)
	i := slices.IndexFunc(found, func(r cloud.Refusal) bool { return r.Reason == "VersionExists" })
	if i < 0 {
		t.Fatalf("preflight for a version that exists finds %+v, not VersionExists", found)
	}
	if !strings.Contains(found[i].Message, firstVersion) {
		t.Errorf("the refusal does not name the version: %q", found[i].Message)
	}
	for _, r := range found {
		if !camelCase.MatchString(r.Reason) || r.Message == "" {
			t.Errorf("refusal %+v needs a reason in one CamelCase word, and a message", r)
		}
	}
	if found := got(s.p.Preflight(t.Context(), cloud.PreflightSpec{Pool: s.Pool, Instance: s.a, Version: secondVersion}))(t); found != nil {
		t.Errorf("preflight for another version finds %+v", found)
	}
}

func poolShowsItself(t *testing.T, s suite) {
	pool := got(s.p.Pool(t.Context(), s.Pool))(t)
	if pool.ID != s.Pool || pool.Name == "" || !strings.EqualFold(pool.Name, s.p.PoolName(s.Pool)) {
		t.Errorf("pool %q is shown as %q named %q; its ID has the name %q", s.Pool, pool.ID, pool.Name, s.p.PoolName(s.Pool))
	}
	if pool.Capacity != int64(len(s.Instances)) {
		t.Errorf("capacity %d, want %d", pool.Capacity, len(s.Instances))
	}
	if pool.MaxSize != 0 && pool.MaxSize < pool.Capacity {
		t.Errorf("maximum size %d is less than the capacity %d", pool.MaxSize, pool.Capacity)
	}
	if pool.Recipe.Image == "" || pool.Recipe.Version != "" {
		t.Errorf("recipe %+v of a pool without versions", pool.Recipe)
	}
	if len(pool.Refusals) != 0 {
		t.Errorf("a pool that can be captured has refusals %+v", pool.Refusals)
	}
}

// upper changes the case of an ID except its scheme. No cloud provider of Kubernetes varies the scheme.
func upper(id cloud.InstanceID) cloud.InstanceID {
	scheme, rest, found := strings.Cut(string(id), ":")
	if !found {
		return cloud.InstanceID(strings.ToUpper(string(id)))
	}
	return cloud.InstanceID(scheme + ":" + strings.ToUpper(rest))
}
