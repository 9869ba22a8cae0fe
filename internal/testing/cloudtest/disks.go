package cloudtest

import (
	"context"
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// DisksHarness is a harness for ImageProvider with instances, without PoolProvider. Provider and Pool of the Harness are empty.
type DisksHarness struct {
	Harness
	Disks cloud.ImageProvider
	// Family is the image family of the instances' images, without versions. ImageRequirements has the requirements.
	Family       cloud.ImageFamily
	Requirements cloud.ImageRequirements
}

// RunDisks runs the cases about an ImageProvider, with a stub PoolProvider that only has an image family.
func RunDisks(t *testing.T, fresh func(t *testing.T) DisksHarness) {
	ofRecipes := []string{"an instance shows itself", "a version is unused until the recipe names the version",
		"the version that the recipe names is not deleted", "no recipe gets a version that is not launched",
		"launches of the version that the recipe names are not forbidden"}
	run(t, slices.Concat(instanceCases, snapshotCases, imageCases, snapshotListerCases, copyCases), ofRecipes, func(t *testing.T) suite {
		t.Helper()
		h := fresh(t)
		h.Pool, h.Provider = lentPool, cloud.New(h.Disks, cloud.RecipesOf(stubRecipes{h: h}))
		return suite{Harness: h.Harness, p: h.Provider}
	})
}

// lentPool is the ID of the only pool of a stubRecipes.
const lentPool cloud.PoolID = "lent"

// stubRecipes is a stub of PoolProvider with only an image family. Other calls are none of the cases' and panic.
type stubRecipes struct {
	cloud.PoolProvider
	h DisksHarness
}

func (l stubRecipes) PoolsOf(_ context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
	found := make([]cloud.Membership, len(nodes))
	for i := range found {
		found[i].Pool = lentPool
	}
	return found, nil
}

func (l stubRecipes) PoolName(id cloud.PoolID) string { return string(id) }

func (l stubRecipes) Family(context.Context, cloud.PoolID) (cloud.ImageFamily, error) {
	return l.h.Family, nil
}

func (l stubRecipes) Pool(context.Context, cloud.PoolID) (cloud.Pool, error) {
	return cloud.Pool{ID: lentPool, Name: string(lentPool), Family: l.h.Family, Location: l.h.Requirements.Location, Traits: l.h.Requirements.Traits,
		Capacity: l.h.Requirements.Nodes, Recipe: cloud.Recipe{Image: "generic"}}, nil
}

func (l stubRecipes) RecipeChange(_ context.Context, to cloud.Target, _ bool) (cloud.RecipeChange, error) {
	return cloud.RecipeChange{Pool: to.Pool, Version: to.Version, From: "generic", To: to.Image}, nil
}

func (l stubRecipes) Protection(context.Context, cloud.InstanceID) (cloud.Protection, error) {
	return cloud.Protection{}, nil
}

func (l stubRecipes) Unprotect(context.Context, cloud.InstanceID, string) error { return nil }
