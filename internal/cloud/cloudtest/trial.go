package cloudtest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var trialCases = []testCase{
	{"a trial that was never begun is absent, and closing or ending it changes nothing", trialOfNothing},
	{"a trial apart builds an instance from the version and does not touch the pool", triesApart},
	{"the instance of a trial apart belongs to no pool", triesOutside},
	{"a trial in the pool opens its recipe and grows it by an instance of the version", triesInPool},
	{"asked for again, a trial builds no second instance, whatever became of the first", triesOnce},
	{"a trial in a pool that is not as its spec says is a conflict and changes nothing", triesConflict},
	{"a second trial in one pool is a conflict and changes nothing", triesAlone},
	{"closing a trial gives the recipe its image back and leaves its instances", closes},
	{"closing a trial leaves what somebody else has changed", closesOwn},
	{"ending a trial that is open closes it", endsOpen},
	{"ending a trial in the pool removes its instances with their places, and what grew meanwhile stays", endsOwn},
	{"ending a trial again removes nothing, even if its version is used by then", endsOnce},
	{"what was promoted while a trial was closed stays", endsPromoted},
	{"the trials of a pool are listed until they have ended, each as it can be ended by", listsTrials},
	{"a trial of a version that does not exist is not found and changes nothing", triesMissing},
	{"preflight of a trial tells of what stands against it", preflightsTrial},
	{"a trial for which there is no room says so and leaves nothing", triesWithoutRoom},
	{"a trial in the pool is refused where it would change running instances", triesRolling},
	{"a trial in the pool is refused where versions are tried beside it only, and changes nothing", triesBesideOnly},
}

// toTry publishes a version, and returns the spec of a trial in the current state.
func toTry(t *testing.T, s suite, inPool bool) (cloud.Provider, cloud.TrialSpec) {
	t.Helper()
	power := s.p
	if inPool && s.Apart {
		t.Skip("this provider tries versions beside the pool only")
	}
	s.publish(t, firstVersion)
	s.start(t, s.a)
	return power, trialSpec(t, s, "trial-of-it", inPool)
}

// trialSpec returns the spec of a trial in the current state.
func trialSpec(t *testing.T, s suite, name string, inPool bool) cloud.TrialSpec {
	t.Helper()
	pool := got(s.p.Pool(t.Context(), s.Pool))(t)
	return cloud.TrialSpec{
		ImageRef: s.ref(firstVersion), Name: name, InPool: inPool, RemoveBootstrap: !inPool, Image: pool.Recipe.Image, Capacity: pool.Capacity,
		Tags: map[string]string{cloud.TagPrototype: "it", cloud.TagUID: "uid-of-it"},
	}
}

// beginTrial begins a trial and waits until its instance runs.
func beginTrial(t *testing.T, s suite, power cloud.Provider, spec cloud.TrialSpec) cloud.Trial {
	t.Helper()
	have := got(power.EnsureTrial(t.Context(), spec))(t)
	s.until(t, "an instance to try", func() bool {
		if have.State != cloud.Pending && have.State != cloud.Complete {
			t.Fatalf("a trial that was begun is %+v", have)
		}
		if have.State == cloud.Complete {
			return true
		}
		have = got(power.Trial(t.Context(), spec))(t)
		return false
	})
	if len(have.Instances) == 0 || have.NoRoom || have.Trouble != "" {
		t.Fatalf("a trial that is complete is %+v", have)
	}
	for _, m := range have.Instances {
		seen := got(s.p.Instance(t.Context(), m.ID))(t)
		if m.BuiltFrom != spec.Version || m.Power != cloud.PowerRunning || seen.Power != cloud.PowerRunning || s.p.BuiltFrom(s.Pool, seen) != spec.Version {
			t.Errorf("an instance to try is told as %+v and is %+v", m, seen)
		}
	}
	return have
}

// endTrial ends a trial, and checks that nothing remains.
func endTrial(t *testing.T, s suite, power cloud.Provider, spec cloud.TrialSpec, built ...cloud.Instance) {
	t.Helper()
	s.until(t, "ended", func() bool {
		state := got(power.EndTrial(t.Context(), spec))(t)
		if state != cloud.Deleting && state != cloud.Absent {
			t.Fatalf("a trial that is ended is %q", state)
		}
		return state == cloud.Absent
	})
	if diff := cmp.Diff(cloud.Trial{}, got(power.Trial(t.Context(), spec))(t)); diff != "" {
		t.Errorf("ended, something is left of it (-want +got):\n%s", diff)
	}
	for _, m := range built {
		_, err := s.p.Instance(t.Context(), m.ID)
		wantError(t, err, cloud.NotFound)
	}
}

// stands returns a check that the pool is unchanged.
func stands(t *testing.T, s suite) (compare func(t *testing.T)) {
	t.Helper()
	before := s.look(t)
	var list []cloud.InstanceID
	if s.List != nil {
		list = s.List(t)
	}
	return func(t *testing.T) {
		t.Helper()
		if diff := cmp.Diff(before, s.look(t)); diff != "" {
			t.Errorf("the pool was changed (-before +after):\n%s", diff)
		}
		if s.List != nil {
			if diff := cmp.Diff(list, s.List(t)); diff != "" {
				t.Errorf("the pool has other instances (-before +after):\n%s", diff)
			}
		}
	}
}

// ways are the places of trials: in the pool or not.
func ways(s suite) []bool {
	if s.Apart {
		return []bool{false}
	}
	return []bool{false, true}
}

func trialOfNothing(t *testing.T, s suite) {
	power, _ := toTry(t, s, false)
	unchanged := stands(t, s)
	for _, inPool := range ways(s) {
		spec := trialSpec(t, s, "never", inPool)
		if diff := cmp.Diff(cloud.Trial{}, got(power.Trial(t.Context(), spec))(t)); diff != "" {
			t.Errorf("a trial that was never begun (-want +got):\n%s", diff)
		}
		must(t, power.CloseTrial(t.Context(), spec))
		endTrial(t, s, power, spec)
	}
	s.Advance(t)
	unchanged(t)
}

func triesApart(t *testing.T, s suite) {
	power, spec := toTry(t, s, false)
	unchanged := stands(t, s)
	have := beginTrial(t, s, power, spec)
	if have.Open || len(have.Instances) != 1 || slices.Contains(s.Instances, have.Instances[0].ID) {
		t.Errorf("apart, it is %+v", have)
	}
	unchanged(t)
	must(t, power.CloseTrial(t.Context(), spec))
	unchanged(t)
	endTrial(t, s, power, spec, have.Instances...)
	unchanged(t)
}

func triesOutside(t *testing.T, s suite) {
	power, spec := toTry(t, s, false)
	id := beginTrial(t, s, power, spec).Instances[0].ID
	node := cloud.NodeValues{ProviderID: id}
	if member := got(s.p.PoolsOf(t.Context(), []cloud.NodeValues{node}))(t)[0]; member.Pool != "" || member.Why == "" {
		t.Errorf("the instance of a trial belongs to %+v", member)
	}
	for _, m := range got(s.p.Instances(t.Context(), s.Pool))(t) {
		if s.p.SameInstance(m.ID, id) {
			t.Errorf("the census of the pool has %+v", m)
		}
	}
}

func triesInPool(t *testing.T, s suite) {
	power, spec := toTry(t, s, true)
	others := s.instances(t)
	if have := got(power.EnsureTrial(t.Context(), spec))(t); !have.Open {
		t.Errorf("begun, it is %+v", have)
	}
	if pool := got(s.p.Pool(t.Context(), s.Pool))(t); pool.Recipe.Version != firstVersion || pool.Capacity != spec.Capacity+1 {
		t.Errorf("begun, the pool is %+v", pool)
	}
	have := beginTrial(t, s, power, spec)
	if !have.Open || len(have.Instances) != 1 {
		t.Errorf("in the pool, it is %+v", have)
	}
	if diff := cmp.Diff(others, s.instances(t)); diff != "" {
		t.Errorf("other instances were changed (-before +after):\n%s", diff)
	}
}

func triesOnce(t *testing.T, s suite) {
	power, _ := toTry(t, s, false)
	for _, inPool := range ways(s) {
		spec := trialSpec(t, s, "once", inPool)
		for range 3 {
			got(power.EnsureTrial(t.Context(), spec))(t)
		}
		first := beginTrial(t, s, power, spec)
		must(t, power.CloseTrial(t.Context(), spec))
		if again := got(power.EnsureTrial(t.Context(), spec))(t); len(again.Instances) != 1 || again.Instances[0].ID != first.Instances[0].ID || again.Open {
			t.Errorf("closed and asked for again, it is %+v, and was %+v", again, first)
		}
		if inPool { // a stranger removes the instance
			s.until(t, "removed", func() bool {
				return got(s.p.EnsureRemoved(t.Context(), first.Instances[0].ID))(t) == cloud.Absent
			})
			for range 3 {
				if again := got(power.EnsureTrial(t.Context(), spec))(t); len(again.Instances) > 0 || again.State != cloud.Failed || again.Trouble != "" {
					t.Errorf("its instance is gone, and it is %+v", again)
				}
				s.Advance(t)
			}
		}
		endTrial(t, s, power, spec, first.Instances...)
		if size := s.capacity(t); size != spec.Capacity {
			t.Errorf("ended, the pool is meant to have %d nodes, of %d before", size, spec.Capacity)
		}
	}
}

func triesConflict(t *testing.T, s suite) {
	power, spec := toTry(t, s, true)
	unchanged := stands(t, s)
	for name, change := range map[string]func(*cloud.TrialSpec){
		"image":    func(spec *cloud.TrialSpec) { spec.Image += "-other" },
		"capacity": func(spec *cloud.TrialSpec) { spec.Capacity++ },
	} {
		other := spec
		change(&other)
		_, err := power.EnsureTrial(t.Context(), other)
		if err == nil {
			t.Fatalf("with another %s it was begun", name)
		}
		wantError(t, err, cloud.Conflict)
		s.Advance(t)
		unchanged(t)
	}
}

func triesAlone(t *testing.T, s suite) {
	power, spec := toTry(t, s, true)
	built := beginTrial(t, s, power, spec)
	must(t, power.CloseTrial(t.Context(), spec))
	unchanged := stands(t, s)
	second := trialSpec(t, s, "another", true)
	_, err := power.EnsureTrial(t.Context(), second)
	wantError(t, err, cloud.Conflict)
	must(t, power.CloseTrial(t.Context(), second))
	endTrial(t, s, power, second)
	unchanged(t)
	if have := got(power.Trial(t.Context(), spec))(t); have.State != cloud.Complete {
		t.Errorf("the other trial ended it: %+v", have)
	}
	endTrial(t, s, power, spec, built.Instances...)
}

func closes(t *testing.T, s suite) {
	power, spec := toTry(t, s, true)
	recipe := s.recipe(t)
	built := beginTrial(t, s, power, spec)
	for range 2 {
		must(t, power.CloseTrial(t.Context(), spec))
		if diff := cmp.Diff(recipe, s.recipe(t)); diff != "" {
			t.Errorf("the recipe is another one (-before +after):\n%s", diff)
		}
	}
	after := got(power.Trial(t.Context(), spec))(t)
	if after.Open || after.State != cloud.Complete || len(after.Instances) != 1 || after.Instances[0].ID != built.Instances[0].ID || s.capacity(t) != spec.Capacity+1 {
		t.Errorf("closed, it is %+v", after)
	}
}

func closesOwn(t *testing.T, s suite) {
	power, spec := toTry(t, s, true)
	s.publish(t, secondVersion)
	s.start(t, s.a)
	beginTrial(t, s, power, spec)
	other := spec
	other.Name = "another"
	must(t, power.CloseTrial(t.Context(), other))
	if recipe := s.recipe(t); recipe.Version != firstVersion {
		t.Errorf("closed for another trial, the recipe is %+v", recipe)
	}
	s.promote(t, secondVersion, false)
	must(t, power.CloseTrial(t.Context(), spec))
	if recipe := s.recipe(t); recipe.Version != secondVersion {
		t.Errorf("the recipe that somebody has set is %+v", recipe)
	}
	endTrial(t, s, power, spec)
	if recipe := s.recipe(t); recipe.Version != secondVersion {
		t.Errorf("ended, the recipe that somebody has set is %+v", recipe)
	}
}

func endsOpen(t *testing.T, s suite) {
	power, spec := toTry(t, s, true)
	unchanged := stands(t, s)
	built := beginTrial(t, s, power, spec)
	endTrial(t, s, power, spec, built.Instances...)
	unchanged(t)
}

func endsOwn(t *testing.T, s suite) {
	power, spec := toTry(t, s, true)
	others := s.instances(t)
	recipe := s.recipe(t)
	must(t, func() error { _, err := power.EnsureTrial(t.Context(), spec); return err }())
	// An autoscaler grows the pool while the recipe is open, and again after closing.
	s.until(t, "grown", func() bool {
		return s.p.SetCapacity(t.Context(), s.Pool, spec.Capacity+1, spec.Capacity+2) == nil
	})
	s.until(t, "two instances to try", func() bool {
		have := got(power.Trial(t.Context(), spec))(t)
		return len(have.Instances) == 2 && !slices.ContainsFunc(have.Instances, func(m cloud.Instance) bool { return m.Power != cloud.PowerRunning })
	})
	built := got(power.Trial(t.Context(), spec))(t)
	must(t, power.CloseTrial(t.Context(), spec))
	must(t, s.p.SetCapacity(t.Context(), s.Pool, spec.Capacity+2, spec.Capacity+3))
	endTrial(t, s, power, spec, built.Instances...)
	if size := s.capacity(t); size != spec.Capacity+1 {
		t.Errorf("the pool is meant to have %d nodes, want the %d before and the one that it grew by", size, spec.Capacity)
	}
	if s.List != nil {
		s.until(t, "one more than before", func() bool { return int64(len(s.List(t))) == spec.Capacity+1 })
	}
	if diff := cmp.Diff(others, s.instances(t)); diff != "" {
		t.Errorf("other instances were changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(recipe, s.recipe(t)); diff != "" {
		t.Errorf("the recipe is another one (-before +after):\n%s", diff)
	}
}

func endsOnce(t *testing.T, s suite) {
	power, _ := toTry(t, s, false)
	var ended []cloud.TrialSpec
	for _, inPool := range ways(s) {
		spec := trialSpec(t, s, "once", inPool)
		endTrial(t, s, power, spec, beginTrial(t, s, power, spec).Instances...)
		ended = append(ended, spec)
	}
	s.promote(t, firstVersion, true)
	size := s.capacity(t)
	must(t, s.p.SetCapacity(t.Context(), s.Pool, size, size+1))
	if s.List != nil {
		s.until(t, "grown", func() bool { return int64(len(s.List(t))) == size+1 })
	}
	unchanged := stands(t, s)
	for _, spec := range ended {
		endTrial(t, s, power, spec)
		must(t, power.CloseTrial(t.Context(), spec))
	}
	s.Advance(t)
	unchanged(t)
}

func endsPromoted(t *testing.T, s suite) {
	power, spec := toTry(t, s, true)
	built := beginTrial(t, s, power, spec)
	must(t, power.CloseTrial(t.Context(), spec))
	s.promote(t, firstVersion, false)
	endTrial(t, s, power, spec)
	if size := s.capacity(t); size != spec.Capacity+1 {
		t.Errorf("the pool is meant to have %d nodes, of %d before the trial", size, spec.Capacity)
	}
	if m := got(s.p.Instance(t.Context(), built.Instances[0].ID))(t); m.Power != cloud.PowerRunning || m.Removing {
		t.Errorf("the instance is %+v", m)
	}
	if recipe := s.recipe(t); recipe.Version != firstVersion {
		t.Errorf("the recipe is %+v", recipe)
	}
}

func triesMissing(t *testing.T, s suite) {
	power, _ := toTry(t, s, false)
	unchanged := stands(t, s)
	for _, inPool := range ways(s) {
		spec := trialSpec(t, s, "missing", inPool)
		spec.Version = secondVersion
		_, err := power.EnsureTrial(t.Context(), spec)
		wantError(t, err, cloud.NotFound)
		if have := got(power.Trial(t.Context(), spec))(t); have.State != cloud.Absent {
			t.Errorf("it is %+v", have)
		}
	}
	s.Advance(t)
	unchanged(t)
}

// foreseen returns the reasons of a trial's preflight.
func foreseen(t *testing.T, s suite, power cloud.Provider, inPool, removeBootstrap bool) []string {
	t.Helper()
	spec := trialSpec(t, s, "thought-of", inPool)
	spec.RemoveBootstrap, spec.Image, spec.Capacity = removeBootstrap, "", 0
	var reasons []string
	for _, r := range got(power.PreflightTrial(t.Context(), spec))(t) {
		if !camelCase.MatchString(r.Reason) || r.Message == "" {
			t.Errorf("refusal %+v needs a reason in one CamelCase word, and a message", r)
		}
		reasons = append(reasons, r.Reason)
	}
	return reasons
}

func preflightsTrial(t *testing.T, s suite) {
	power := s.p
	unchanged := stands(t, s)
	for _, inPool := range ways(s) {
		if found := foreseen(t, s, power, inPool, !inPool); found != nil {
			t.Errorf("in the pool %t: preflight finds %v", inPool, found)
		}
	}
	if s.Apart {
		if found := foreseen(t, s, power, true, false); len(found) == 0 {
			t.Error("in the pool, where it cannot be had, preflight finds nothing")
		}
	}
	if change := s.change(t, firstVersion, true); len(change.Removes) > 0 {
		if found := foreseen(t, s, power, true, true); !slices.Contains(found, cloud.PromotionRemoves) {
			t.Errorf("in the pool, with what the promotion removes: preflight finds %v", found)
		}
		if len(cloud.Unreadable(change.Removes)) > 0 {
			if found := foreseen(t, s, power, false, false); !slices.Contains(found, cloud.PoolNotCopyable) {
				t.Errorf("apart, with what nobody can read: preflight finds %v", found)
			}
		}
	}
	unchanged(t)
	if s.Crowd == nil || s.Apart {
		return
	}
	s.Crowd(t)
	for _, inPool := range ways(s) {
		if found := foreseen(t, s, power, inPool, !inPool); len(found) == 0 {
			t.Errorf("in the pool %t: preflight finds room where there is none", inPool)
		}
	}
}

func triesWithoutRoom(t *testing.T, s suite) {
	power, _ := toTry(t, s, false)
	if s.Crowd == nil {
		t.Skip("the harness cannot fill the cloud")
	}
	s.Crowd(t)
	unchanged := stands(t, s)
	for _, inPool := range ways(s) {
		spec := trialSpec(t, s, "roomless", inPool)
		have, err := power.EnsureTrial(t.Context(), spec)
		if err != nil {
			wantError(t, err, cloud.QuotaExceeded)
		} else {
			s.until(t, "failed", func() bool {
				have = got(power.Trial(t.Context(), spec))(t)
				return have.State == cloud.Failed
			})
			if !have.NoRoom {
				t.Errorf("it is %+v", have)
			}
		}
		endTrial(t, s, power, spec)
	}
	unchanged(t)
}

func triesRolling(t *testing.T, s suite) {
	power, spec := toTry(t, s, true)
	mend := s.rolling(t)
	_, err := power.EnsureTrial(t.Context(), spec)
	wantError(t, err, cloud.Refused)
	if found := foreseen(t, s, power, true, false); len(found) == 0 {
		t.Error("preflight finds nothing")
	}
	mend()
	if have := got(power.Trial(t.Context(), spec))(t); have.State != cloud.Absent || s.capacity(t) != spec.Capacity {
		t.Errorf("refused, it is %+v", have)
	}
	beginTrial(t, s, power, spec)
}
