package memory_test

import (
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/cloudtest"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(*memory.Config, *memory.PoolSpec){
		"timed":           func(c *memory.Config, _ *memory.PoolSpec) { c.MaxImages = 3 },
		"instant":         func(c *memory.Config, _ *memory.PoolSpec) { c.Latency = memory.Latency{} },
		"taken at once":   func(c *memory.Config, _ *memory.PoolSpec) { c.Instant = true },
		"no zone storage": func(c *memory.Config, _ *memory.PoolSpec) { c.NoZoneStorage = true },
		"no bootstrap":    func(_ *memory.Config, p *memory.PoolSpec) { p.Bootstrap, p.Unreadable = nil, nil },
		"nothing to hold": func(c *memory.Config, _ *memory.PoolSpec) { c.NoHold = true },
		"objects apart":   func(c *memory.Config, _ *memory.PoolSpec) { c.Apart = true },
		"latest":          func(_ *memory.Config, p *memory.PoolSpec) { p.Latest = true },
	} {
		t.Run(name, func(t *testing.T) {
			cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
				t.Parallel()
				r := newRig(t, change)
				return cloudtest.Harness{
					Provider: r.Provider, Pool: r.pool, Instances: []cloud.InstanceID{r.a, r.b},
					Node: func(_ testing.TB, id cloud.InstanceID) cloud.NodeValues {
						return cloud.NodeValues{ProviderID: id, Annotations: map[string]string{memory.PoolAnnotation: "Pool1"}}
					},
					Missing: r.a + "-not", FoldsCase: true,
					Advance:       func(testing.TB) { r.clock.Advance(7 * time.Second) },
					List:          func(testing.TB) []cloud.InstanceID { return r.InstanceIDs(r.pool) },
					Generalize:    func(_ testing.TB, id cloud.InstanceID) { r.MarkGeneralized(id) },
					PowerOffGuest: func(_ testing.TB, id cloud.InstanceID) { r.GuestPowerOff(id) },
					Boots:         r.boots,
					Console:       func(_ testing.TB, id cloud.InstanceID, text string) { r.SetConsole(id, text) },
					SetUpgrades:   func(_ testing.TB, automatic bool) { r.SetUpgrades(r.pool, automatic) },
					Crowd:         func(testing.TB) { r.SetQuota(memory.Quota{Instances: len(r.InstanceIDs(r.pool))}) },
					Scale:         func(_ testing.TB, size int64) error { return r.Scale(r.pool, size) },
				}
			})
		})
	}
}

// TestImageProviderOnly: the ImageProvider needs no PoolProvider, for any kind of instance.
func TestImageProviderOnly(t *testing.T) {
	for name, apart := range map[string]bool{"that know their pools": false, "that know no pools": true} {
		t.Run(name, func(t *testing.T) {
			cloudtest.RunDisks(t, func(t *testing.T) cloudtest.DisksHarness {
				t.Parallel()
				r := newRig(t, func(c *memory.Config, _ *memory.PoolSpec) { c.Apart = apart })
				return cloudtest.DisksHarness{
					Harness: cloudtest.Harness{
						Instances: []cloud.InstanceID{r.a, r.b}, Missing: r.a + "-not", FoldsCase: true,
						Advance:       func(testing.TB) { r.clock.Advance(7 * time.Second) },
						Generalize:    func(_ testing.TB, id cloud.InstanceID) { r.MarkGeneralized(id) },
						PowerOffGuest: func(_ testing.TB, id cloud.InstanceID) { r.GuestPowerOff(id) },
						Boots:         r.boots,
						Console:       func(_ testing.TB, id cloud.InstanceID, text string) { r.SetConsole(id, text) },
					},
					Disks: cloud.DisksOf(r.Disks()), Family: cloud.ImageFamily{Place: "memory:///elsewhere/", Name: "lent"}, Requirements: cloud.ImageRequirements{Location: "here", Nodes: 3},
				}
			})
		})
	}
}

// TestPoolProviderOnly: recipes need from the disks only the lists of objects.
func TestPoolProviderOnly(t *testing.T) {
	for name, change := range map[string]func(*memory.Config, *memory.PoolSpec){
		"pools of a cloud": func(c *memory.Config, _ *memory.PoolSpec) { c.MaxImages = 3 },
		"objects apart":    func(c *memory.Config, _ *memory.PoolSpec) { c.Apart = true },
	} {
		t.Run(name, func(t *testing.T) {
			cloudtest.RunRecipes(t, func(t *testing.T) cloudtest.RecipesHarness {
				t.Parallel()
				r := newRig(t, change)
				family, err := r.Recipes().Family(t.Context(), r.pool)
				if err != nil {
					t.Fatal(err)
				}
				disks := r.Disks()
				return cloudtest.RecipesHarness{
					Harness: cloudtest.Harness{
						Pool: r.pool, Instances: []cloud.InstanceID{r.a, r.b}, Missing: r.a + "-not", FoldsCase: true,
						Node: func(_ testing.TB, id cloud.InstanceID) cloud.NodeValues {
							return cloud.NodeValues{ProviderID: id, Annotations: map[string]string{memory.PoolAnnotation: "Pool1"}}
						},
						Advance:     func(testing.TB) { r.clock.Advance(7 * time.Second) },
						List:        func(testing.TB) []cloud.InstanceID { return r.InstanceIDs(r.pool) },
						SetUpgrades: func(_ testing.TB, automatic bool) { r.SetUpgrades(r.pool, automatic) },
						Crowd:       func(testing.TB) { r.SetQuota(memory.Quota{Instances: len(r.InstanceIDs(r.pool))}) },
						Scale:       func(_ testing.TB, size int64) error { return r.Scale(r.pool, size) },
					},
					Recipes: r.Recipes(), Look: disks.Instance,
					ImageID: func(version string) string {
						return disks.ImageID(cloud.FamilyVersion{Family: family, Version: version})
					},
					Publish: func(_ testing.TB, versions ...string) {
						for _, version := range versions {
							r.AddVersion(r.pool, memory.VersionSpec{Version: version})
						}
					},
				}
			})
		})
	}
}

// boots counts the boots of an instance.
func (r *rig) boots(_ testing.TB, id cloud.InstanceID) int {
	return r.World().Count(memory.ByCloud, memory.EffectBoot, string(id))
}
