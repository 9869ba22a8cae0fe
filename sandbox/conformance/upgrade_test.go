package conformance

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	simulator "github.com/kamino-dev/kamino/sandbox/azure"
)

// writes returns all writes of the recipe, each prepared before the policy changes.
func (w *cloudEnv) writes() map[string]func() error {
	w.t.Helper()
	disk := w.snapshot()
	ref := func(version string) cloud.ImageRef { return cloud.ImageRef{Pool: w.pool, Version: version} }
	for _, version := range []string{"2026.11.20", "2026.11.21", "2026.11.22"} {
		w.publishAs(ref(version), disk)
	}
	first, err := w.p.RecipeChange(w.t.Context(), ref("2026.11.21"), true)
	w.must(err)
	w.must(w.p.SetRecipe(w.t.Context(), first))
	promotion, err := w.p.RecipeChange(w.t.Context(), ref("2026.11.22"), true)
	w.must(err)
	back, err := w.p.RecipeChange(w.t.Context(), ref("2026.11.20"), false)
	w.must(err)
	restoration, err := w.p.RestoreChange(w.t.Context(), w.pool, cloud.Saved{Backup: first.Backup})
	w.must(err)
	return map[string]func() error{
		"promotion":   func() error { return w.p.SetRecipe(w.t.Context(), promotion) },
		"restoration": func() error { return w.p.SetRecipe(w.t.Context(), restoration) },
		"rollback":    func() error { return w.p.SetRecipe(w.t.Context(), back) },
	}
}

// recipe returns the image of the next node and the capacity.
func (w *cloudEnv) recipe() (string, int64) {
	w.t.Helper()
	pool, err := w.p.Pool(w.t.Context(), w.pool)
	w.must(err)
	return pool.Recipe.Image, pool.Capacity
}

// TestWritesUpgradeNoRunningNodes: an operator enables automatic upgrades after all reads. No write of Kamino
// happens, and no running node changes.
func TestWritesUpgradeNoRunningNodes(t *testing.T) {
	manual := map[string]any{"mode": "Manual", "automaticOSUpgradePolicy": map[string]any{"enableAutomaticOSUpgrade": false}}
	for name, policy := range map[string]map[string]any{
		"an automatic policy": {"mode": "Automatic"},
		"a rolling policy":    {"mode": "Rolling", "rollingUpgradePolicy": map[string]any{"maxBatchInstancePercent": 20}},
		"upgrades of the OS":  {"mode": "Manual", "automaticOSUpgradePolicy": map[string]any{"enableAutomaticOSUpgrade": true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCloudEnv(t, options{})
			all := w.writes()
			w.upgradeAll()
			w.setPolicy(policy)
			w.settled()
			w.cloud.ResetUpgradedByCloud()
			image, size := w.recipe()
			for name, write := range all {
				err := write()
				w.wantError(err, cloud.Refused, poolName)
				if code := codeOf(err); code != cloud.NodesWouldBeReplaced {
					t.Errorf("%s is refused as %s", name, code)
				}
			}
			w.settled()
			if gotImage, gotSize := w.recipe(); gotImage != image || gotSize != size {
				t.Errorf("the recipe is %s of %d, and was %s of %d", gotImage, gotSize, image, size)
			}
			if rolled := w.cloud.UpgradedByCloud(); len(rolled) > 0 {
				t.Errorf("nodes that ran were changed: %v", rolled)
			}
			w.setPolicy(manual)
			w.settled()
			w.must(all["promotion"]())
			w.settled()
			if rolled := w.cloud.UpgradedByCloud(); len(rolled) > 0 {
				t.Errorf("nodes that ran were changed by a promotion under Manual: %v", rolled)
			}
		})
	}
}

// TestWritesStartNoRollingUpgrade: a running rolling upgrade applies the current model to each batch, even after
// the policy is Manual again.
func TestWritesStartNoRollingUpgrade(t *testing.T) {
	w := newCloudEnv(t, options{config: func(c *simulator.Config) { c.Latencies.Reimage = 1000 * time.Hour }})
	all := w.writes()
	w.settled()
	policy := map[string]any{"mode": "Rolling", "rollingUpgradePolicy": map[string]any{"maxBatchInstancePercent": 20}}
	w.setPolicy(policy) // the nodes still have the generic image, so this begins an upgrade
	w.until("under way", func() bool { return len(w.cloud.UpgradedByCloud()) > 0 })
	w.setPolicy(map[string]any{"mode": "Manual"})
	image, size := w.recipe()
	for name, write := range all {
		err := write()
		w.wantError(err, cloud.Refused, "rolling upgrade")
		if code := codeOf(err); code != "NodesWouldBeReplaced" {
			t.Errorf("%s is refused as %s", name, code)
		}
	}
	if gotImage, gotSize := w.recipe(); gotImage != image || gotSize != size {
		t.Errorf("the recipe is %s of %d, and was %s of %d", gotImage, gotSize, image, size)
	}
	w.change(http.MethodPost, scaleSetPath+"/rollingUpgrades/cancel", nil)
	w.must(all["promotion"]())
	if rolled := w.cloud.UpgradedByCloud(); len(rolled) != 1 {
		t.Errorf("the upgrade was ended in its first batch, and changed %v", rolled)
	}
}

// setPolicy sets the upgrade policy with a foreign client.
func (w *cloudEnv) setPolicy(policy map[string]any) {
	w.t.Helper()
	w.change(http.MethodPatch, scaleSetPath, map[string]any{"properties": map[string]any{"upgradePolicy": policy}})
}

// upgradeAll updates all nodes to the model, so that a policy has no work.
func (w *cloudEnv) upgradeAll() {
	w.t.Helper()
	w.change(http.MethodPost, scaleSetPath+"/manualupgrade", map[string]any{"instanceIds": []string{"*"}})
	w.until("upgraded", func() bool {
		for _, one := range w.document(scaleSetPath + "/virtualMachines")["value"].([]any) {
			properties := one.(map[string]any)["properties"].(map[string]any)
			if properties["provisioningState"] != "Succeeded" || properties["latestModelApplied"] != true {
				return false
			}
		}
		return true
	})
}

// codeOf is the code of a provider's error.
func codeOf(err error) string {
	var known *cloud.Error
	errors.As(err, &known)
	return known.Code
}

// settled waits until Azure has done with the scale set.
func (w *cloudEnv) settled() {
	w.t.Helper()
	w.until("settled", func() bool {
		return w.document(scaleSetPath)["properties"].(map[string]any)["provisioningState"] == "Succeeded"
	})
}
