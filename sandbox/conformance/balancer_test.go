package conformance

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestTrialUsesOutboundPool: the scale set of a trial is in the backend pool of an outbound rule, and in no backend
// pool with traffic. Names are irrelevant.
func TestTrialUsesOutboundPool(t *testing.T) {
	w, spec := newTrial(t)
	lb := "/subscriptions/" + subscription + "/resourceGroups/" + group + "/providers/Microsoft.Network/loadBalancers/lb"
	ref := func(pool string) map[string]any { return map[string]any{"id": lb + "/backendAddressPools/" + pool} }
	rule := func(pool string) []any {
		return []any{map[string]any{"name": "rule", "properties": map[string]any{"backendAddressPool": ref(pool)}}}
	}
	w.change(http.MethodPut, lb, map[string]any{"location": location,
		"properties": map[string]any{"outboundRules": rule("egress"), "loadBalancingRules": rule("outboundLooking")}})
	w.change(http.MethodPatch, string(w.pool),
		map[string]any{"properties": map[string]any{"virtualMachineProfile": map[string]any{"networkProfile": map[string]any{
			"networkInterfaceConfigurations": []any{map[string]any{"name": "nic", "properties": map[string]any{"primary": true, "ipConfigurations": []any{
				map[string]any{"name": "ip",
					"properties": map[string]any{"loadBalancerBackendAddressPools": []any{ref("egress"), ref("outboundLooking")}}}}}}}}}}})
	w.until("settled", func() bool {
		return w.document(string(w.pool))["properties"].(map[string]any)["provisioningState"] == "Succeeded"
	})
	trialist := w.p
	_, err := trialist.EnsureTrial(t.Context(), spec)
	w.must(err)
	for _, name := range w.scaleSets() {
		if name == poolName {
			continue
		}
		text := w.encode(w.document("/subscriptions/" + subscription + "/resourceGroups/" + group +
			"/providers/Microsoft.Compute/virtualMachineScaleSets/" + name))
		if !strings.Contains(text, "backendAddressPools/egress") || strings.Contains(text, "outboundLooking") {
			t.Errorf("scale set %s is %s", name, text)
		}
	}
	if sets := w.scaleSets(); len(sets) != 2 {
		t.Errorf("there are %v", sets)
	}
	w.until("ended", func() bool {
		state, err := trialist.EndTrial(t.Context(), spec)
		w.must(err)
		return state == cloud.Absent
	})
}
