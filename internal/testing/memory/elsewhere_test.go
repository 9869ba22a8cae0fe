package memory

import (
	"slices"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestForeignPoolProvider tests the calls of another PoolProvider to this ImageProvider.
func TestForeignPoolProvider(t *testing.T) {
	clock := NewClock(time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC))
	c := New(Config{Now: clock.Now, Latency: Latency{Image: time.Minute}})
	disks, family := c.Disks(), cloud.ImageFamily{Place: "here/", Name: "pool"}
	id := disks.Build("One", "generic")
	if again := disks.Build("one", "other"); again != id || len(c.World().Instances) != 1 {
		t.Errorf("it was made again as %s: %+v", again, c.World().Instances)
	}
	m, err := disks.Instance(t.Context(), id)
	if err != nil || m.Power != cloud.PowerRunning || m.Image != "generic" || m.Pool != "" || c.BootID(id) == "" {
		t.Fatalf("it is %+v, %v", m, err)
	}
	c.MarkGeneralized(id)
	c.GuestPowerOff(id)
	snapshot, err := disks.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: "s", Instance: id})
	if err != nil {
		t.Fatal(err)
	}
	ref := cloud.FamilyVersion{Family: family, Version: "2026.03.14"}
	named := func(image string) (string, cloud.Kind) {
		native, err := disks.NativeImage(t.Context(), family.Place, image)
		return native, cloud.KindOf(err)
	}
	if native, kind := named(disks.ImageID(ref)); native != "" || kind != cloud.NotFound {
		t.Errorf("a version that is not there is called %q, %s", native, kind)
	}
	if _, err := disks.EnsureImage(t.Context(), cloud.VersionSpec{FamilyVersion: ref, SnapshotID: snapshot.ID}); err != nil {
		t.Fatal(err)
	}
	if native, kind := named(disks.ImageID(ref)); native != "" || kind != cloud.Conflict {
		t.Errorf("a version that is not complete is called %q, %s", native, kind)
	}
	clock.Advance(time.Minute)
	for _, image := range []string{disks.ImageID(ref), "generic"} {
		native, _ := named(image)
		if text, err := disks.ImageText(t.Context(), family.Place, native); text != image || err != nil {
			t.Errorf("%s is called %q, which reads %q, %v", image, native, text, err)
		}
	}
	copied := disks.Build("two", disks.ImageID(ref))
	w := c.World()
	if !slices.ContainsFunc(w.Images, func(v ImageView) bool { return v.Version == ref.Version && v.Instance == id && v.Generalized }) {
		t.Errorf("the world's images are %+v", w.Images)
	}
	if broken := w.Broken(); len(broken) != 1 { // no proof
		t.Errorf("what is wrong with the world: %v", broken)
	}
	if !disks.Discard(copied) || disks.Discard(copied) || len(c.World().Instances) != 1 {
		t.Errorf("it is not gone, once: %+v", c.World().Instances)
	}
}
