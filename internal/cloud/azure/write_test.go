package azure

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// newRecipeChange returns a change that was created while nothing was wrong.
func newRecipeChange(t *testing.T, arm *fakeARM, p cloud.Provider) cloud.RecipeChange {
	t.Helper()
	change, err := p.RecipeChange(t.Context(), cloud.ImageRef{Pool: testPool, Version: testVersion}, true)
	if err != nil {
		t.Fatal(err)
	}
	return change
}

// TestNoRollingWrite: after the change was created, a setting appears that would update running instances on a
// write, or the tag of a trial in the pool. Neither recipe nor size is written.
func TestNoRollingWrite(t *testing.T) {
	for changes, reason := range map[string]string{
		`{"properties": {"upgradePolicy": {"mode": "Automatic"}}}`:                                                              cloud.NodesWouldBeReplaced,
		`{"properties": {"upgradePolicy": {"mode": "Rolling"}}}`:                                                                cloud.NodesWouldBeReplaced,
		`{"properties": {"upgradePolicy": {"mode": null}}}`:                                                                     cloud.NodesWouldBeReplaced,
		`{"properties": {"upgradePolicy": {"mode": "Manual", "automaticOSUpgradePolicy": {"enableAutomaticOSUpgrade": true}}}}`: cloud.NodesWouldBeReplaced,
		`{"tags": {"kamino-trying": "pool1-2026.03.08-trial-1"}}`:                                                               "TrialInPoolOpen",
		`{"tags": {"sigs.k8s.io_cluster-api-provider-azure_cluster_c1": "owned"}}`:                                              cloud.ManagedElsewhere,
	} {
		t.Run(reason, func(t *testing.T) {
			arm := newARM(t)
			arm.pool("")
			p := arm.provider()
			change := newRecipeChange(t, arm, p)
			arm.pool(changes)
			if refused := mustKind(t, p.SetRecipe(t.Context(), change), cloud.Refused); refused.Code != reason || !strings.Contains(refused.Message, "pool1") {
				t.Errorf("%+v", refused)
			}
			if made := arm.made(); len(made) > 0 {
				t.Errorf("written: %v", made)
			}
			change, err := p.RecipeChange(t.Context(), cloud.ImageRef{Pool: testPool, Version: testVersion}, true)
			if err != nil || !slices.Contains(reasons(change.Refusals), reason) {
				t.Errorf("a change says %v, %v", change.Refusals, err)
			}
		})
	}
}

// TestPolicyChangeBeforeWrite: the upgrade policy cannot change between the read and the write.
func TestPolicyChangeBeforeWrite(t *testing.T) {
	arm := newARM(t)
	arm.pool("")
	p := arm.provider()
	change := newRecipeChange(t, arm, p)
	arm.next(http.MethodPatch, string(testPool), armError(412, "PreconditionFailed", "The ETag is another one."))
	wantKind(t, p.SetRecipe(t.Context(), change), cloud.Conflict)
	if sent := arm.last(http.MethodPatch, "/pool1"); sent.IfMatch != `"1"` {
		t.Errorf("the recipe was written with If-Match %q", sent.IfMatch)
	}
}

// TestWriteWithoutETag: without an ETag from Azure, the write itself sets the Manual policy.
func TestWriteWithoutETag(t *testing.T) {
	arm := newARM(t)
	arm.pool(`{"etag": null, "properties": {"upgradePolicy": {"mode": "Manual", "automaticOSUpgradePolicy": {"enableAutomaticOSUpgrade": false}}}}`)
	p := arm.provider()
	if err := p.SetRecipe(t.Context(), newRecipeChange(t, arm, p)); err != nil {
		t.Fatal(err)
	}
	policy := child(child(arm.last(http.MethodPatch, "/pool1").Body, "properties"), "upgradePolicy")
	if policy["mode"] != "Manual" || child(policy, "automaticOSUpgradePolicy")["enableAutomaticOSUpgrade"] != false {
		t.Errorf("the write says %v of the policy", policy)
	}
}

// TestWriteFlexible: Azure may show a scale set with Flexible orchestration without an upgrade policy and without a size.
func TestWriteFlexible(t *testing.T) {
	arm := newARM(t)
	p := arm.provider()
	arm.pool("")
	change := newRecipeChange(t, arm, p)
	arm.pool(`{"etag": null, "sku": null, "properties": {"orchestrationMode": "Flexible", "upgradePolicy": null}}`)
	if refused := mustKind(t, p.SetRecipe(t.Context(), change), cloud.Refused); refused.Code != cloud.PoolUnsupported {
		t.Errorf("%+v", refused)
	}
	for _, c := range arm.calls {
		if c.Method == http.MethodPatch {
			t.Errorf("the scale set is written: %v", c.Body)
		}
	}
}

func child(o map[string]any, name string) map[string]any {
	out, _ := o[name].(map[string]any)
	return out
}

// TestRollingUpgrade: no write during a rolling upgrade, which applies the model to running instances in batches.
func TestRollingUpgrade(t *testing.T) {
	const latest = string(testPool) + "/rollingUpgrades/latest"
	updating := `{"properties": {"provisioningState": "Updating", "upgradePolicy": {"mode": "Manual", "rollingUpgradePolicy": {"maxBatchInstancePercent": 20}}}}`
	for name, test := range map[string]struct {
		pool    string
		answer  answer
		refused bool
	}{
		"it runs":                 {updating, answer{status: 200, body: object(t, `{"properties": {"runningStatus": {"code": "RollingForward"}}}`)}, true},
		"it is over":              {updating, answer{status: 200, body: object(t, `{"properties": {"runningStatus": {"code": "Completed"}}}`)}, false},
		"there was none":          {updating, armError(404, "NotFound", "No rolling upgrade."), false},
		"no permission":           {updating, armError(403, "AuthorizationFailed", "no"), true},
		"nothing happens":         {strings.Replace(updating, "Updating", "Succeeded", 1), answer{status: 500}, false},
		"there is no such policy": {`{"properties": {"provisioningState": "Updating"}}`, answer{status: 500}, false},
	} {
		t.Run(name, func(t *testing.T) {
			arm := newARM(t)
			arm.pool(test.pool)
			arm.next(http.MethodGet, latest, test.answer)
			p := arm.provider()
			err := p.SetRecipe(t.Context(), newRecipeChange(t, arm, p))
			if test.refused {
				if refused := mustKind(t, err, cloud.Refused); refused.Code != cloud.NodesWouldBeReplaced {
					t.Errorf("%+v", refused)
				}
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}
