package cloudtest

import (
	"fmt"
	"maps"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var imageCases = []testCase{
	{"EnsureImage is repeated until complete, its percentage never falls", imageCompletes},
	{"a version is never made twice and never changed by asking", imageOnce},
	{"a new version is seen as requested", imageSeen},
	{"no version is made of another disk than the proven one", imageOfOtherDisk},
	{"a version outlives its snapshot", imageOutlivesSnapshot},
	{"a version is unused until the recipe names the version", imageNotUsed},
	{"versions are listed in numeric order", imagesInOrder},
	{"tags are set, changed and removed, the others stay", tagImage},
	{"tagging an absent version is not found", tagNoImage},
	{"launches of a version are forbidden until they are allowed again", launchesForbidden},
	{"no recipe gets a version that is not launched", launchesOfRecipe},
	{"launches of the version that the recipe names are not forbidden", launchesInUse},
	{"a version is deleted until absent, and the others stay", imageDeleted},
	{"deleting no version is nil", deleteNoImage},
	{"the version that the recipe names is not deleted", imageInUse},
}

func imageOfOtherDisk(t *testing.T, s suite) {
	from := s.snapshot(t)
	own, other := got(s.p.Instance(t.Context(), s.a))(t).Disk, got(s.p.Instance(t.Context(), s.b))(t).Disk
	if own == "" || other == "" || own == other {
		t.Fatalf("the disks are %q and %q", own, other)
	}
	spec := cloud.ImageSpec{ImageRef: s.ref(firstVersion), SnapshotID: from.ID, Proven: other, Tags: tags()}
	refused := false
	s.until(t, "refused", func() bool { // once the prerequisites are made
		have, err := s.p.EnsureImage(t.Context(), spec)
		if refused = cloud.Is(err, cloud.Invalid); !refused && (err != nil || have.State != cloud.Pending && have.State != cloud.Absent) {
			t.Fatalf("a version of another disk: %+v, %v", have, err)
		}
		return refused
	})
	if have := got(s.p.Image(t.Context(), s.ref(firstVersion)))(t); have.State != cloud.Absent {
		t.Errorf("there is %+v", have)
	}
	s.ensureImageOf(t, firstVersion, from, own)
}

// ensureImage makes a version from a snapshot, waits for it, and checks every answer. The version is absent while
// prerequisites are made, or before a retry with another kind of storage.
func (s suite) ensureImage(t *testing.T, version string, from cloud.Snapshot) cloud.Image {
	t.Helper()
	return s.ensureImageOf(t, version, from, "")
}

// ensureImageOf is ensureImage for the snapshot of a disk, and no other.
func (s suite) ensureImageOf(t *testing.T, version string, from cloud.Snapshot, disk string) cloud.Image {
	t.Helper()
	spec := cloud.ImageSpec{ImageRef: s.ref(version), SnapshotID: from.ID, Proven: disk, Tags: tags()}
	var have cloud.Image
	percent := int32(0)
	s.until(t, "complete", func() bool {
		have = got(s.p.EnsureImage(t.Context(), spec))(t)
		switch have.State {
		case cloud.Pending, cloud.Complete:
		case cloud.Absent:
			percent = 0
		case cloud.Failed, cloud.Deleting:
			t.Fatalf("version %s is %q: %s", version, have.State, have.Error)
		}
		if have.Percent < percent || have.Percent > 100 {
			t.Errorf("the percentage went from %d to %d", percent, have.Percent)
		}
		percent = have.Percent
		return have.State == cloud.Complete
	})
	return have
}

// publish captures the donor to complete versions, and leaves the donor stopped.
func (s suite) publish(t *testing.T, versions ...string) {
	t.Helper()
	if s.publishes != nil {
		s.publishes(t, versions...)
		return
	}
	from := s.snapshot(t)
	for _, version := range versions {
		s.ensureImage(t, version, from)
	}
	s.deleteSnapshot(t, theSnapshot)
}

func imageCompletes(t *testing.T, s suite) {
	have := s.ensureImage(t, firstVersion, s.snapshot(t))
	if have.ID == "" || have.Percent != 100 || have.Error != "" || have.ImageRef != s.ref(firstVersion) || have.Version != firstVersion {
		t.Errorf("a complete version looks like %+v", have)
	}
	wantSame(t, "the tags", tags(), have.Tags)
	wantSame(t, "Image is not what EnsureImage returned", have, got(s.p.Image(t.Context(), s.ref(firstVersion)))(t))
	list := got(s.p.Images(t.Context(), s.Pool))(t)
	if len(list) != 1 || list[0].ImageRef != s.ref(firstVersion) || list[0].Version != firstVersion ||
		list[0].State != cloud.Complete || !maps.Equal(list[0].Tags, tags()) {
		t.Errorf("Images lists %+v", list)
	}
}

// imageSeen is snapshotSeen for versions.
func imageSeen(t *testing.T, s suite) {
	from := s.snapshot(t)
	spec := cloud.ImageSpec{ImageRef: s.ref(firstVersion), SnapshotID: from.ID, Tags: tags()}
	s.until(t, "being made", func() bool {
		got(s.p.EnsureImage(t.Context(), spec))(t)
		have := got(s.p.Image(t.Context(), s.ref(firstVersion)))(t)
		if have.State == cloud.Absent {
			return false // prerequisites are made
		}
		wantSame(t, fmt.Sprintf("it is %q; its tags", have.State), tags(), have.Tags)
		return true
	})
}

func imageOnce(t *testing.T, s suite) {
	from := s.snapshot(t)
	spec := cloud.ImageSpec{ImageRef: s.ref(firstVersion), SnapshotID: from.ID, Tags: tags()}
	done := s.ensureImage(t, firstVersion, from)
	spec.Tags = map[string]string{cloud.TagBuiltFrom: "another"}
	s.deleteSnapshot(t, theSnapshot)
	// The snapshot is deleted, and only the version's own state matters.
	again := got(s.p.EnsureImage(t.Context(), spec))(t)
	wantSame(t, "asking again changed a complete version", done, again)
	wantSame(t, "the tags", tags(), again.Tags)
	if list := got(s.p.Images(t.Context(), s.Pool))(t); len(list) != 1 {
		t.Errorf("there are %d versions", len(list))
	}
}

func imageOutlivesSnapshot(t *testing.T, s suite) {
	s.publish(t, firstVersion)
	s.start(t, s.a)
	s.Advance(t)
	if have := got(s.p.Image(t.Context(), s.ref(firstVersion)))(t); have.State != cloud.Complete {
		t.Errorf("the version is %q after its snapshot went", have.State)
	}
}

func imageNotUsed(t *testing.T, s suite) {
	before := got(s.p.Pool(t.Context(), s.Pool))(t)
	s.publish(t, firstVersion)
	s.Advance(t)
	wantSame(t, "publishing changed the pool", before, got(s.p.Pool(t.Context(), s.Pool))(t))
}

func imagesInOrder(t *testing.T, s suite) {
	// As text, 2026.10.01 would be before 2026.9.30.
	s.publish(t, "2026.10.01", "2026.01.10", "2025.12.31", "2026.9.30", "2026.01.09")
	var have []string
	for _, v := range got(s.p.Images(t.Context(), s.Pool))(t) {
		have = append(have, v.Version)
		if one := got(s.p.Image(t.Context(), v.ImageRef))(t); one.State != cloud.Complete {
			t.Errorf("%s from the list is %q read alone", v.Version, one.State)
		}
	}
	wantSame(t, "the versions", []string{"2025.12.31", "2026.01.09", "2026.01.10", "2026.9.30", "2026.10.01"}, have)
}

func tagImage(t *testing.T, s suite) {
	s.publish(t, firstVersion)
	want := tags()
	for _, change := range []map[string]string{
		{cloud.TagQuarantined: "clones collide"},
		{cloud.TagQuarantined: "another reason", "more": "1"},
		{cloud.TagQuarantined: ""},
		{cloud.TagQuarantined: "", "more": "2"},
	} {
		sent := maps.Clone(change)
		must(t, s.p.TagImage(t.Context(), s.ref(firstVersion), sent))
		if !maps.Equal(sent, change) {
			t.Errorf("TagImage changed the caller's map from %v to %v", change, sent)
		}
		for key, value := range change {
			if value == "" {
				delete(want, key)
			} else {
				want[key] = value
			}
		}
		have := got(s.p.Image(t.Context(), s.ref(firstVersion)))(t)
		wantSame(t, fmt.Sprintf("after %v", change), want, have.Tags)
		if have.State != cloud.Complete {
			t.Errorf("a tagged version is %q", have.State)
		}
	}
}

// launches waits until the cloud answers so to launches of the first version, read alone and in the list.
func (s suite) launches(t *testing.T, want cloud.Launches) {
	t.Helper()
	s.until(t, "seen as "+string(want), func() bool {
		have, list := got(s.p.Image(t.Context(), s.ref(firstVersion)))(t), got(s.p.Images(t.Context(), s.Pool))(t)
		if have.State != cloud.Complete || len(list) != 2 || !maps.Equal(have.Tags, tags()) {
			t.Fatalf("the version is %+v, and the list %+v", have, list)
		}
		return have.Launches == want && list[0].Launches == want
	})
}

func launchesForbidden(t *testing.T, s suite) {
	s.publish(t, firstVersion, secondVersion)
	if got(s.p.Image(t.Context(), s.ref(firstVersion)))(t).Launches == "" { // the cloud launches every version
		must(t, s.p.AllowLaunches(t.Context(), s.ref(firstVersion), false))
		s.launches(t, "")
		return
	}
	wantError(t, s.p.AllowLaunches(t.Context(), s.ref("2026.12.31"), false), cloud.NotFound)
	s.launches(t, cloud.LaunchesAllowed)
	for range 2 {
		must(t, s.p.AllowLaunches(t.Context(), s.ref(firstVersion), false))
		s.launches(t, cloud.LaunchesForbidden)
	}
	for range 2 {
		must(t, s.p.AllowLaunches(t.Context(), s.ref(firstVersion), true))
		s.launches(t, cloud.LaunchesAllowed)
	}
}

func launchesOfRecipe(t *testing.T, s suite) {
	s.publish(t, firstVersion, secondVersion)
	s.promote(t, secondVersion, false)
	if got(s.p.Image(t.Context(), s.ref(firstVersion)))(t).Launches == "" {
		return
	}
	must(t, s.p.AllowLaunches(t.Context(), s.ref(firstVersion), false))
	s.launches(t, cloud.LaunchesForbidden)
	before := s.recipe(t)
	change, err := s.p.RecipeChange(t.Context(), s.ref(firstVersion), false)
	if err == nil {
		err = s.p.SetRecipe(t.Context(), change)
	}
	if err == nil {
		t.Error("the recipe may name a version that the cloud does not launch")
	}
	wantSame(t, "the recipe", before, s.recipe(t))
	must(t, s.p.AllowLaunches(t.Context(), s.ref(firstVersion), true))
	s.launches(t, cloud.LaunchesAllowed)
	s.promote(t, firstVersion, false)
}

func launchesInUse(t *testing.T, s suite) {
	s.publish(t, firstVersion, secondVersion)
	s.promote(t, firstVersion, false)
	was := got(s.p.Image(t.Context(), s.ref(firstVersion)))(t).Launches
	wantError(t, s.p.AllowLaunches(t.Context(), s.ref(firstVersion), false), cloud.Conflict)
	s.launches(t, was)
	must(t, s.p.AllowLaunches(t.Context(), s.ref(firstVersion), true))
}

func tagNoImage(t *testing.T, s suite) {
	change := map[string]string{cloud.TagQuarantined: "why"}
	wantError(t, s.p.TagImage(t.Context(), s.ref(firstVersion), change), cloud.NotFound)
	s.publish(t, firstVersion)
	wantError(t, s.p.TagImage(t.Context(), s.ref(secondVersion), change), cloud.NotFound)
	if list := got(s.p.Images(t.Context(), s.Pool))(t); len(list) != 1 || !maps.Equal(list[0].Tags, tags()) {
		t.Errorf("tagging nothing made %+v", list)
	}
}

func imageDeleted(t *testing.T, s suite) {
	s.publish(t, firstVersion, secondVersion)
	must(t, s.p.DeleteImage(t.Context(), s.ref(firstVersion)))
	s.until(t, "absent", func() bool {
		have := got(s.p.Image(t.Context(), s.ref(firstVersion)))(t)
		if have.State != cloud.Deleting && have.State != cloud.Absent {
			t.Fatalf("the version is %q after its deletion began", have.State)
		}
		return have.State == cloud.Absent
	})
	must(t, s.p.DeleteImage(t.Context(), s.ref(firstVersion)))
	list := got(s.p.Images(t.Context(), s.Pool))(t)
	if len(list) != 1 || list[0].Version != secondVersion || list[0].State != cloud.Complete {
		t.Errorf("left is %+v", list)
	}
}

func deleteNoImage(t *testing.T, s suite) {
	must(t, s.p.DeleteImage(t.Context(), s.ref(firstVersion)))
	s.publish(t, firstVersion)
	must(t, s.p.DeleteImage(t.Context(), s.ref(secondVersion)))
	if list := got(s.p.Images(t.Context(), s.Pool))(t); len(list) != 1 {
		t.Errorf("after deleting nothing there is %+v", list)
	}
}

func imageInUse(t *testing.T, s suite) {
	s.publish(t, firstVersion, secondVersion)
	s.promote(t, firstVersion, false)
	wantError(t, s.p.DeleteImage(t.Context(), s.ref(firstVersion)), cloud.Conflict)
	s.Advance(t)
	if have := got(s.p.Image(t.Context(), s.ref(firstVersion)))(t); have.State != cloud.Complete {
		t.Errorf("the version is %q after its deletion was refused", have.State)
	}
	s.promote(t, secondVersion, false)
	must(t, s.p.DeleteImage(t.Context(), s.ref(firstVersion)))
	wantError(t, s.p.DeleteImage(t.Context(), s.ref(secondVersion)), cloud.Conflict)
}
