package cloudtest

import (
	"maps"
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var workshopCases = []testCase{
	{"a workshop that was never begun is absent, and ending it changes nothing", workshopOfNothing},
	{"a workshop is built from the present recipe, and does not touch the pool", buildsBeside},
	{"asked for again, a workshop builds no second instance", buildsOnce},
	{"a workshop is no trial", workshopIsNoTrial},
	{"the workshops of a pool are listed until they have ended, each as it can be ended by", listsWorkshops},
	{"a workshop without owner or end is refused and leaves nothing", buildsForOwner},
	{"preflight of a workshop reports each obstacle", preflightsWorkshop},
	{"a workshop for which there is no room says so and leaves nothing", buildsWithoutRoom},
	{"a copy outlives its workshop", copyOutlivesWorkshop},
}

var noCopyCases = []testCase{
	{"a provider without captures by copy says so, builds no workshop and makes no copy", noCopyAtAll},
}

// endsAt is the end of every workshop and copy of the suite.
const endsAt = "2026-01-09T05:05:06Z"

// ofOwner returns the tags of an owner with an end.
func ofOwner() map[string]string {
	return map[string]string{cloud.TagPrototype: "it", cloud.TagUID: "uid-of-it", cloud.TagCluster: "cluster-of-it", cloud.TagOrder: "order-of-it",
		cloud.TagEndsAt: endsAt}
}

// needWorkshops skips the case for a provider that says, as its harness does, that it has no workshops.
func needWorkshops(t *testing.T, s suite) {
	t.Helper()
	if have := s.p.CanBuildWorkshops(); have == s.NoCopy {
		t.Fatalf("the provider has workshops: %t, and its harness says otherwise", have)
	}
	if s.NotCopyable {
		spec, unchanged := workshopSpec(s, "workshop-of-it"), stands(t, s)
		fails(s.p.EnsureWorkshop(t.Context(), spec))(t, cloud.Refused)
		wantSame(t, "refused, it was begun (-want +got)", cloud.Trial{}, got(s.p.Workshop(t.Context(), spec))(t))
		unchanged(t)
	}
	if s.NoCopy || s.NotCopyable {
		t.Skip("the provider has no workshops, or the pool cannot be copied")
	}
}

// workshopSpec returns the spec of a workshop.
func workshopSpec(s suite, name string) cloud.WorkshopSpec {
	return cloud.WorkshopSpec{Pool: s.Pool, Name: name, CustomData: []byte("#cloud-config\n"), Tags: ofOwner()}
}

// beginWorkshop begins a workshop and waits until its instance runs.
func beginWorkshop(t *testing.T, s suite, spec cloud.WorkshopSpec) cloud.Instance {
	t.Helper()
	have := got(s.p.EnsureWorkshop(t.Context(), spec))(t)
	s.until(t, "a workshop", func() bool {
		if have.State != cloud.Pending && have.State != cloud.Complete {
			t.Fatalf("a workshop that was begun is %+v", have)
		}
		if have.State == cloud.Complete {
			return true
		}
		have = got(s.p.Workshop(t.Context(), spec))(t)
		return false
	})
	if len(have.Instances) != 1 || have.LacksCapacity || have.Trouble != "" || have.Instances[0].Power != cloud.PowerRunning {
		t.Fatalf("a workshop that is complete is %+v", have)
	}
	return have.Instances[0]
}

// endWorkshop ends a workshop, and checks that nothing remains.
func endWorkshop(t *testing.T, s suite, spec cloud.WorkshopSpec, built ...cloud.Instance) {
	t.Helper()
	s.until(t, "ended", func() bool {
		state := got(s.p.EndWorkshop(t.Context(), spec))(t)
		if state != cloud.Deleting && state != cloud.Absent {
			t.Fatalf("a workshop that is ended is %q", state)
		}
		return state == cloud.Absent
	})
	wantSame(t, "ended, something is left of it (-want +got)", cloud.Trial{}, got(s.p.Workshop(t.Context(), spec))(t))
	for _, m := range built {
		fails(s.p.Instance(t.Context(), m.ID))(t, cloud.NotFound)
	}
}

func workshopOfNothing(t *testing.T, s suite) {
	needWorkshops(t, s)
	spec, unchanged := workshopSpec(s, "workshop-of-it"), stands(t, s)
	wantSame(t, "a workshop that was never begun (-want +got)", cloud.Trial{}, got(s.p.Workshop(t.Context(), spec))(t))
	endWorkshop(t, s, spec)
	s.Advance(t)
	unchanged(t)
}

func buildsBeside(t *testing.T, s suite) {
	needWorkshops(t, s)
	s.publish(t, firstVersion)
	s.start(t, s.a)
	s.promote(t, firstVersion, false)
	spec, unchanged := workshopSpec(s, "workshop-of-it"), stands(t, s)
	m := beginWorkshop(t, s, spec)
	seen := got(s.p.Instance(t.Context(), m.ID))(t)
	if m.BuiltFrom != firstVersion || s.p.BuiltFrom(s.Pool, seen) != firstVersion {
		t.Errorf("the recipe names %s, and the workshop was built from %q: %+v", firstVersion, m.BuiltFrom, seen)
	}
	if member := got(s.p.PoolsOf(t.Context(), []cloud.NodeValues{{ProviderID: m.ID}}))(t)[0]; member.Pool != "" || member.Why == "" {
		t.Errorf("the instance of a workshop belongs to %+v", member)
	}
	for _, other := range got(s.p.Instances(t.Context(), s.Pool))(t) {
		if s.p.SameInstance(other.ID, m.ID) {
			t.Errorf("the list of the pool has %+v", other)
		}
	}
	unchanged(t)
	endWorkshop(t, s, spec, m)
	unchanged(t)
}

func buildsOnce(t *testing.T, s suite) {
	needWorkshops(t, s)
	spec := workshopSpec(s, "workshop-of-it")
	for range 3 {
		got(s.p.EnsureWorkshop(t.Context(), spec))(t)
	}
	first := beginWorkshop(t, s, spec)
	if again := got(s.p.EnsureWorkshop(t.Context(), spec))(t); len(again.Instances) != 1 || again.Instances[0].ID != first.ID {
		t.Errorf("asked for again, it is %+v, and was %+v", again, first)
	}
	endWorkshop(t, s, spec, first)
}

func workshopIsNoTrial(t *testing.T, s suite) {
	needWorkshops(t, s)
	spec := workshopSpec(s, "it")
	m := beginWorkshop(t, s, spec)
	if listed := got(s.p.Trials(t.Context(), s.Pool))(t); len(listed) > 0 {
		t.Errorf("as trials are listed %+v", listed)
	}
	trial := cloud.TrialSpec{ImageRef: s.ref(firstVersion), Name: "it", Tags: spec.Tags}
	wantSame(t, "the trial of its name (-want +got)", cloud.Trial{}, got(s.p.Trial(t.Context(), trial))(t))
	endTrial(t, s, trial)
	if have := got(s.p.Workshop(t.Context(), spec))(t); have.State != cloud.Complete {
		t.Errorf("the end of a trial of its name made it %+v", have)
	}
	endWorkshop(t, s, spec, m)
}

func listsWorkshops(t *testing.T, s suite) {
	needWorkshops(t, s)
	spec := workshopSpec(s, "workshop-of-it")
	listed := func(when string, want ...cloud.WorkshopSpec) []cloud.WorkshopSpec {
		t.Helper()
		list := got(s.p.Workshops(t.Context(), s.Pool))(t)
		if len(list) != len(want) {
			t.Fatalf("%s, these are listed: %+v", when, list)
		}
		for i, have := range list {
			if have.Name != want[i].Name || have.Pool != s.Pool || !maps.Equal(have.Tags, want[i].Tags) {
				t.Errorf("%s, it is listed as %+v, and was begun as %+v", when, have, want[i])
			}
		}
		return list
	}
	listed("before")
	got(s.p.EnsureWorkshop(t.Context(), spec))(t)
	listed("just begun", spec)
	built := beginWorkshop(t, s, spec)
	if found := got(s.p.Workshops(t.Context()))(t); len(found) > 0 {
		t.Errorf("of no pool, these are listed: %+v", found)
	}
	endWorkshop(t, s, listed("at work", spec)[0], built)
	listed("ended")
}

func buildsForOwner(t *testing.T, s suite) {
	needWorkshops(t, s)
	unchanged := stands(t, s)
	for _, tag := range []string{cloud.TagUID, cloud.TagEndsAt} {
		spec := workshopSpec(s, "workshop-of-no-one")
		delete(spec.Tags, tag)
		fails(s.p.EnsureWorkshop(t.Context(), spec))(t, cloud.Invalid)
		wantSame(t, "without "+tag, cloud.Trial{}, got(s.p.Workshop(t.Context(), spec))(t))
	}
	s.Advance(t)
	unchanged(t)
}

func preflightsWorkshop(t *testing.T, s suite) {
	needWorkshops(t, s)
	reasons := func(spec cloud.WorkshopSpec) (found []string) {
		t.Helper()
		for _, r := range got(s.p.PreflightWorkshop(t.Context(), spec))(t) {
			if !camelCase.MatchString(r.Reason) || r.Message == "" {
				t.Errorf("refusal %+v needs a reason in one CamelCase word, and a message", r)
			}
			found = append(found, r.Reason)
		}
		return found
	}
	spec, unchanged := workshopSpec(s, "thought-of"), stands(t, s)
	if found := reasons(spec); found != nil {
		t.Errorf("preflight finds %v", found)
	}
	if change := s.change(t, firstVersion, true); len(cloud.Unreadable(change.Removes)) > 0 {
		blank := spec
		blank.CustomData = nil
		if found := reasons(blank); !slices.Contains(found, cloud.PoolNotCopyable) {
			t.Errorf("with an unreadable part: preflight finds %v", found)
		}
		fails(s.p.EnsureWorkshop(t.Context(), blank))(t, cloud.Refused)
	}
	wantSame(t, "preflight began it", cloud.Trial{}, got(s.p.Workshop(t.Context(), spec))(t))
	unchanged(t)
	if s.Crowd == nil || s.RoomUnknown {
		return
	}
	s.Crowd(t)
	if found := reasons(spec); len(found) == 0 {
		t.Error("preflight finds room where there is none")
	}
}

func buildsWithoutRoom(t *testing.T, s suite) {
	needWorkshops(t, s)
	if s.Crowd == nil {
		t.Skip("the harness cannot fill the cloud")
	}
	spec := workshopSpec(s, "workshop-of-it")
	s.Crowd(t)
	unchanged := stands(t, s)
	have, err := s.p.EnsureWorkshop(t.Context(), spec)
	if err != nil {
		wantError(t, err, cloud.QuotaExceeded)
	} else {
		s.until(t, "failed", func() bool {
			have = got(s.p.Workshop(t.Context(), spec))(t)
			return have.State == cloud.Failed
		})
		if !have.LacksCapacity {
			t.Errorf("it is %+v", have)
		}
	}
	endWorkshop(t, s, spec)
	unchanged(t)
}

// copyOutlivesWorkshop takes a disk in use through a workshop to a version, and ends the workshop before the snapshot.
func copyOutlivesWorkshop(t *testing.T, s suite) {
	needWorkshops(t, s)
	spec := workshopSpec(s, "workshop-of-it")
	m := beginWorkshop(t, s, spec)
	copied := copySpec(t, s, m.ID)
	attached := attachCopy(t, s, copied)
	endWorkshop(t, s, spec, m)
	s.until(t, "free", func() bool {
		have := got(s.p.Copy(t.Context(), copied))(t)
		if have.ID != attached.ID {
			t.Fatalf("with its workshop went %+v, and left %+v", attached, have)
		}
		return have.State == cloud.Complete && !have.IsAttached
	})
	publishCopy(t, s, copied)
	endCopy(t, s, copied)
}

func noCopyAtAll(t *testing.T, s suite) {
	if have := s.p.CanCopy(); have == s.NoCopy || have != (s.p.CanBuildWorkshops() && s.p.CanCopyDisks()) {
		t.Fatalf("the provider has captures by copy: %t", have)
	}
	if have := s.p.CopiesOnRequest(); have != s.CopyOnRequest {
		t.Errorf("the provider has captures by copy on request only: %t, and its harness says otherwise", have)
	}
	if !s.NoCopy {
		return
	}
	unchanged, spec := stands(t, s), workshopSpec(s, "workshop-of-it")
	copied := cloud.CopySpec{Name: "copy-of-it", Instance: s.b, SnapshotID: "none", Tags: ofOwner()}
	fails(s.p.PreflightWorkshop(t.Context(), spec))(t, cloud.Unsupported)
	fails(s.p.EnsureWorkshop(t.Context(), spec))(t, cloud.Unsupported)
	fails(s.p.EnsureAttached(t.Context(), copied))(t, cloud.Unsupported)
	fails(s.p.EnsureCopySnapshot(t.Context(), copied, cloud.SnapshotSpec{Name: theSnapshot, Instance: s.a}))(t, cloud.Unsupported)
	endWorkshop(t, s, spec)
	endCopy(t, s, copied)
	if w, c := got(s.p.Workshops(t.Context(), s.Pool))(t), got(s.p.Copies(t.Context(), s.Pool))(t); len(w)+len(c) > 0 {
		t.Errorf("listed are %+v and %+v", w, c)
	}
	unchanged(t)
}
