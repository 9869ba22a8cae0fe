package retention

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/internal/cloud"
)

func image(version string, state cloud.State) cloud.Image {
	return cloud.Image{Version: version, State: state, Origin: cloud.Own}
}

func quarantined(version string) cloud.Image {
	return cloud.Image{Version: version, State: cloud.Complete, Origin: cloud.Own, Tags: map[string]string{cloud.TagQuarantined: "bad"}}
}

// rolledBackAt is the tag of a version after an automatic rollback. acknowledgedAt is the tag after the acknowledgement.
const (
	rolledBackAt   = "2026-01-09T03:00:00Z"
	acknowledgedAt = rolledBackAt + " 2026-01-09T08:00:00Z"
)

// TestRolledBackVersionStays until a person acknowledges the rollback, because captures would use the version
// again. A suspect version is no target, and does not count as a kept version.
func TestRolledBackVersionStays(t *testing.T) {
	for name, c := range map[string]struct {
		state cloud.State
		tags  map[string]string
		want  Decision
		prior bool // the version is the target of a rollback
	}{
		"suspect": {tags: map[string]string{cloud.TagSuspect: "why", cloud.TagRolledBackAt: rolledBackAt},
			want: Decision{Keep: true, Reason: Unacknowledged}},
		"quarantined for it": {tags: map[string]string{cloud.TagSuspect: "why", cloud.TagRolledBackAt: rolledBackAt,
			cloud.TagQuarantined: "bad"}, want: Decision{Keep: true, Reason: Unacknowledged}},
		"suspect since an unknown time": {tags: map[string]string{cloud.TagSuspect: "why"}, want: Decision{Keep: true, Reason: Unacknowledged}},
		"not the cause": {tags: map[string]string{cloud.TagRolledBackAt: rolledBackAt},
			want: Decision{Keep: true, Reason: Prior}, prior: true},
		"not the cause, and failed since": {state: cloud.Failed, tags: map[string]string{cloud.TagRolledBackAt: rolledBackAt},
			want: Decision{Keep: true, Reason: Unacknowledged}},
		"acknowledged and bad": {tags: map[string]string{cloud.TagRolledBackAt: acknowledgedAt, cloud.TagQuarantined: "bad"},
			want: Decision{Reason: Surplus}},
		"acknowledged and good": {tags: map[string]string{cloud.TagRolledBackAt: acknowledgedAt},
			want: Decision{Keep: true, Reason: Prior}, prior: true},
		"quarantined by a person or a trial": {tags: map[string]string{cloud.TagQuarantined: "bad"}, want: Decision{Reason: Surplus}},
		"a tag that is no time": {tags: map[string]string{cloud.TagRolledBackAt: "lately", cloud.TagQuarantined: "bad"},
			want: Decision{Reason: Surplus}},
	} {
		state := cloud.Complete
		if c.state != "" {
			state = c.state
		}
		c.want.Version = "2026.01.03"
		images := []cloud.Image{image("2026.01.04", cloud.Complete), {Version: "2026.01.03", State: state, Tags: c.tags, Origin: cloud.Own},
			image("2026.01.02", cloud.Complete)}
		verdicts := Decide(images, "2026.01.04", 2, nil, nil)
		if diff := cmp.Diff(c.want, verdicts[1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if before := verdicts[2]; before.Keep != !c.prior || (before.Reason == Prior) == c.prior {
			t.Errorf("%s: the one before is %+v", name, before)
		}
	}
}

func TestDecide(t *testing.T) {
	complete := func(versions ...string) (images []cloud.Image) {
		for _, v := range versions {
			images = append(images, image(v, cloud.Complete))
		}
		return images
	}
	for _, c := range []struct {
		name    string
		images  []cloud.Image
		current string
		keep    int
		want    []Decision
	}{
		{"nothing", nil, "2026.01.05", 3, []Decision{}},
		{"fewer than kept", complete("2026.01.01", "2026.01.02"), "2026.01.02", 3,
			[]Decision{{"2026.01.02", true, Current}, {"2026.01.01", true, Prior}}},
		{"numeric order decides", complete("2026.10.01", "2026.9.30", "2026.9.29"), "2026.10.01", 2,
			[]Decision{{"2026.10.01", true, Current}, {"2026.9.30", true, Prior}, {"2026.9.29", false, Surplus}}},
		{"keep below two is two", complete("2026.01.03", "2026.01.02", "2026.01.01"), "2026.01.03", 0,
			[]Decision{{"2026.01.03", true, Current}, {"2026.01.02", true, Prior}, {"2026.01.01", false, Surplus}}},
		{"after a rollback the newer one stays", complete("2026.01.03", "2026.01.02", "2026.01.01"), "2026.01.02", 2,
			[]Decision{{"2026.01.03", true, Newer}, {"2026.01.02", true, Current}, {"2026.01.01", true, Prior}}},
		{"a quarantined version is no prior", append(complete("2026.01.04", "2026.01.02", "2026.01.01"), quarantined("2026.01.03")), "2026.01.04", 2,
			[]Decision{{"2026.01.04", true, Current}, {"2026.01.03", false, Surplus}, {"2026.01.02", true, Prior}, {"2026.01.01", false, Surplus}}},
		{"a failed version goes, one in work stays", []cloud.Image{image("2026.01.04", cloud.Complete), image("2026.01.03", cloud.Failed),
			image("2026.01.02", cloud.Pending), image("2026.01.01", cloud.Deleting)}, "2026.01.04", 3,
			[]Decision{{"2026.01.04", true, Current}, {"2026.01.03", false, Surplus}, {"2026.01.02", true, InProgress}, {"2026.01.01", true, InProgress}}},
		{"a recipe of another image retires nothing", complete("2026.01.02", "2026.01.01"), "", 2,
			[]Decision{{"2026.01.02", true, Unknown}, {"2026.01.01", true, Unknown}}},
		{"a current version that is missing retires nothing", complete("2026.01.02", "2026.01.01"), "2026.01.03", 2,
			[]Decision{{"2026.01.02", true, Unknown}, {"2026.01.01", true, Unknown}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Decide(c.images, c.current, c.keep, nil, nil)); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestVersionOfInstancesStays, even if old or bad, and does not count as a kept version.
func TestVersionOfInstancesStays(t *testing.T) {
	images := []cloud.Image{
		image("2026.01.05", cloud.Complete), image("2026.01.04", cloud.Complete), quarantined("2026.01.03"),
		image("2026.01.02", cloud.Complete), image("2026.01.01", cloud.Complete), image("2025.12.31", cloud.Complete),
	}
	instances := []cloud.Instance{{BuiltFrom: "2026.01.05"}, {BuiltFrom: "2026.01.03"}, {}, {BuiltFrom: "2026.01.01"}, {BuiltFrom: "2026.01.01"}}
	inUse := CountInUse(instances)
	if diff := cmp.Diff(map[string]int{"2026.01.05": 1, "2026.01.03": 1, "2026.01.01": 2}, inUse); diff != "" {
		t.Errorf("in use (-want +got):\n%s", diff)
	}
	want := []Decision{
		{"2026.01.05", true, Current}, {"2026.01.04", true, Prior}, {"2026.01.03", true, InUse},
		{"2026.01.02", true, Recent}, {"2026.01.01", true, InUse}, {"2025.12.31", false, Surplus},
	}
	if diff := cmp.Diff(want, Decide(images, "2026.01.05", 3, inUse, nil)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}

func TestRetiredIsOldestFirst(t *testing.T) {
	got := Retired([]Decision{{"3", true, Current}, {"2", false, Surplus}, {"1", false, Surplus}})
	if diff := cmp.Diff([]string{"1", "2"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestARollbackIsAlwaysPossible: the current version and the next older usable version stay. Unfinished and undecided
// versions stay, too.
func TestARollbackIsAlwaysPossible(t *testing.T) {
	states := []cloud.State{cloud.Complete, cloud.Complete, cloud.Failed, cloud.Pending, cloud.Deleting}
	rapid.Check(t, func(t *rapid.T) {
		var images []cloud.Image
		days := rapid.SliceOfNDistinct(rapid.IntRange(1, 28), 0, 12, rapid.ID).Draw(t, "days")
		for _, day := range days {
			i := image(fmt.Sprintf("2026.01.%02d", day), rapid.SampledFrom(states).Draw(t, "state"))
			i.Tags = map[string]string{
				cloud.TagSuspect:      rapid.SampledFrom([]string{"", "", "its nodes do not join"}).Draw(t, "suspect"),
				cloud.TagRolledBackAt: rapid.SampledFrom([]string{"", "", rolledBackAt, acknowledgedAt, "no time"}).Draw(t, "rolled back"),
			}
			if rapid.Bool().Draw(t, "quarantined") {
				i.Tags[cloud.TagQuarantined] = "bad"
			}
			images = append(images, i)
		}
		current := fmt.Sprintf("2026.01.%02d", rapid.IntRange(1, 28).Draw(t, "current"))
		keep := rapid.IntRange(-1, 5).Draw(t, "keep")
		inUse := map[string]int{fmt.Sprintf("2026.01.%02d", rapid.IntRange(1, 28).Draw(t, "used")): 1}
		verdicts := map[string]Decision{}
		for _, v := range Decide(images, current, keep, inUse, nil) {
			verdicts[v.Version] = v
		}
		prior := ""
		_, known := verdicts[current]
		for _, i := range images {
			v := verdicts[i.Version]
			if !v.Keep && (!known || i.Version >= current || i.State == cloud.Pending || i.State == cloud.Deleting) {
				t.Fatalf("%s is retired for %s", i.Version, v.Reason)
			}
			if !v.Keep && inUse[i.Version] > 0 {
				t.Fatalf("%s is retired, and instances were built from it", i.Version)
			}
			if open := i.Tags[cloud.TagSuspect] != "" || i.Tags[cloud.TagRolledBackAt] == rolledBackAt; !v.Keep && open &&
				i.Tags[cloud.TagRolledBackAt] != acknowledgedAt {
				t.Fatalf("%s is retired, and no user has acknowledged that the pool rolled back from the version", i.Version)
			}
			if usable(i) && i.Version < current && i.Version > prior {
				prior = i.Version
			}
		}
		if known && prior != "" && !verdicts[prior].Keep {
			t.Fatalf("the prior version %s is retired", prior)
		}
	})
}

// TestUnprovenVersionIsNoTarget: a version without a proof is no target, so that the older version stays as
// prior. The version stays, too, because a removed proof may return.
func TestUnprovenVersionIsNoTarget(t *testing.T) {
	of := func(version, proof string) cloud.Image {
		return cloud.Image{Version: version, State: cloud.Complete, Origin: cloud.Own, Tags: map[string]string{cloud.TagPrototype: "p", cloud.TagProof: proof}}
	}
	const proof = "static/1/sha256:0"
	images := []cloud.Image{of("2026.01.01", proof), of("2026.01.02", proof), of("2026.01.03", "static"), of("2026.01.04", ""), of("2026.01.05", proof)}
	want := []Decision{
		{"2026.01.05", true, Current}, {"2026.01.04", true, Unproven}, {"2026.01.03", true, Unproven}, {"2026.01.02", true, Prior},
		{"2026.01.01", false, Surplus},
	}
	if diff := cmp.Diff(want, Decide(images, "2026.01.05", 2, nil, nil)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	images[2].Tags[cloud.TagQuarantined], images[3].State = "bad", cloud.Failed
	want[1], want[2] = Decision{"2026.01.04", false, Surplus}, Decision{"2026.01.03", false, Surplus}
	if diff := cmp.Diff(want, Decide(images, "2026.01.05", 2, nil, nil)); diff != "" {
		t.Errorf("quarantined and failed ones (-want +got):\n%s", diff)
	}
	for proof, want := range map[string]bool{"": false, "static": false, "static/1": false, proof: true} {
		if Proven(proof) != want || LostProof("p", proof) == want || LostProof("", proof) {
			t.Errorf("%q: proven %t, lost %t", proof, Proven(proof), LostProof("p", proof))
		}
	}
}
