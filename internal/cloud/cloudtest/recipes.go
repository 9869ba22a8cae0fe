package cloudtest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// RecipesHarness is the half of the recipes with a fresh pool whose machines and images are somebody else's. Of the
// Harness, Provider is left empty.
type RecipesHarness struct {
	Harness
	Recipes cloud.Recipes
	// ImageID is the ID by which a recipe names a version of the pool's line, whether or not the version is there. It
	// ends with the version.
	ImageID func(version string) string
	// Publish makes complete versions, which a recipe may name from then on, and leaves the instances as they are.
	Publish func(t testing.TB, versions ...string)
	// Look looks at an instance, as whoever has it does.
	Look func(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error)
}

// ofDisks are sentences that speak of recipes among others, and that need more of the disks than a look.
var ofDisks = []string{"a hold outlives a stop", "an instance that is off and held is removed", "a snapshot outlives the instance that it was made of"}

// RunRecipes runs what the suite says of Recipes and of their powers, with disks of nobody's that tell of instances and
// versions, and can do nothing.
func RunRecipes(t *testing.T, fresh func(t *testing.T) RecipesHarness) {
	looks := slices.DeleteFunc(slices.Clone(lookCases), func(c testCase) bool {
		return !slices.Contains([]string{"looks change nothing in a fresh pool", "looks change nothing in a pool with history",
			"preflight finds nothing in a pool that can be captured", "a pool shows itself and its recipe"}, c.sentence)
	})
	for _, c := range slices.Concat(looks, memberCases, holdCases, recipeCases, capacityCases, upgradeCases, restoreCases, censusCases, atlasCases, rebuildCases, removeCases, trialCases) {
		if slices.Contains(ofDisks, c.sentence) {
			continue
		}
		t.Run(c.sentence, func(t *testing.T) {
			h := fresh(t)
			if h.Looks == 0 {
				h.Looks = 400
			}
			line, err := h.Recipes.Line(t.Context(), h.Pool)
			must(t, err)
			told := &teller{h: h, line: line}
			h.Provider = cloud.Join(told, h.Recipes)
			c.run(t, suite{Harness: h.Harness, p: h.Provider, a: h.Instances[0], b: h.Instances[1], publishes: func(t *testing.T, versions ...string) {
				t.Helper()
				h.Publish(t, versions...)
				told.versions = append(told.versions, versions...)
			}})
		})
	}
}

// teller is disks that can do nothing but tell what there is.
type teller struct {
	h        RecipesHarness
	line     cloud.Line
	versions []string
}

func (d *teller) SameInstance(a, b cloud.InstanceID) bool {
	return a == b || d.h.FoldsCase && strings.EqualFold(string(a), string(b))
}

func (d *teller) Instance(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error) {
	return d.h.Look(ctx, id)
}

func (d *teller) EnsureStopped(context.Context, cloud.InstanceID) (cloud.Power, error) {
	return cloud.PowerUnknown, notTold("stop an instance")
}

// EnsureStarted finds the instance running: nobody stops one.
func (d *teller) EnsureStarted(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
	have, err := d.h.Look(ctx, id)
	return have.Power, err
}

func (d *teller) Snapshot(_ context.Context, _ cloud.InstanceID, name string) (cloud.Snapshot, error) {
	return cloud.Snapshot{Name: name}, nil
}

func (d *teller) EnsureSnapshot(context.Context, cloud.SnapshotSpec) (cloud.Snapshot, error) {
	return cloud.Snapshot{}, notTold("make a snapshot")
}

func (d *teller) DeleteSnapshot(context.Context, cloud.InstanceID, string) error {
	return notTold("delete a snapshot")
}

func (d *teller) ImageID(ref cloud.LineRef) string { return d.h.ImageID(ref.Version) }

func (d *teller) VersionOf(line cloud.Line, image string) (version string, latest bool) {
	all := strings.TrimSuffix(d.h.ImageID(firstVersion), firstVersion)
	if d.h.FoldsCase {
		image, all = strings.ToLower(image), strings.ToLower(all)
	}
	version, ours := strings.CutPrefix(image, all)
	if !ours || line != d.line {
		return "", false
	}
	return version, false
}

func (d *teller) Latest(context.Context, cloud.Line, string) (string, error) { return "", nil }

func (d *teller) Image(_ context.Context, ref cloud.LineRef) (cloud.Image, error) {
	if !slices.Contains(d.versions, ref.Version) {
		return cloud.Image{Version: ref.Version}, nil
	}
	return cloud.Image{Version: ref.Version, ID: d.h.ImageID(ref.Version), State: cloud.Complete, Percent: 100}, nil
}

func (d *teller) Images(ctx context.Context, line cloud.Line) ([]cloud.Image, error) {
	var list []cloud.Image
	for _, version := range d.versions {
		image, err := d.Image(ctx, cloud.LineRef{Line: line, Version: version})
		if err != nil {
			return nil, err
		}
		list = append(list, image)
	}
	return list, nil
}

func (d *teller) EnsureImage(context.Context, cloud.VersionSpec) (cloud.Image, error) {
	return cloud.Image{}, notTold("make an image version")
}

func (d *teller) TagImage(context.Context, cloud.LineRef, map[string]string) error {
	return notTold("tag an image version")
}

func (d *teller) DeleteImage(context.Context, cloud.LineRef) error {
	return notTold("delete an image version")
}

func (d *teller) PreflightDisk(context.Context, cloud.DiskSpec) ([]cloud.Refusal, error) {
	return nil, nil
}

func notTold(op string) error {
	return &cloud.Error{Kind: cloud.Unsupported, Op: op, Message: "these disks only tell what there is"}
}
