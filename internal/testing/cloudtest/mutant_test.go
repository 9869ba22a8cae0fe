package cloudtest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/cloudtest"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// Each mutant is a provider with one mistake. The suite, run in a separate process, must fail at the sentence that the
// mistake breaks.

// mutantEnv names the mutant for the separate process.
const mutantEnv = "KAMINO_CLOUDTEST_MUTANT"

type mutant struct {
	name string
	// breaks is the sentence of the contract that the mutant breaks.
	breaks string
	mutate func(c *memory.Cloud, h *hooks)
}

func allMutants() []mutant {
	return slices.Concat(diskMutants, recipeMutants, instanceListerMutants, holdMutants, snapshotListerMutants, rebuildMutants, upgradeMutants,
		restoreMutants, trialMutants, workshopMutants, copyMutants)
}

func TestSuiteCatchesMutants(t *testing.T) {
	if os.Getenv(mutantEnv) != "" {
		t.Skip("this process runs one mutant")
	}
	runMutants(t, "TestMutant", allMutants())
}

// TestRecipesSuiteCatchesMutants: the suite for PoolProvider alone catches the same mistakes of recipes as the full suite.
func TestRecipesSuiteCatchesMutants(t *testing.T) {
	if os.Getenv(mutantEnv) != "" {
		t.Skip("this process runs one mutant")
	}
	theirs := slices.DeleteFunc(slices.Concat(recipeMutants, instanceListerMutants, holdMutants, rebuildMutants, upgradeMutants, restoreMutants,
		trialMutants, workshopMutants), func(m mutant) bool {
		return slices.Contains(notOfRecipes, m.name)
	})
	if len(theirs) < 50 {
		t.Fatalf("only %d mutants are tried", len(theirs))
	}
	runMutants(t, "TestRecipesMutant", theirs)
}

// runMutants runs a suite on each mutant and on the provider without a mutant.
func runMutants(t *testing.T, suite string, mutants []mutant) {
	for _, m := range append(mutants, mutant{name: "none"}) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+suite+"$", "-test.v")
			cmd.Env = append(os.Environ(), mutantEnv+"="+m.name)
			out, err := cmd.CombinedOutput()
			if m.breaks == "" {
				if err != nil {
					t.Errorf("the suite fails without a mistake:\n%s", out)
				}
				return
			}
			var exit *exec.ExitError
			if err == nil || !errors.As(err, &exit) {
				t.Fatalf("the suite did not fail (%v)", err)
			}
			failed := "--- FAIL: " + suite + "/" + strings.ReplaceAll(m.breaks, " ", "_") + " "
			if !strings.Contains(string(out), failed) {
				t.Errorf("the suite failed, but not at %q:\n%s", m.breaks, out)
			}
		})
	}
}

// TestMutant runs the suite on one mutant. Without the variable, the test is skipped.
func TestMutant(t *testing.T) {
	mutate := mutation(t)
	cloudtest.Run(t, func(*testing.T) cloudtest.Harness {
		harness, _ := mutated(mutate)
		return harness
	})
}

// mutation returns the mistake of this process's mutant.
func mutation(t *testing.T) func(*memory.Cloud, *hooks) {
	name := os.Getenv(mutantEnv)
	if name == "" {
		t.Skip("run by a test of its suite")
	}
	for _, m := range allMutants() {
		if m.name == name {
			return m.mutate
		}
	}
	return func(*memory.Cloud, *hooks) {}
}

func mutated(mutate func(*memory.Cloud, *hooks)) (cloudtest.Harness, *memory.Cloud) {
	clock := memory.NewClock(time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC))
	c := memory.New(memory.Config{Now: clock.Now, ForbidsLaunches: true, Latency: memory.Latency{
		Stop: 3 * time.Second, GuestOff: time.Second, Start: 3 * time.Second,
		Snapshot: 3 * time.Second, Attach: 2 * time.Second, Image: 9 * time.Second, Delete: 2 * time.Second,
	}})
	pool := c.AddPool(memory.PoolSpec{
		Name: "pool1", Bootstrap: []string{"customData", "extension vmssCSE"},
		Unreadable: []string{"customData"}, Extensions: []string{"extension billing"},
	})
	a, b := c.AddInstance(pool, "a"), c.AddInstance(pool, "b")
	h := hooks{Provider: c.Provider}
	mutate(c, &h)
	return cloudtest.Harness{
		Provider: memory.Provider(h), Pool: pool, Instances: []cloud.InstanceID{a, b}, Missing: a + "-not", FoldsCase: true, Looks: 60,
		Advance:       func(testing.TB) { clock.Advance(time.Second) },
		List:          func(testing.TB) []cloud.InstanceID { return c.InstanceIDs(pool) },
		Generalize:    func(_ testing.TB, id cloud.InstanceID) { c.MarkGeneralized(id) },
		PowerOffGuest: func(_ testing.TB, id cloud.InstanceID) { c.GuestPowerOff(id) },
		Boots: func(_ testing.TB, id cloud.InstanceID) int {
			return c.World().Count(memory.ByCloud, memory.EffectBoot, string(id))
		},
		Console:     func(_ testing.TB, id cloud.InstanceID, text string) { c.SetConsole(id, text) },
		SetUpgrades: func(_ testing.TB, automatic bool) { c.SetUpgrades(pool, automatic) },
		Crowd:       func(testing.TB) { c.SetQuota(memory.Quota{Instances: len(c.InstanceIDs(pool))}) },
		Scale:       func(_ testing.TB, size int64) error { return c.Scale(pool, size) },
	}, c
}

const launchesOf = "launches of a version are forbidden until they are allowed again"

const readsTheEnd = "the serial console of an instance is its own, and its end is read"

func notFound(op string) error { return &cloud.Error{Kind: cloud.NotFound, Op: op} }

var diskMutants = []mutant{
	{"the beginning of a console is returned", readsTheEnd, func(c *memory.Cloud, h *hooks) {
		h.consoleOutput = func(ctx context.Context, id cloud.InstanceID) (string, error) {
			text, err := c.ConsoleOutput(ctx, id)
			return text[:len(text)/2], err
		}
	}},
	{"a missing instance has an empty console", readsTheEnd, func(c *memory.Cloud, h *hooks) {
		h.consoleOutput = func(ctx context.Context, id cloud.InstanceID) (string, error) {
			text, _ := c.ConsoleOutput(ctx, id)
			return text, nil
		}
	}},
	{"a look at a snapshot makes it", "looks change nothing in a fresh pool", func(c *memory.Cloud, h *hooks) {
		h.snapshot = func(ctx context.Context, id cloud.InstanceID, name string) (cloud.Snapshot, error) {
			return c.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: name, Instance: id})
		}
	}},
	{"an absent snapshot is an error", "an absent snapshot is a state and no error", func(c *memory.Cloud, h *hooks) {
		h.snapshot = func(ctx context.Context, id cloud.InstanceID, name string) (cloud.Snapshot, error) {
			s, err := c.Snapshot(ctx, id, name)
			if err == nil && s.State == cloud.Absent {
				err = notFound("look at snapshot")
			}
			return s, err
		}
	}},
	{"an absent version is an error", "an absent version is a state and no error", func(c *memory.Cloud, h *hooks) {
		h.image = func(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error) {
			v, err := c.Image(ctx, ref)
			if err == nil && v.State == cloud.Absent {
				err = notFound("look at image version")
			}
			return v, err
		}
	}},
	{"a missing instance is no error", "a missing instance is not found", func(c *memory.Cloud, h *hooks) {
		h.instance = func(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error) {
			m, err := c.Instance(ctx, id)
			if cloud.Is(err, cloud.NotFound) {
				err = nil
			}
			return m, err
		}
	}},
	{"an error does not say what was attempted", "a missing instance is not found", func(c *memory.Cloud, h *hooks) {
		h.ensureStarted = func(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
			p, err := c.EnsureStarted(ctx, id)
			if err != nil {
				err = &cloud.Error{Kind: cloud.KindOf(err)}
			}
			return p, err
		}
	}},
	{"an instance names another's pool", "an instance shows itself", func(c *memory.Cloud, h *hooks) {
		h.instance = func(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error) {
			m, err := c.Instance(ctx, id)
			m.Pool += "x"
			return m, err
		}
	}},
	{"only what was ordered off is stopped", "a guest that switches itself off is stopped", func(c *memory.Cloud, h *hooks) {
		h.instance = func(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error) {
			m, err := c.Instance(ctx, id)
			if m.Power == cloud.PowerStopped && c.World().Count(memory.ByCaller, memory.EffectStop, string(id)) == 0 {
				m.Power = cloud.PowerUnknown
			}
			return m, err
		}
	}},
	{"starting is called running", "EnsureStarted is repeated until running", func(c *memory.Cloud, h *hooks) {
		h.ensureStarted = func(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
			_, err := c.EnsureStarted(ctx, id)
			return cloud.PowerRunning, err
		}
	}},
	{"no definition is an error", "a pool that never had a version lists none", func(c *memory.Cloud, h *hooks) {
		h.images = func(ctx context.Context, id cloud.PoolID) ([]cloud.Image, error) {
			list, err := c.Images(ctx, id)
			if err == nil && len(list) == 0 {
				err = notFound("list image versions")
			}
			return list, err
		}
	}},
	{"a look leaves a tag", "looks change nothing in a pool with history", func(c *memory.Cloud, h *hooks) {
		looks := 0
		h.image = func(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error) {
			looks++
			if err := c.TagImage(ctx, ref, map[string]string{"looks": strconv.Itoa(looks)}); err != nil && !cloud.Is(err, cloud.NotFound) {
				return cloud.Image{}, err
			}
			return c.Image(ctx, ref)
		}
	}},
	{"IDs are compared letter by letter", "two ways to write an ID name one instance", func(_ *memory.Cloud, h *hooks) {
		h.sameInstance = func(a, b cloud.InstanceID) bool { return a == b }
	}},
	{"stopping is called stopped", "EnsureStopped is repeated until stopped", func(c *memory.Cloud, h *hooks) {
		h.ensureStopped = func(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
			_, err := c.EnsureStopped(ctx, id)
			return cloud.PowerStopped, err
		}
	}},
	{"starting a running instance reboots it", "EnsureStarted leaves a running instance alone", func(c *memory.Cloud, h *hooks) {
		h.ensureStarted = func(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
			p, err := c.EnsureStarted(ctx, id)
			c.Reboot(id)
			return p, err
		}
	}},
	{"a restart only starts", "Restart boots a running instance again", func(c *memory.Cloud, h *hooks) {
		h.restart = func(ctx context.Context, id cloud.InstanceID) error {
			_, err := c.EnsureStarted(ctx, id)
			return err
		}
	}},
	{"a restart leaves the instance off", "Restart boots a running instance again", func(c *memory.Cloud, h *hooks) {
		h.restart = func(ctx context.Context, id cloud.InstanceID) error {
			_, err := c.EnsureStopped(ctx, id)
			return err
		}
	}},
	{"the restart of nothing is no error", "a missing instance is not found", func(c *memory.Cloud, h *hooks) {
		h.restart = func(ctx context.Context, id cloud.InstanceID) error {
			if err := c.Restart(ctx, id); !cloud.Is(err, cloud.NotFound) {
				return err
			}
			return nil
		}
	}},
	{"stopping a stopped instance starts it", "EnsureStopped is repeated until stopped", func(c *memory.Cloud, h *hooks) {
		stopped := map[cloud.InstanceID]bool{}
		h.ensureStopped = func(ctx context.Context, id cloud.InstanceID) (cloud.Power, error) {
			if stopped[id] {
				return c.EnsureStarted(ctx, id)
			}
			p, err := c.EnsureStopped(ctx, id)
			stopped[id] = p == cloud.PowerStopped
			return p, err
		}
	}},
	{"a snapshot loses its tags", "EnsureSnapshot is repeated until complete, and carries name and tags", func(c *memory.Cloud, h *hooks) {
		h.ensureSnapshot = func(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
			spec.Tags = nil
			return c.EnsureSnapshot(ctx, spec)
		}
	}},
	{"a snapshot that is not complete shows no tags", "a new snapshot is seen at once, as requested", func(c *memory.Cloud, h *hooks) {
		h.snapshot = func(ctx context.Context, id cloud.InstanceID, name string) (cloud.Snapshot, error) {
			s, err := c.Snapshot(ctx, id, name)
			if s.State == cloud.Pending {
				s.Tags = nil
			}
			return s, err
		}
	}},
	{"a version that is not complete shows no tags", "a new version is seen as requested", func(c *memory.Cloud, h *hooks) {
		h.image = func(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error) {
			i, err := c.Image(ctx, ref)
			if i.State == cloud.Pending {
				i.Tags = nil
			}
			return i, err
		}
	}},
	{"a complete snapshot is only taken", "an instance may run again once its snapshot is taken", func(c *memory.Cloud, h *hooks) {
		h.ensureSnapshot = func(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
			s, err := c.EnsureSnapshot(ctx, spec)
			s.Taken = true
			return s, err
		}
	}},
	{"asking again replaces the snapshot", "a snapshot is never made twice and never changed", func(c *memory.Cloud, h *hooks) {
		h.ensureSnapshot = func(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
			s, err := c.EnsureSnapshot(ctx, spec)
			s.Tags = spec.Tags
			return s, err
		}
	}},
	{"a snapshot starts its instance", "a snapshot leaves its instance as it was", func(c *memory.Cloud, h *hooks) {
		h.ensureSnapshot = func(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
			c.StartByStranger(spec.Instance)
			return c.EnsureSnapshot(ctx, spec)
		}
	}},
	{"deleting no snapshot is an error", "deleting no snapshot is nil", func(c *memory.Cloud, h *hooks) {
		h.deleteSnapshot = func(ctx context.Context, id cloud.InstanceID, name string) error {
			if s, err := c.Snapshot(ctx, id, name); err == nil && s.State == cloud.Absent {
				return notFound("delete snapshot")
			}
			return c.DeleteSnapshot(ctx, id, name)
		}
	}},
	{"a snapshot is not deleted", "a snapshot is deleted until absent, and can be made again", func(_ *memory.Cloud, h *hooks) {
		h.deleteSnapshot = func(context.Context, cloud.InstanceID, string) error { return nil }
	}},
	{"long names are cut", "long names that begin alike are two snapshots", func(c *memory.Cloud, h *hooks) {
		cut := func(name string) string { return name[:min(len(name), 80)] }
		h.snapshot = func(ctx context.Context, id cloud.InstanceID, name string) (cloud.Snapshot, error) {
			s, err := c.Snapshot(ctx, id, cut(name))
			s.Name = name
			return s, err
		}
		h.ensureSnapshot = func(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
			name := spec.Name
			spec.Name = cut(name)
			s, err := c.EnsureSnapshot(ctx, spec)
			s.Name = name
			return s, err
		}
	}},
	{"the percentage falls", "EnsureImage is repeated until complete, its percentage never falls", func(c *memory.Cloud, h *hooks) {
		h.ensureImage = func(ctx context.Context, spec cloud.ImageSpec) (cloud.Image, error) {
			v, err := c.EnsureImage(ctx, spec)
			if v.State == cloud.Pending {
				v.Percent = 99 - v.Percent
			}
			return v, err
		}
	}},
	{"a version is of any disk", "no version is made of another disk than the proven one", func(c *memory.Cloud, h *hooks) {
		h.ensureImage = func(ctx context.Context, spec cloud.ImageSpec) (cloud.Image, error) {
			spec.Proven = ""
			return c.EnsureImage(ctx, spec)
		}
	}},
	{"a version needs its snapshot for ever", "a version is never made twice and never changed by asking", func(c *memory.Cloud, h *hooks) {
		h.ensureImage = func(ctx context.Context, spec cloud.ImageSpec) (cloud.Image, error) {
			for _, s := range c.World().Snapshots {
				if strings.HasSuffix(spec.SnapshotID, s.Name) {
					return c.EnsureImage(ctx, spec)
				}
			}
			return cloud.Image{}, notFound("make image version")
		}
	}},
	{"asking again retags the version", "a version is never made twice and never changed by asking", func(c *memory.Cloud, h *hooks) {
		h.ensureImage = func(ctx context.Context, spec cloud.ImageSpec) (cloud.Image, error) {
			if err := c.TagImage(ctx, spec.ImageRef, spec.Tags); err != nil && !cloud.Is(err, cloud.NotFound) {
				return cloud.Image{}, err
			}
			return c.EnsureImage(ctx, spec)
		}
	}},
	{"a version goes with its snapshot", "a version outlives its snapshot", func(c *memory.Cloud, h *hooks) {
		h.image = func(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error) {
			v, err := c.Image(ctx, ref)
			if len(c.World().Snapshots) == 0 && v.State == cloud.Complete {
				v.State = cloud.Failed
			}
			return v, err
		}
	}},
	{"versions are ordered as text", "versions are listed in numeric order", func(c *memory.Cloud, h *hooks) {
		h.images = func(ctx context.Context, id cloud.PoolID) ([]cloud.Image, error) {
			list, err := c.Images(ctx, id)
			slices.SortFunc(list, func(a, b cloud.Image) int { return strings.Compare(a.Version, b.Version) })
			return list, err
		}
	}},
	{"tagging replaces all tags", "tags are set, changed and removed, the others stay", func(c *memory.Cloud, h *hooks) {
		h.tagImage = func(ctx context.Context, ref cloud.ImageRef, tags map[string]string) error {
			v, err := c.Image(ctx, ref)
			if err != nil {
				return err
			}
			for key := range v.Tags {
				if _, ok := tags[key]; !ok {
					tags[key] = ""
				}
			}
			return c.TagImage(ctx, ref, tags)
		}
	}},
	{"launches are never forbidden", launchesOf, func(_ *memory.Cloud, h *hooks) {
		h.allowLaunches = func(context.Context, cloud.ImageRef, bool) error { return nil }
	}},
	{"launches stay forbidden", launchesOf, func(c *memory.Cloud, h *hooks) {
		h.allowLaunches = func(ctx context.Context, ref cloud.ImageRef, allow bool) error {
			if allow {
				return nil
			}
			return c.AllowLaunches(ctx, ref, allow)
		}
	}},
	{"a version that is not launched is left out", launchesOf, func(c *memory.Cloud, h *hooks) {
		h.images = func(ctx context.Context, id cloud.PoolID) ([]cloud.Image, error) {
			list, err := c.Images(ctx, id)
			return slices.DeleteFunc(list, func(i cloud.Image) bool { return i.Launches == cloud.LaunchesForbidden }), err
		}
	}},
	{"a recipe gets a version that is not launched", "no recipe gets a version that is not launched", func(c *memory.Cloud, h *hooks) {
		h.setRecipe = func(ctx context.Context, change cloud.RecipeChange) error {
			if err := c.AllowLaunches(ctx, cloud.ImageRef{Pool: change.Pool, Version: change.Version}, true); err != nil {
				return err
			}
			return c.SetRecipe(ctx, change)
		}
	}},
	{"the recipe's version is not launched", "launches of the version that the recipe names are not forbidden", func(c *memory.Cloud, h *hooks) {
		h.allowLaunches = func(ctx context.Context, ref cloud.ImageRef, allow bool) error {
			if err := c.AllowLaunches(ctx, ref, allow); err != nil && !cloud.Is(err, cloud.Conflict) {
				return err
			}
			return nil
		}
	}},
	{"tagging nothing is no error", "tagging an absent version is not found", func(c *memory.Cloud, h *hooks) {
		h.tagImage = func(ctx context.Context, ref cloud.ImageRef, tags map[string]string) error {
			err := c.TagImage(ctx, ref, tags)
			if cloud.Is(err, cloud.NotFound) {
				return nil
			}
			return err
		}
	}},
	{"one deletion takes all versions", "a version is deleted until absent, and the others stay", func(c *memory.Cloud, h *hooks) {
		h.deleteImage = func(ctx context.Context, ref cloud.ImageRef) error {
			list, err := c.Images(ctx, ref.Pool)
			for _, v := range list {
				err = errors.Join(err, c.DeleteImage(ctx, v.ImageRef))
			}
			return err
		}
	}},
	{"deleting no version is an error", "deleting no version is nil", func(c *memory.Cloud, h *hooks) {
		h.deleteImage = func(ctx context.Context, ref cloud.ImageRef) error {
			if v, err := c.Image(ctx, ref); err == nil && v.State == cloud.Absent {
				return notFound("delete image version")
			}
			return c.DeleteImage(ctx, ref)
		}
	}},
	{"the recipe's version is deleted", "the version that the recipe names is not deleted", func(c *memory.Cloud, h *hooks) {
		h.deleteImage = func(ctx context.Context, ref cloud.ImageRef) error {
			p, err := c.Pool(ctx, ref.Pool)
			if err == nil && p.Recipe.Version == ref.Version {
				c.ChangeRecipe(ref.Pool, "generic")
			}
			return c.DeleteImage(ctx, ref)
		}
	}},
}
