package cloudtest

import (
	"maps"
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var trialCases = []testCase{
	{"a trial that was never begun is absent, and ending it changes nothing", trialOfNothing},
	{"a trial apart builds an instance from the version and does not touch the pool", triesApart},
	{"the instance of a trial apart belongs to no pool", triesOutside},
	{"asked for again, a trial builds no second instance", triesOnce},
	{"ending a trial again removes nothing, even if its version is used by then", endsOnce},
	{"the trials of a pool are listed until they have ended, each as it can be ended by", listsTrials},
	{"a trial of a missing version is not found and changes nothing", triesMissing},
	{"preflight of a trial reports each obstacle", preflightsTrial},
	{"a trial for which there is no room says so and leaves nothing", triesWithoutRoom},
}

// toTry publishes a version, and returns the spec of a trial.
func toTry(t *testing.T, s suite) cloud.TrialSpec {
	t.Helper()
	s.publish(t, firstVersion)
	s.start(t, s.a)
	return trialSpec(s, "trial-of-it")
}

// trialSpec returns the spec of a trial.
func trialSpec(s suite, name string) cloud.TrialSpec {
	return cloud.TrialSpec{
		ImageRef: s.ref(firstVersion), Name: name, RemoveBootstrap: true,
		Tags: map[string]string{cloud.TagPrototype: "it", cloud.TagUID: "uid-of-it", cloud.TagCluster: "cluster-of-it"},
	}
}

// beginTrial begins a trial and waits until its instance runs.
func beginTrial(t *testing.T, s suite, spec cloud.TrialSpec) cloud.Trial {
	t.Helper()
	have := got(s.p.EnsureTrial(t.Context(), spec))(t)
	s.until(t, "an instance to try", func() bool {
		if have.State != cloud.Pending && have.State != cloud.Complete {
			t.Fatalf("a trial that was begun is %+v", have)
		}
		if have.State == cloud.Complete {
			return true
		}
		have = got(s.p.Trial(t.Context(), spec))(t)
		return false
	})
	if len(have.Instances) == 0 || have.LacksCapacity || have.Trouble != "" {
		t.Fatalf("a trial that is complete is %+v", have)
	}
	for _, m := range have.Instances {
		seen := got(s.p.Instance(t.Context(), m.ID))(t)
		if m.BuiltFrom != spec.Version || m.Power != cloud.PowerRunning || seen.Power != cloud.PowerRunning || s.p.BuiltFrom(s.Pool, seen) != spec.Version {
			t.Errorf("an instance to try is reported as %+v and is %+v", m, seen)
		}
	}
	return have
}

// endTrial ends a trial, and checks that nothing remains.
func endTrial(t *testing.T, s suite, spec cloud.TrialSpec, built ...cloud.Instance) {
	t.Helper()
	s.until(t, "ended", func() bool {
		state := got(s.p.EndTrial(t.Context(), spec))(t)
		if state != cloud.Deleting && state != cloud.Absent {
			t.Fatalf("a trial that is ended is %q", state)
		}
		return state == cloud.Absent
	})
	wantSame(t, "ended, something is left of it (-want +got)", cloud.Trial{}, got(s.p.Trial(t.Context(), spec))(t))
	for _, m := range built {
		fails(s.p.Instance(t.Context(), m.ID))(t, cloud.NotFound)
	}
}

// stands returns a check that the pool is unchanged.
func stands(t *testing.T, s suite) (compare func(t *testing.T)) {
	t.Helper()
	before := s.readAll(t)
	var list []cloud.InstanceID
	if s.List != nil {
		list = s.List(t)
	}
	return func(t *testing.T) {
		t.Helper()
		wantSame(t, "the pool was changed (-before +after)", before, s.readAll(t))
		if s.List != nil {
			wantSame(t, "the pool has other instances (-before +after)", list, s.List(t))
		}
	}
}

func trialOfNothing(t *testing.T, s suite) {
	spec := toTry(t, s)
	unchanged := stands(t, s)
	wantSame(t, "a trial that was never begun (-want +got)", cloud.Trial{}, got(s.p.Trial(t.Context(), spec))(t))
	endTrial(t, s, spec)
	s.Advance(t)
	unchanged(t)
}

func triesApart(t *testing.T, s suite) {
	spec := toTry(t, s)
	unchanged := stands(t, s)
	have := beginTrial(t, s, spec)
	if len(have.Instances) != 1 || slices.Contains(s.Instances, have.Instances[0].ID) {
		t.Errorf("apart, it is %+v", have)
	}
	unchanged(t)
	endTrial(t, s, spec, have.Instances...)
	unchanged(t)
}

func triesOutside(t *testing.T, s suite) {
	spec := toTry(t, s)
	id := beginTrial(t, s, spec).Instances[0].ID
	node := cloud.NodeValues{ProviderID: id}
	if member := got(s.p.PoolsOf(t.Context(), []cloud.NodeValues{node}))(t)[0]; member.Pool != "" || member.Why == "" {
		t.Errorf("the instance of a trial belongs to %+v", member)
	}
	for _, m := range got(s.p.Instances(t.Context(), s.Pool))(t) {
		if s.p.SameInstance(m.ID, id) {
			t.Errorf("the list of the pool has %+v", m)
		}
	}
}

func triesOnce(t *testing.T, s suite) {
	spec := toTry(t, s)
	for range 3 {
		got(s.p.EnsureTrial(t.Context(), spec))(t)
	}
	first := beginTrial(t, s, spec)
	if again := got(s.p.EnsureTrial(t.Context(), spec))(t); len(again.Instances) != 1 || again.Instances[0].ID != first.Instances[0].ID {
		t.Errorf("asked for again, it is %+v, and was %+v", again, first)
	}
	endTrial(t, s, spec, first.Instances...)
}

func endsOnce(t *testing.T, s suite) {
	spec := toTry(t, s)
	endTrial(t, s, spec, beginTrial(t, s, spec).Instances...)
	s.promote(t, firstVersion, true)
	size := s.capacity(t)
	s.grow(t)
	if s.List != nil {
		s.until(t, "grown", func() bool { return int64(len(s.List(t))) == size+1 })
	}
	unchanged := stands(t, s)
	endTrial(t, s, spec)
	s.Advance(t)
	unchanged(t)
	later := spec
	later.Tags = maps.Clone(spec.Tags)
	later.Tags[cloud.TagUID] = "uid-of-a-later-one"
	endTrial(t, s, later, beginTrial(t, s, later).Instances...)
}

func triesMissing(t *testing.T, s suite) {
	spec := toTry(t, s)
	unchanged := stands(t, s)
	spec.Version = secondVersion
	fails(s.p.EnsureTrial(t.Context(), spec))(t, cloud.NotFound)
	if have := got(s.p.Trial(t.Context(), spec))(t); have.State != cloud.Absent {
		t.Errorf("it is %+v", have)
	}
	s.Advance(t)
	unchanged(t)
}

// preflightReasons returns the reasons of a trial's preflight.
func preflightReasons(t *testing.T, s suite, removeBootstrap bool) []string {
	t.Helper()
	spec := trialSpec(s, "thought-of")
	spec.RemoveBootstrap = removeBootstrap
	var reasons []string
	for _, r := range got(s.p.PreflightTrial(t.Context(), spec))(t) {
		if !camelCase.MatchString(r.Reason) || r.Message == "" {
			t.Errorf("refusal %+v needs a reason in one CamelCase word, and a message", r)
		}
		reasons = append(reasons, r.Reason)
	}
	return reasons
}

func preflightsTrial(t *testing.T, s suite) {
	unchanged := stands(t, s)
	if found := preflightReasons(t, s, true); found != nil {
		t.Errorf("preflight finds %v", found)
	}
	if change := s.change(t, firstVersion, true); len(cloud.Unreadable(change.Removes)) > 0 {
		if found := preflightReasons(t, s, false); !slices.Contains(found, cloud.PoolNotCopyable) {
			t.Errorf("with an unreadable part: preflight finds %v", found)
		}
	}
	unchanged(t)
	if s.Crowd == nil || s.RoomUnknown {
		return
	}
	s.Crowd(t)
	if found := preflightReasons(t, s, true); len(found) == 0 {
		t.Error("preflight finds room where there is none")
	}
}

func triesWithoutRoom(t *testing.T, s suite) {
	spec := toTry(t, s)
	if s.Crowd == nil {
		t.Skip("the harness cannot fill the cloud")
	}
	s.Crowd(t)
	unchanged := stands(t, s)
	have, err := s.p.EnsureTrial(t.Context(), spec)
	if err != nil {
		wantError(t, err, cloud.QuotaExceeded)
	} else {
		s.until(t, "failed", func() bool {
			have = got(s.p.Trial(t.Context(), spec))(t)
			return have.State == cloud.Failed
		})
		if !have.LacksCapacity {
			t.Errorf("it is %+v", have)
		}
	}
	endTrial(t, s, spec)
	unchanged(t)
}

func listsTrials(t *testing.T, s suite) {
	spec := toTry(t, s)
	listed := func(when string, want ...cloud.TrialSpec) []cloud.TrialSpec {
		t.Helper()
		list := got(s.p.Trials(t.Context(), s.Pool))(t)
		if len(list) != len(want) {
			t.Fatalf("%s, these are listed: %+v", when, list)
		}
		for i, have := range list {
			if have.Name != want[i].Name || have.Version != want[i].Version || have.Pool != s.Pool || !maps.Equal(have.Tags, want[i].Tags) {
				t.Errorf("%s, it is listed as %+v, and was begun as %+v", when, have, want[i])
			}
		}
		return list
	}
	listed("before")
	unchanged := stands(t, s)
	must(t, func() error { _, err := s.p.EnsureTrial(t.Context(), spec); return err }())
	listed("just begun", spec)
	built := beginTrial(t, s, spec)
	if found := got(s.p.Trials(t.Context()))(t); len(found) > 0 {
		t.Errorf("of no pool, these are listed: %+v", found)
	}
	endTrial(t, s, listed("at work", spec)[0], built.Instances...)
	listed("ended")
	unchanged(t)
}
