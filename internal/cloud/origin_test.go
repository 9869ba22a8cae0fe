package cloud_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

func clusterOf(id string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return id, nil }
}

// TestOriginDecides: only the own tag, or without a tag a known Prototype, allows a deletion.
func TestOriginDecides(t *testing.T) {
	known := func(uid string) bool { return uid == "known" }
	for name, c := range map[string]struct {
		cluster, uid string
		want         cloud.Origin
		mayDelete    bool
	}{
		"own":                                   {"one", "gone", cloud.Own, true},
		"own, without a UID":                    {"one", "", cloud.Own, true},
		"foreign":                               {"two", "gone", cloud.Foreign, false},
		"foreign, with the UID of a Prototype":  {"two", "known", cloud.Foreign, false},
		"unmarked, with the UID of a Prototype": {"", "known", cloud.Unmarked, true},
		"unmarked, of a forgotten capture":      {"", "gone", cloud.Unmarked, false},
		"unmarked, without a UID":               {"", "", cloud.Unmarked, false},
	} {
		tags := map[string]string{cloud.TagCluster: c.cluster, cloud.TagUID: c.uid}
		got := cloud.OriginOf(tags, "one")
		if may := got.MayDelete(tags, known); got != c.want || may != c.mayDelete {
			t.Errorf("%s: origin %q, may delete: %t", name, got, may)
		}
	}
	if got := cloud.OriginOf(map[string]string{cloud.TagCluster: "one"}, ""); got != cloud.Foreign {
		t.Errorf("without an ID of the cluster: %q", got)
	}
}

// TestInClusterMarksAndHides: two clusters share a cloud and a pool's name. Each sees its own snapshots and trials, and those
// without a tag. Versions are listed with their origin.
func TestInClusterMarksAndHides(t *testing.T) {
	clock := memory.NewClock(time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC))
	c := memory.New(memory.Config{Now: clock.Now})
	pool := c.AddPool(memory.PoolSpec{Name: "md-0", Capacity: 2, MaxSize: 9})
	donor := c.AddInstance(pool, "a")
	ctx := t.Context()
	for cluster, day := range map[string]string{"one": "2026.03.12", "two": "2026.03.13", "": "2026.03.14"} {
		p := c.Provider
		if cluster != "" {
			p = cloud.InCluster(c.Provider, clusterOf(cluster))
		}
		tags := map[string]string{cloud.TagPrototype: "md-0-" + day, cloud.TagUID: "uid-" + day}
		given := maps.Clone(tags)
		shot, err := p.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: "md-0-" + day, Instance: donor, Tags: tags})
		must(t, err)
		clock.Advance(time.Hour)
		_, err = p.EnsureImage(ctx, cloud.ImageSpec{ImageRef: cloud.ImageRef{Pool: pool, Version: day}, SnapshotID: shot.ID, Tags: tags})
		must(t, err)
		clock.Advance(time.Hour)
		_, err = p.EnsureTrial(ctx, cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: pool, Version: day}, Name: "trial-" + day,
			RemoveBootstrap: true, Tags: tags})
		must(t, err)
		if !maps.Equal(tags, given) {
			t.Errorf("the tags of the caller were changed: %v", tags)
		}
	}
	one := cloud.InCluster(c.Provider, clusterOf("one"))
	got := map[string]cloud.Origin{}
	snapshots, err := one.Snapshots(ctx, pool)
	must(t, err)
	for _, s := range snapshots {
		got["snapshot "+s.Name] = s.Origin
	}
	trials, err := one.Trials(ctx, pool)
	must(t, err)
	for _, s := range trials {
		got[s.Name] = s.Origin
	}
	images, err := one.Images(ctx, pool)
	must(t, err)
	for _, i := range images {
		got["version "+i.Version] = i.Origin
	}
	want := map[string]cloud.Origin{
		"snapshot md-0-2026.03.12": cloud.Own, "snapshot md-0-2026.03.14": cloud.Unmarked, "trial-2026.03.12": cloud.Own, "trial-2026.03.14": cloud.Unmarked,
		"version 2026.03.12": cloud.Own, "version 2026.03.13": cloud.Foreign, "version 2026.03.14": cloud.Unmarked,
	}
	if !maps.Equal(got, want) {
		t.Errorf("cluster one sees %v", got)
	}
}

// TestWithoutIDNothingIsMade: without the cluster's ID, nothing is made, and no list is returned as if all were its own.
func TestWithoutIDNothingIsMade(t *testing.T) {
	c := memory.New(memory.Config{})
	pool := c.AddPool(memory.PoolSpec{Name: "pool1", Capacity: 1})
	donor := c.AddInstance(pool, "a")
	c.AddVersion(pool, memory.VersionSpec{Version: "2026.03.14"})
	ref, unread := cloud.ImageRef{Pool: pool, Version: "2026.03.14"}, errors.New("the namespace may not be read")
	p := cloud.InCluster(c.Provider, func(context.Context) (string, error) { return "", unread })
	before := c.World()
	for name, call := range map[string]func(context.Context) error{
		"EnsureSnapshot": func(ctx context.Context) error {
			_, err := p.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: "s", Instance: donor})
			return err
		},
		"EnsureImage": func(ctx context.Context) error {
			_, err := p.EnsureImage(ctx, cloud.ImageSpec{ImageRef: cloud.ImageRef{Pool: pool, Version: "2026.03.15"}})
			return err
		},
		"EnsureTrial": func(ctx context.Context) error {
			_, err := p.EnsureTrial(ctx, cloud.TrialSpec{ImageRef: ref, Name: "t", RemoveBootstrap: true})
			return err
		},
		"EnsureWorkshop": func(ctx context.Context) error {
			_, err := p.EnsureWorkshop(ctx, cloud.WorkshopSpec{Pool: pool, Name: "w"})
			return err
		},
		"EnsureAttached": func(ctx context.Context) error {
			_, err := p.EnsureAttached(ctx, cloud.CopySpec{Name: "c", Instance: donor})
			return err
		},
		"EnsureCopySnapshot": func(ctx context.Context) error {
			_, err := p.EnsureCopySnapshot(ctx, cloud.CopySpec{Name: "c", Instance: donor}, cloud.SnapshotSpec{Name: "s", Instance: donor})
			return err
		},
		"Workshops": func(ctx context.Context) error { _, err := p.Workshops(ctx, pool); return err },
		"Copies":    func(ctx context.Context) error { _, err := p.Copies(ctx, pool); return err },
		"Snapshots": func(ctx context.Context) error { _, err := p.Snapshots(ctx, pool); return err },
		"Trials":    func(ctx context.Context) error { _, err := p.Trials(ctx, pool); return err },
		"Images":    func(ctx context.Context) error { _, err := p.Images(ctx, pool); return err },
	} {
		if err := call(t.Context()); !errors.Is(err, unread) {
			t.Errorf("%s: %v", name, err)
		}
	}
	after := c.World()
	if len(after.Snapshots) != len(before.Snapshots) || len(after.Trials) != len(before.Trials) || len(after.Workshops)+len(after.Copies) > 0 || len(after.Images) != len(before.Images) {
		t.Errorf("something was made: %+v", after)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
