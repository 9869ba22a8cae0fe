package karpenter

import (
	"encoding/json"
	"strings"
	"testing"
)

// poolWith is a NodePool with these budgets as JSON.
func poolWith(t *testing.T, name, budgets string) nodePool {
	t.Helper()
	var p nodePool
	p.Metadata.Name = name
	if err := json.Unmarshal([]byte(budgets), &p.Spec.Disruption.Budgets); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestGuard: only a budget without a schedule that allows no drifted node is a guard. The expectations are what Karpenter's own
// GetAllowedDisruptionsByReason returned.
func TestGuard(t *testing.T) {
	t.Parallel()
	for budgets, want := range map[string]bool{
		`[]`:                false,
		`[{"nodes":"10%"}]`: false,
		`[{"nodes":"0"}]`:   true,
		`[{"nodes":"0%"}]`:  true,
		`[{"nodes":"1"}]`:   false,
		`[{"nodes":"0","reasons":["Empty","Underutilized"]}]`:                                     false,
		`[{"nodes":"10%"},{"nodes":"0","reasons":["Drifted"]}]`:                                   true,
		`[{"nodes":"0","reasons":["Empty","Drifted"]}]`:                                           true,
		`[{"nodes":"0","reasons":["Drifted"],"schedule":"0 9 * * mon-fri","duration":"8h"}]`:      false,
		`[{"nodes":"0","schedule":"@daily","duration":"24h"},{"nodes":"5"}]`:                      false,
		`[{"nodes":"0","schedule":"@daily","duration":"1h"},{"nodes":"0","reasons":["Drifted"]}]`: true,
	} {
		if is := poolWith(t, "p", budgets).isGuarded(); is != want {
			t.Errorf("%s: guarded %t, want %t", budgets, is, want)
		}
	}
}

// TestGuardPatch: the patch keeps the budgets that are there. The guard alone would lift Karpenter's default for all other reasons.
func TestGuardPatch(t *testing.T) {
	t.Parallel()
	const guard = `{"nodes":"0","reasons":["Drifted"]}`
	for budgets, want := range map[string]string{
		`[]`: `[{"nodes":"10%"},` + guard + `]`,
		`[{"nodes":"20%","schedule":"@daily","duration":"10m"},{"nodes":"5","reasons":["Empty"]}]`: `[{"nodes":"20%","schedule":"@daily","duration":"10m"},` +
			`{"nodes":"5","reasons":["Empty"]},` + guard + `]`,
	} {
		p := poolWith(t, "p", budgets)
		var patch struct {
			Spec struct {
				Disruption struct{ Budgets json.RawMessage }
			}
		}
		if err := json.Unmarshal([]byte(p.guardPatch()), &patch); err != nil {
			t.Fatal(err)
		}
		var have, wanted []budget
		if json.Unmarshal(patch.Spec.Disruption.Budgets, &have) != nil || json.Unmarshal([]byte(want), &wanted) != nil {
			t.Fatal(p.guardPatch())
		}
		if patched := poolWith(t, "p", string(patch.Spec.Disruption.Budgets)); !patched.isGuarded() || len(have) != len(wanted) {
			t.Errorf("%s: the patch is %s, want budgets %s", budgets, p.guardPatch(), want)
		}
		for i := range wanted {
			x, _ := json.Marshal(have[i])
			y, _ := json.Marshal(wanted[i])
			if string(x) != string(y) {
				t.Errorf("%s: budget %d is %s, want %s", budgets, i, x, y)
			}
		}
	}
	refusal := refuseDrift("general", []nodePool{poolWith(t, "a", `[]`), poolWith(t, "b", `[{"nodes":"0"}]`), poolWith(t, "c", `[{"nodes":"1","reasons":["Empty"]}]`),
		poolWith(t, "d", `[{"nodes":"20%"},{"nodes":"0","schedule":"@daily","duration":"1h"},{"nodes":"3","reasons":["Drifted"]}]`)})
	if refusal == nil || !strings.Contains(refusal.Message,
		"NodePools a (10% at a time), c (all at once), d (at most 20% or 3 at a time) of EC2NodeClass general would replace every running node") ||
		!strings.Contains(refusal.Remedy, "kubectl patch nodepool a --type merge -p '{") || !strings.Contains(refusal.Remedy, "kubectl patch nodepool c ") {
		t.Errorf("the refusal is %+v", refusal)
	}
}
