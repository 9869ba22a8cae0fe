package conformance

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/azure"
	"github.com/kamino-dev/kamino/internal/cloud/cloudtest"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

// alone is what a process has that makes one half of the provider, and never the other.
func (w *world) alone() provider.Config {
	w.t.Helper()
	env := w.environment(w.secret)
	return w.configured(provider.LoadOptions{Getenv: func(name string) string { return env[name] }})
}

func (w *world) harness() cloudtest.Harness {
	return cloudtest.Harness{
		Instances: w.list(), Missing: cloud.InstanceID("azure://" + string(w.pool) + "/virtualMachines/999"),
		Advance: advance, Looks: 2000, FoldsCase: true,
		List: func(testing.TB) []cloud.InstanceID { return w.list() },
		PowerOffGuest: func(t testing.TB, id cloud.InstanceID) {
			t.Helper()
			w.powerOffGuest(id)
		},
		Crowd: func(testing.TB) { w.must(w.cloud.Limit("cores", int64(2*len(w.list())))) }, // of two cores each
		Bind: func(testing.TB) {
			w.fault(fault.Fault{Deny: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/delete"})
		},
		SetUpgrades: func(t testing.TB, automatic bool) {
			t.Helper()
			w.setUpgrades(automatic)
		},
	}
}

// TestDisksAlone: instances, snapshots and images need no recipe of Azure's. The line is one that no scale set has.
func TestDisksAlone(t *testing.T) {
	cloudtest.RunDisks(t, func(t *testing.T) cloudtest.DisksHarness {
		w := newWorld(t, options{})
		disks, err := provider.NewDisks(t.Context(), w.alone())
		w.must(err)
		pool, err := w.p.Pool(t.Context(), w.pool)
		w.must(err)
		return cloudtest.DisksHarness{
			Harness: w.harness(), Disks: disks, Line: cloud.Line{Place: pool.Line.Place, Name: "lent"},
			Mold: cloud.Mold{Location: pool.Location, Traits: pool.Traits, Nodes: 3},
		}
	})
}

// TestRecipesAlone: scale sets and their models need no disks of this process; another one publishes.
func TestRecipesAlone(t *testing.T) {
	cloudtest.RunRecipes(t, func(t *testing.T) cloudtest.RecipesHarness {
		w := newWorld(t, options{})
		recipes, err := provider.NewRecipes(t.Context(), w.alone())
		w.must(err)
		disks, err := provider.NewDisks(t.Context(), w.alone())
		w.must(err)
		line, err := recipes.Line(t.Context(), w.pool)
		w.must(err)
		h := w.harness()
		h.Pool = w.pool
		return cloudtest.RecipesHarness{
			Harness: h, Recipes: recipes, Look: disks.Instance,
			ImageID: func(version string) string {
				return disks.ImageID(cloud.LineRef{Line: line, Version: version})
			},
			Publish: func(t testing.TB, versions ...string) {
				t.Helper()
				from := w.snapshot()
				for _, version := range versions {
					w.publishAs(cloud.ImageRef{Pool: w.pool, Version: version}, from)
				}
				w.must(w.p.DeleteSnapshot(t.Context(), w.a, from.Name))
				w.until("started", func() bool {
					power, err := w.p.EnsureStarted(t.Context(), w.a)
					w.must(err)
					return power == cloud.PowerRunning
				})
			},
		}
	})
}
