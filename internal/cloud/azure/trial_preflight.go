package azure

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// PreflightTrial implements cloud.PoolProvider with about four requests. Checks that the credential may not do are left
// out.
func (p *PoolProvider) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	t, err := newTrialRef(spec)
	if err != nil {
		return nil, err
	}
	model, err := p.model(ctx, t.scaleSet)
	if err != nil {
		return nil, err
	}
	return trials{p}.refuseApart(ctx, t, model)
}

// refuseApart returns the obstacles to a scale set next to the pool.
func (p trials) refuseApart(ctx context.Context, t apartRef, model armcompute.VirtualMachineScaleSet) ([]cloud.Refusal, error) {
	found := notCopyable(t, model)
	out, refusal, err := p.egressOf(ctx, model)
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		found = append(found, *refusal)
	}
	needs := []need{{t.scaleSet, slices.Concat(recipeActions, actionsFor(t.feature, "pool"))}}
	for _, at := range slices.Concat(needs, joins(model, out.has)) {
		lacks, err := p.refusePermissions(ctx, at.scaleSet, at.actions)
		if err != nil {
			return nil, err
		}
		if lacks != nil {
			found = append(found, *lacks)
		}
	}
	locked, err := p.refuseLocksOn(ctx, t.scope(), "the scale set of a "+t.noun)
	if err != nil {
		return nil, err
	}
	if t.vmSize != "" && model.SKU != nil {
		sku := *model.SKU
		sku.Name, model.SKU = to.Ptr(t.vmSize), &sku
	}
	spent, err := p.refuseCores(ctx, t.scaleSet, model, true, "delete unused resources, ask Azure for a larger quota, or "+t.without)
	return slices.Concat(found, locked, spent), err
}

// needsCustomData reports whether the instance needs the customData of the pool.
func needsCustomData(t apartRef, model armcompute.VirtualMachineScaleSet) bool {
	return !t.spec.RemoveBootstrap && !customDataEmptied(t.scaleSet, model)
}

// notCopyable returns the reasons why an instance outside the pool would differ from the pool's next instance.
func notCopyable(t apartRef, model armcompute.VirtualMachineScaleSet) []cloud.Refusal {
	var found []cloud.Refusal
	refuse := func(format string, args ...any) {
		found = append(found, cloud.Refuse(cloud.PoolNotCopyable, fmt.Sprintf(format, args...), t.without))
	}
	if needsCustomData(t, model) {
		switch size := len(t.spec.CustomData); {
		case size == 0:
			found = append(found, cloud.Refuse(cloud.PoolNotCopyable, fmt.Sprintf("nodes of %s need customData, which Azure never returns", t.scaleSet),
				"pass the original file with `--custom-data FILE` (settings.recipe.customDataFrom), or "+t.without))
		case size > maxCustomData:
			found = append(found, cloud.Refuse(cloud.PoolNotCopyable,
				fmt.Sprintf("the copy of customData has %d bytes, but Azure's limit is %d", size, maxCustomData),
				"pass the original file with `--custom-data FILE` (settings.recipe.customDataFrom)"))
		}
	}
	for _, extension := range extensionsOf(model) {
		if !t.spec.RemoveBootstrap && isBootstrap(extension) {
			refuse("nodes of %s need %s, but Azure never returns protected settings", t.scaleSet, partOf(extension))
		}
	}
	if identity := model.Identity; identity != nil && strings.Contains(strings.ToLower(string(value(identity.Type))), "systemassigned") {
		refuse("%s has a system-assigned identity, and a copy would have another identity without the permissions", t.scaleSet)
	}
	if host := profileOf(model).OSProfile; host == nil || host.LinuxConfiguration == nil || !value(host.LinuxConfiguration.DisablePasswordAuthentication) {
		refuse("%s allows login with a password, which Azure never returns", t.scaleSet)
	}
	return found
}

// need is a set of required actions in a resource group.
type need struct {
	scaleSet
	actions []string
}

// joinsOrReads is joins before the load balancers are read: readBalancer is required, and every backend pool may need
// joinBalancer.
func joinsOrReads(model armcompute.VirtualMachineScaleSet) []need {
	all := joins(model, func(pool *armcompute.SubResource) bool { return pool != nil })
	for i := range all {
		if slices.Contains(all[i].actions, joinBalancer) {
			all[i].actions = append(all[i].actions, readBalancer)
		}
	}
	return all
}

// joins returns the required actions of a scale set's copy on other resources, by resource group. keeps selects the load
// balancer pools.
func joins(model armcompute.VirtualMachineScaleSet, keeps func(*armcompute.SubResource) bool) []need {
	var out []need
	add := func(id, action string) {
		rid, err := arm.ParseResourceID(id)
		if err != nil {
			return
		}
		at := scaleSet{subscription: strings.ToLower(rid.SubscriptionID), group: strings.ToLower(rid.ResourceGroupName)}
		i := slices.IndexFunc(out, func(n need) bool { return n.scaleSet == at })
		if i < 0 {
			i, out = len(out), append(out, need{scaleSet: at})
		}
		if !slices.Contains(out[i].actions, action) {
			out[i].actions = append(out[i].actions, action)
		}
	}
	if network := networkOf(profileOf(model).NetworkProfile, keeps); network != nil {
		for _, card := range network.NetworkInterfaceConfigurations {
			joinsOfCard(card, add)
		}
	}
	if identity := assigned(model.Identity); identity != nil {
		for id := range identity.UserAssignedIdentities {
			add(id, assignIdentity)
		}
	}
	return out
}

func joinsOfCard(card *armcompute.VirtualMachineScaleSetNetworkConfiguration, add func(id, action string)) {
	if card.Properties == nil {
		return
	}
	if group := card.Properties.NetworkSecurityGroup; group != nil {
		add(value(group.ID), joinSecurity)
	}
	for _, address := range card.Properties.IPConfigurations {
		if address == nil || address.Properties == nil {
			continue
		}
		if subnet := address.Properties.Subnet; subnet != nil {
			add(value(subnet.ID), joinSubnet)
		}
		for _, pool := range address.Properties.LoadBalancerBackendAddressPools {
			add(value(pool.ID), joinBalancer)
		}
		for _, group := range address.Properties.ApplicationSecurityGroups {
			if group != nil {
				add(value(group.ID), joinGroup)
			}
		}
	}
}
