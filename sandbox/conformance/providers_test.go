package conformance

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/azure"
	"github.com/kamino-dev/kamino/internal/testing/cloudtest"
	simulator "github.com/kamino-dev/kamino/sandbox/azure"
)

// partialConfig returns the configuration of a process with only one half of the provider.
func (w *cloudEnv) partialConfig() provider.Config {
	w.t.Helper()
	env := w.environment(w.secret)
	return w.configured(provider.LoadOptions{Getenv: func(name string) string { return env[name] }})
}

func (w *cloudEnv) harness() cloudtest.Harness {
	return cloudtest.Harness{
		Instances: w.list(), Missing: cloud.InstanceID("azure://" + string(w.pool) + "/virtualMachines/999"),
		Advance: advance, Looks: 2000, FoldsCase: true, CopyOnRequest: true,
		List: func(testing.TB) []cloud.InstanceID { return w.list() },
		PowerOffGuest: func(t testing.TB, id cloud.InstanceID) {
			t.Helper()
			w.powerOffGuest(id)
		},
		Boots: func(_ testing.TB, id cloud.InstanceID) int {
			for _, spec := range w.cloud.Specs() {
				if w.p.SameInstance(cloud.InstanceID(spec.ProviderID), id) {
					return w.fleet.Machine(spec.ID).Boots
				}
			}
			return 0
		},
		Console: func(_ testing.TB, id cloud.InstanceID, text string) {
			w.fleet.SetConsole(strings.ToLower(strings.TrimPrefix(string(id), "azure://")), text)
		},
		Crowd: func(testing.TB) { w.must(w.cloud.Limit("cores", int64(2*len(w.list())))) }, // of two cores each
		SetUpgrades: func(t testing.TB, automatic bool) {
			t.Helper()
			w.setUpgrades(automatic)
		},
	}
}

// TestImageProviderAlone: instances, snapshots and images need no recipe of Azure. No scale set has this family.
func TestImageProviderAlone(t *testing.T) {
	cloudtest.RunDisks(t, func(t *testing.T) cloudtest.DisksHarness {
		w := newCloudEnv(t, options{})
		disks, err := provider.NewDisks(t.Context(), w.partialConfig())
		w.must(err)
		pool, err := w.p.Pool(t.Context(), w.pool)
		w.must(err)
		return cloudtest.DisksHarness{
			Harness: w.harness(), Disks: cloud.DisksOf(disks), Family: cloud.ImageFamily{Place: pool.Family.Place, Name: "lent"},
			Requirements: cloud.ImageRequirements{Location: pool.Location, Traits: pool.Traits, Nodes: 3},
		}
	})
}

// TestDisksOfVMs: the same suite for single VMs, which never have recipes of Azure.
func TestDisksOfVMs(t *testing.T) {
	cloudtest.RunDisks(t, func(t *testing.T) cloudtest.DisksHarness {
		w := newCloudEnv(t, options{})
		disks, err := provider.NewDisks(t.Context(), w.partialConfig())
		w.must(err)
		ids := []cloud.InstanceID{w.vm("md-0-abcde"), w.vm("md-0-fghij")}
		for _, id := range ids {
			w.until("running", func() bool {
				seen, err := disks.Instance(t.Context(), id)
				w.must(err)
				return seen.Power == cloud.PowerRunning
			})
		}
		h := w.harness()
		h.Instances, h.Missing, h.List, h.CopyOnRequest = ids, vmID("md-0-zzzzz"), nil, false
		place := "/subscriptions/" + subscription + "/resourceGroups/" + strings.ToLower(group)
		return cloudtest.DisksHarness{
			Harness: h, Disks: cloud.DisksOf(disks), Family: cloud.ImageFamily{Place: place, Name: "capi.md-0"},
			Requirements: cloud.ImageRequirements{Location: location, Traits: map[string]string{"securityType": "Standard", "vmSize": "Standard_D2s_v5"}, Nodes: 3},
		}
	})
}

func vmID(name string) cloud.InstanceID {
	return cloud.InstanceID("azure:///subscriptions/" + subscription + "/resourceGroups/" + group + "/providers/Microsoft.Compute/virtualMachines/" + name)
}

// vm creates a VM with a foreign client.
func (w *cloudEnv) vm(name string) cloud.InstanceID {
	w.t.Helper()
	id := vmID(name)
	w.change(http.MethodPut, strings.TrimPrefix(string(id), "azure://"), map[string]any{"location": location, "properties": map[string]any{
		"hardwareProfile":    map[string]any{"vmSize": "Standard_D2s_v5"},
		"diagnosticsProfile": map[string]any{"bootDiagnostics": map[string]any{"enabled": true}},
		"osProfile":          map[string]any{"computerName": name, "adminUsername": "capi", "customData": "I2Nsb3VkLWNvbmZpZwo="},
		"storageProfile": map[string]any{
			"imageReference": map[string]any{"publisher": "Canonical", "offer": "0001-com-ubuntu-server-jammy", "sku": "22_04-lts-gen2",
				"version": "22.04.202611010"},
			"osDisk": map[string]any{"osType": "Linux", "createOption": "FromImage",
				"managedDisk": map[string]any{"storageAccountType": "Premium_LRS"}},
		},
	}})
	return id
}

// TestPoolProviderAlone: scale sets and models need no disks of this process. A different process publishes.
func TestPoolProviderAlone(t *testing.T) {
	cloudtest.RunRecipes(t, func(t *testing.T) cloudtest.RecipesHarness {
		w := newCloudEnv(t, options{})
		recipes, err := provider.NewRecipes(t.Context(), w.partialConfig())
		w.must(err)
		disks, err := provider.NewDisks(t.Context(), w.partialConfig())
		w.must(err)
		line, err := recipes.Family(t.Context(), w.pool)
		w.must(err)
		h := w.harness()
		h.Pool, h.NotCopyable = w.pool, true
		return cloudtest.RecipesHarness{
			Harness: h, Recipes: cloud.RecipesOf(recipes), Look: disks.Instance,
			ImageID: func(version string) string {
				return disks.ImageID(cloud.FamilyVersion{Family: line, Version: version})
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

// TestDisabledConsole: without boot diagnostics an instance has no console. A trial's instance has a console all the same.
func TestDisabledConsole(t *testing.T) {
	w := newCloudEnv(t, options{pool: func(p *simulator.PoolSpec) { p.NoConsole = true }})
	_, err := w.p.ConsoleOutput(t.Context(), w.a)
	w.wantError(err, cloud.Unsupported, "boot diagnostics")
	w.publish(w.snapshot())
	spec := cloud.TrialSpec{ImageRef: w.ref(), Name: "uid-1", RemoveBootstrap: true, Tags: map[string]string{cloud.TagUID: "uid"}}
	have, err := w.p.EnsureTrial(t.Context(), spec)
	w.must(err)
	w.until("running", func() bool {
		have, err = w.p.Trial(t.Context(), spec)
		w.must(err)
		return have.State == cloud.Complete
	})
	if _, err = w.p.ConsoleOutput(t.Context(), have.Instances[0].ID); err != nil {
		t.Error(err)
	}
}
