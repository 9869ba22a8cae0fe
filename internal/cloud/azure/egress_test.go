package azure

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// withBackendPools returns the changes of a pool with these backend pools of load balancer lb.
func withBackendPools(pools ...string) string {
	var ids []string
	for _, pool := range pools {
		ids = append(ids, `{"id": "`+balancer+`/`+pool+`"}`)
	}
	return `{"properties": {"virtualMachineProfile": {"networkProfile": {"networkInterfaceConfigurations": [{"name": "nic", "properties": {
		"ipConfigurations": [{"name": "ip", "properties": {"loadBalancerBackendAddressPools": [` + strings.Join(ids, ",") + `]}}]}}]}}}}`
}

// TestEgress: the rules of the load balancer decide, not the names of the backend pools.
func TestEgress(t *testing.T) {
	ref := func(pool string) string { return `{"id": "` + strings.ToUpper(balancer) + `/` + pool + `"}` }
	for name, test := range map[string]struct {
		rules string
		want  []string
	}{
		"none":             {`{}`, nil},
		"outbound":         {`{"outboundRules": [{"properties": {"backendAddressPool": ` + ref("web") + `}}]}`, []string{"web"}},
		"only by its name": {`{"loadBalancingRules": [{"properties": {"backendAddressPool": ` + ref("aksOutboundBackendPool") + `}}]}`, nil},
		"in and out by one": {`{"outboundRules": [{"properties": {"backendAddressPool": ` + ref("web") +
			`}}], "loadBalancingRules": [{"properties": {"backendAddressPool": ` + ref("web") + `}}]}`, nil},
		"in by many": {`{"outboundRules": [{"properties": {"backendAddressPool": ` + ref("web") +
			`}}], "loadBalancingRules": [{"properties": {"backendAddressPools": [` + ref("web") + `]}}]}`, nil},
		"one of two": {`{"outboundRules": [{"properties": {"backendAddressPool": ` + ref("web") +
			`}}], "loadBalancingRules": [{"properties": {"backendAddressPool": ` + ref("aksOutboundBackendPool") + `}}]}`, []string{"web"}},
		"another's pool too": {`{"outboundRules": [{"properties": {"backendAddressPool": ` + ref("elsewhere") + `}}]}`, nil},
	} {
		a := newARM(t)
		a.pool(withBackendPools("web", "aksOutboundBackendPool"))
		a.has(networks+"/loadBalancers/lb", `{"properties": `+test.rules+`}`)
		model := modelOf(t, a.documents[fold(string(testPool))])
		recipes, err := NewRecipes(t.Context(), Config{Credential: token{}, Transport: a})
		if err != nil {
			t.Fatal(err)
		}
		out, refusal, err := trials{recipes}.egressOf(t.Context(), model)
		if err != nil || refusal != nil {
			t.Fatal(err, refusal)
		}
		var kept []string
		for _, card := range copied(attempt(t, trialOf()), model, out).Properties.VirtualMachineProfile.NetworkProfile.NetworkInterfaceConfigurations {
			for _, pool := range card.Properties.IPConfigurations[0].Properties.LoadBalancerBackendAddressPools {
				kept = append(kept, value(pool.ID)[strings.LastIndex(value(pool.ID), "/")+1:])
			}
		}
		if !slices.Equal(kept, test.want) {
			t.Errorf("%s: the copy keeps %v, want %v", name, kept, test.want)
		}
	}
}

// TestForbiddenBalancer: without the right to read the load balancer, preflight and trial fail with the missing
// action. Nothing is created.
func TestForbiddenBalancer(t *testing.T) {
	a := ready(t, withBackendPools("web"), "")
	a.lists[fold(apartScope)], a.lists[fold(poolLocks)] = []any{}, []any{}
	a.has(testDefinition+"/versions/"+testVersion, `{"location": "westus2", "properties": {"provisioningState": "Succeeded"}}`)
	for range 2 {
		a.next(http.MethodGet, networks+"/loadBalancers/lb", armError(403, "AuthorizationFailed", "no"))
	}
	power := a.provider()
	found, err := power.PreflightTrial(t.Context(), trialOf())
	if err != nil || len(found) != 1 || found[0].Reason != cloud.PermissionMissing || !strings.Contains(found[0].Message, readBalancer) {
		t.Errorf("beforehand: %+v, %v", found, err)
	}
	_, err = power.EnsureTrial(t.Context(), trialOf())
	if err == nil || !strings.Contains(err.Error(), readBalancer) || len(a.made()) != 0 {
		t.Errorf("at the time: %v; sent %v", err, a.made())
	}
}

// TestBalancerPermission: doctor checks the action if a pool has a load balancer.
func TestBalancerPermission(t *testing.T) {
	a := newARM(t)
	a.pool(withBackendPools("web"))
	for _, at := range joinsOrReads(modelOf(t, a.documents[fold(string(testPool))])) {
		if slices.Contains(at.actions, readBalancer) && slices.Contains(at.actions, joinBalancer) {
			return
		}
	}
	t.Error("no description names the action")
}
