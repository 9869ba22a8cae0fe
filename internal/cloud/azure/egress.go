package azure

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// balancersVersion is the API version of load balancers.
const balancersVersion = "2024-05-01"

// egress holds the IDs (lower case) of backend pools for outgoing traffic only: an outbound rule names the pool, and no
// inbound rule does. Sources: Azure, "Outbound rules"; Network REST API, Load Balancers, Get.
type egress map[string]bool

func (e egress) has(pool *armcompute.SubResource) bool {
	return pool != nil && e[strings.ToLower(value(pool.ID))]
}

// loadBalancer holds the used fields of Azure's answer.
type loadBalancer struct {
	Properties struct {
		OutboundRules []struct {
			Properties struct {
				BackendAddressPool poolRef `json:"backendAddressPool"`
			} `json:"properties"`
		} `json:"outboundRules"`
		LoadBalancingRules []struct {
			Properties struct {
				BackendAddressPool  poolRef   `json:"backendAddressPool"`
				BackendAddressPools []poolRef `json:"backendAddressPools"`
			} `json:"properties"`
		} `json:"loadBalancingRules"`
	} `json:"properties"`
}

type poolRef struct {
	ID string `json:"id"`
}

// balancerOf returns the ID of a backend pool's load balancer; empty without a load balancer.
func balancerOf(pool *armcompute.SubResource) string {
	if pool == nil {
		return ""
	}
	id, _, found := strings.Cut(strings.ToLower(value(pool.ID)), "/backendaddresspools/")
	if !found {
		return ""
	}
	return id
}

// balancersOf returns the IDs of the load balancers of a scale set.
func balancersOf(model armcompute.VirtualMachineScaleSet) []string {
	var all []string
	seen := map[string]bool{}
	network := profileOf(model).NetworkProfile
	if network == nil {
		return nil
	}
	for _, card := range network.NetworkInterfaceConfigurations {
		if card == nil || card.Properties == nil {
			continue
		}
		for _, address := range card.Properties.IPConfigurations {
			if address == nil || address.Properties == nil {
				continue
			}
			for _, pool := range address.Properties.LoadBalancerBackendAddressPools {
				if id := balancerOf(pool); id != "" && !seen[id] {
					seen[id], all = true, append(all, id)
				}
			}
		}
	}
	return all
}

// egressOf reads each load balancer of a scale set in a request. egressOf returns a refusal if the credential may not
// read a load balancer, because a guess could send traffic to the trial.
func (p trials) egressOf(ctx context.Context, model armcompute.VirtualMachineScaleSet) (egress, *cloud.Refusal, error) {
	out := egress{}
	for _, id := range balancersOf(model) {
		reported, err := p.balancer(ctx, id)
		switch {
		case cloud.Is(err, cloud.NotFound):
			continue
		case cloud.Is(err, cloud.Denied):
			refusal := cloud.Refuse(cloud.PermissionMissing, fmt.Sprintf("%s on %s is missing, so the backend pools for egress are unknown", readBalancer, id),
				"grant the action, or do without trials and captures by copy: see "+docs+"#permissions")
			return nil, &refusal, nil
		case err != nil:
			return nil, nil, err
		}
		for _, rule := range reported.Properties.OutboundRules {
			out[strings.ToLower(rule.Properties.BackendAddressPool.ID)] = true
		}
		for _, rule := range reported.Properties.LoadBalancingRules {
			for _, in := range append(rule.Properties.BackendAddressPools, rule.Properties.BackendAddressPool) {
				delete(out, strings.ToLower(in.ID))
			}
		}
	}
	return out, nil, nil
}

func (p trials) balancer(ctx context.Context, id string) (loadBalancer, error) {
	const op = "read"
	ref := text("load balancer " + id)
	client, err := arm.NewClient("kamino", "v1.0.0", p.credential, p.options)
	if err != nil {
		return loadBalancer{}, fail("connect to", ref, err)
	}
	req, err := runtime.NewRequest(ctx, http.MethodGet, runtime.JoinPaths(client.Endpoint(), id))
	if err != nil {
		return loadBalancer{}, fail(op, ref, err)
	}
	query := req.Raw().URL.Query()
	query.Set("api-version", balancersVersion)
	req.Raw().URL.RawQuery = query.Encode()
	answer, err := client.Pipeline().Do(req)
	if err == nil && !runtime.HasStatusCode(answer, http.StatusOK) {
		err = runtime.NewResponseError(answer)
	}
	var reported loadBalancer
	if err == nil {
		err = runtime.UnmarshalAsJSON(answer, &reported)
	}
	return reported, fail(op, ref, err)
}
