package cloudtest

import (
	"context"
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// DisksHarness is the half of the disks with instances that no recipes of its cloud need know. Of the Harness, Provider
// and Pool are left empty.
type DisksHarness struct {
	Harness
	Disks cloud.Disks
	// Line that the instances' images go to, without any version yet, and what they must be like.
	Line cloud.Line
	Mold cloud.Mold
}

// RunDisks runs what the suite says of Disks, with recipes of nobody's that lend them a line.
func RunDisks(t *testing.T, fresh func(t *testing.T) DisksHarness) {
	ofRecipes := []string{"an instance shows itself", "a version is not what the recipe uses until the recipe names it", "the version that the recipe names is not deleted"}
	for _, c := range slices.Concat(instanceCases, snapshotCases, imageCases, shelfCases) {
		if slices.Contains(ofRecipes, c.sentence) {
			continue
		}
		t.Run(c.sentence, func(t *testing.T) {
			h := fresh(t)
			if h.Looks == 0 {
				h.Looks = 400
			}
			h.Pool, h.Provider = lentPool, cloud.Join(h.Disks, lender{h})
			c.run(t, suite{Harness: h.Harness, p: h.Provider, a: h.Instances[0], b: h.Instances[1]})
		})
	}
}

// lentPool is the ID of the one pool of a lender.
const lentPool cloud.PoolID = "lent"

// lender is recipes that can do nothing but lend a line.
type lender struct{ h DisksHarness }

func (l lender) PoolsOf(_ context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
	found := make([]cloud.Membership, len(nodes))
	for i := range found {
		found[i].Pool = lentPool
	}
	return found, nil
}

func (l lender) PoolName(id cloud.PoolID) string { return string(id) }

func (l lender) Line(context.Context, cloud.PoolID) (cloud.Line, error) { return l.h.Line, nil }

func (l lender) Pool(context.Context, cloud.PoolID) (cloud.Pool, error) {
	return cloud.Pool{ID: lentPool, Name: string(lentPool), Line: l.h.Line, Location: l.h.Mold.Location, Traits: l.h.Mold.Traits,
		Capacity: l.h.Mold.Nodes, Recipe: cloud.Recipe{Image: "generic"}}, nil
}

func (l lender) PreflightRecipe(context.Context, cloud.PreflightSpec) ([]cloud.Refusal, error) {
	return nil, nil
}

func (l lender) RecipeChange(_ context.Context, to cloud.Target, _ bool) (cloud.RecipeChange, error) {
	return cloud.RecipeChange{Pool: to.Pool, Version: to.Version, From: "generic", To: to.Image}, nil
}

func (l lender) SetRecipe(context.Context, cloud.RecipeChange) error {
	return notLent("set the recipe of")
}

func (l lender) SetCapacity(context.Context, cloud.PoolID, int64, int64) error {
	return notLent("grow")
}

func (l lender) HoldOf(context.Context, cloud.InstanceID) (cloud.Hold, error) {
	return cloud.Hold{}, nil
}

func (l lender) Hold(context.Context, cloud.InstanceID, string) error { return nil }

func (l lender) Unhold(context.Context, cloud.InstanceID, string) error { return nil }

func notLent(op string) error {
	return &cloud.Error{Kind: cloud.Unsupported, Op: op, Resource: string(lentPool), Message: "only its line is lent"}
}
