package cloudtest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// RecipesHarness is a harness for PoolProvider with a fresh pool, without ImageProvider. Provider of the Harness is empty.
type RecipesHarness struct {
	Harness
	Recipes cloud.PoolProvider
	// ImageID returns the ID of a version in recipes, whether the version exists or not. The ID ends with the version.
	ImageID func(version string) string
	// Publish makes complete versions, and does not change instances.
	Publish func(t testing.TB, versions ...string)
	// Look returns an instance from the cloud.
	Look func(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error)
}

// ofDisks are cases that need more of ImageProvider than a look.
var ofDisks = []string{"a protection outlives a stop", "a stopped and protected instance is removed", "a snapshot outlives the instance",
	"a copy outlives its workshop"}

// casesOfPools are the cases about a PoolProvider.
func casesOfPools() []testCase {
	looks := slices.DeleteFunc(slices.Clone(lookCases), func(c testCase) bool {
		return !slices.Contains([]string{"looks change nothing in a fresh pool", "looks change nothing in a pool with history",
			"preflight finds nothing in a pool that can be captured", "a pool shows itself and its recipe"}, c.sentence)
	})
	return slices.Concat(looks, memberCases, holdCases, recipeCases, capacityCases, upgradeCases, restoreCases, instanceListerCases, poolFinderCases,
		rebuildCases, trialCases, workshopCases)
}

// RunPools runs the cases about a PoolProvider with a whole provider, like Run.
func RunPools(t *testing.T, fresh func(t *testing.T) Harness) {
	run(t, casesOfPools(), nil, whole(fresh))
}

// RunRecipes runs the cases about a PoolProvider, with a stub ImageProvider that only reports instances and versions.
func RunRecipes(t *testing.T, fresh func(t *testing.T) RecipesHarness) {
	run(t, casesOfPools(), ofDisks, func(t *testing.T) suite {
		t.Helper()
		h := fresh(t)
		family, err := h.Recipes.Family(t.Context(), h.Pool)
		must(t, err)
		disks := &stubDisks{h: h, line: family}
		h.Provider = cloud.New(cloud.DisksOf(disks), h.Recipes)
		return suite{Harness: h.Harness, p: h.Provider, publishes: func(t *testing.T, versions ...string) {
			t.Helper()
			h.Publish(t, versions...)
			disks.versions = append(disks.versions, versions...)
		}}
	})
}

// stubDisks is a stub of ImageProvider that only reports existing objects. Other calls are none of the cases' and panic.
type stubDisks struct {
	cloud.ImageProvider
	h        RecipesHarness
	line     cloud.ImageFamily
	versions []string
}

func (d *stubDisks) SameInstance(a, b cloud.InstanceID) bool {
	return a == b || d.h.FoldsCase && strings.EqualFold(string(a), string(b))
}

func (d *stubDisks) Instance(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error) {
	return d.h.Look(ctx, id)
}

// EnsureStarted reports the instance, which is always running.
func (d *stubDisks) EnsureStarted(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	have, err := d.h.Look(ctx, id)
	return have.Power, err
}

// Restart looks for the instance.
func (d *stubDisks) Restart(ctx context.Context, id cloud.InstanceID) error {
	_, err := d.h.Look(ctx, id)
	return err
}

func (d *stubDisks) Snapshot(_ context.Context, _ cloud.InstanceID, name string) (cloud.Snapshot, error) {
	return cloud.Snapshot{Name: name}, nil
}

func (d *stubDisks) ImageID(ref cloud.FamilyVersion) string { return d.h.ImageID(ref.Version) }

func (d *stubDisks) VersionOf(family cloud.ImageFamily, image string) (version string, latest bool) {
	all := strings.TrimSuffix(d.h.ImageID(firstVersion), firstVersion)
	if d.h.FoldsCase {
		image, all = strings.ToLower(image), strings.ToLower(all)
	}
	version, ours := strings.CutPrefix(image, all)
	if !ours || family != d.line {
		return "", false
	}
	return version, false
}

func (d *stubDisks) Latest(context.Context, cloud.ImageFamily, string) (string, error) {
	return "", nil
}

func (d *stubDisks) Image(_ context.Context, ref cloud.FamilyVersion) (cloud.Image, error) {
	if !slices.Contains(d.versions, ref.Version) {
		return cloud.Image{Version: ref.Version}, nil
	}
	return cloud.Image{Version: ref.Version, ID: d.h.ImageID(ref.Version), State: cloud.Complete, Percent: 100}, nil
}

func (d *stubDisks) Images(ctx context.Context, family cloud.ImageFamily) ([]cloud.Image, error) {
	var list []cloud.Image
	for _, version := range d.versions {
		image, err := d.Image(ctx, cloud.FamilyVersion{Family: family, Version: version})
		if err != nil {
			return nil, err
		}
		list = append(list, image)
	}
	return list, nil
}

func (d *stubDisks) PreflightDisk(context.Context, cloud.DiskSpec) ([]cloud.Refusal, error) {
	return nil, nil
}
