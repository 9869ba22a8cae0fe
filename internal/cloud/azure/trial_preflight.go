package azure

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// trialActions are what a trial apart needs in the pool's resource group beyond requiredActions. One in the pool needs
// removeActions.
var trialActions = []string{"Microsoft.Compute/virtualMachineScaleSets/delete"}

// TrialActions are the Azure actions that trials apart need in the pool's resource group beyond RequiredActions.
func TrialActions() []string { return append([]string(nil), trialActions...) }

// Actions that a new scale set needs on what it refers to, wherever that is. Source: Azure, "Azure built-in roles", Virtual
// Machine Contributor; "Permissions" of each resource that is joined.
const (
	joinSubnet     = "Microsoft.Network/virtualNetworks/subnets/join/action"
	joinSecurity   = "Microsoft.Network/networkSecurityGroups/join/action"
	joinBalancer   = "Microsoft.Network/loadBalancers/backendAddressPools/join/action"
	joinGroup      = "Microsoft.Network/applicationSecurityGroups/joinIpConfiguration/action"
	assignIdentity = "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action"
)

// JoinActions are the Azure actions that trials apart need on what the pool's instances refer to, where they do: subnet,
// security groups, a load balancer's pool for egress, identities.
func JoinActions() []string {
	return []string{joinSubnet, joinSecurity, joinBalancer, joinGroup, assignIdentity}
}

// PreflightTrial implements cloud.TrialRunner, in four requests or so. What it may not look at, it leaves out.
func (p *PoolProvider) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	t, err := tryOf(spec)
	if err != nil {
		return nil, err
	}
	model, err := p.model(ctx, t.scaleSet)
	if err != nil {
		return nil, err
	}
	var found []cloud.Refusal
	if spec.InPool {
		found, err = trials{p}.refuseInPool(ctx, t, model)
	} else {
		found, err = trials{p}.refuseApart(ctx, t, model)
	}
	if err != nil {
		return nil, err
	}
	spent, err := p.refuseCores(ctx, t.scaleSet, model, !spec.InPool, "free some, ask Azure for more, or leave trials out (settings.trial.mode: Off)")
	return append(found, spent...), err
}

func (p trials) refuseInPool(ctx context.Context, t tryRef, model armcompute.VirtualMachineScaleSet) ([]cloud.Refusal, error) {
	found := refusalsOfPolicy(t.scaleSet, model)
	removes, err := promotionRemoves(t, model)
	if err != nil {
		return nil, err
	}
	if removes != nil {
		found = append(found, *removes)
	}
	size := capacityOf(model)
	if most := maxSizeOf(model); most > 0 && size >= most {
		found = append(found, cloud.Refuse(cloud.PoolAtMaximum, fmt.Sprintf("%s has %d nodes, and its tag %s lets it have %d", t.scaleSet, size, maxSizeTag, most),
			"raise it, or try versions apart"))
	} else if most := mostInstances(model); size >= most {
		found = append(found, cloud.Refuse(cloud.PoolAtMaximum, fmt.Sprintf("%s has %d instances, and Azure lets it have %d", t.scaleSet, size, most),
			"try versions apart, or use a pool with room"))
	}
	lacks, err := p.refusePermissions(ctx, t.scaleSet, slices.Concat(recipeActions, removeActions))
	if err != nil {
		return nil, err
	}
	if lacks != nil {
		found = append(found, *lacks)
	}
	locked, err := p.refuseLocksOn(ctx, string(t.pool()), "the instances of "+t.scaleSet.String())
	return append(found, locked...), err
}

func (p trials) refuseApart(ctx context.Context, t tryRef, model armcompute.VirtualMachineScaleSet) ([]cloud.Refusal, error) {
	found := notCopyable(t, model)
	out, refusal, err := p.egressOf(ctx, model)
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		found = append(found, *refusal)
	}
	needs := []need{{t.scaleSet, slices.Concat(recipeActions, trialActions)}}
	for _, at := range slices.Concat(needs, joins(model, out.has)) {
		lacks, err := p.refusePermissions(ctx, at.scaleSet, at.actions)
		if err != nil {
			return nil, err
		}
		if lacks != nil {
			found = append(found, *lacks)
		}
	}
	locked, err := p.refuseLocksOn(ctx, t.scope(), "the scale set of a trial")
	return append(found, locked...), err
}

// notCopyable tells what keeps an instance beside the pool from being what the pool's next one is.
func notCopyable(t tryRef, model armcompute.VirtualMachineScaleSet) []cloud.Refusal {
	var found []cloud.Refusal
	refuse := func(format string, args ...any) {
		found = append(found, cloud.Refuse(cloud.PoolNotCopyable, fmt.Sprintf(format, args...), "try versions in the pool (settings.trial.mode: InPool)"))
	}
	if !t.spec.RemoveBootstrap && !customDataEmptied(t.scaleSet, model) {
		refuse("nodes of %s are built with customData, which Azure gives out to nobody", t.scaleSet)
	}
	for _, extension := range extensionsOf(model) {
		if !t.spec.RemoveBootstrap && isBootstrap(extension) {
			refuse("nodes of %s are built with %s, whose protected settings Azure gives out to nobody", t.scaleSet, partOf(extension))
		}
	}
	if identity := model.Identity; identity != nil && strings.Contains(strings.ToLower(string(value(identity.Type))), "systemassigned") {
		refuse("%s has a system-assigned identity, and a copy would have another one, without its rights", t.scaleSet)
	}
	if host := profileOf(model).OSProfile; host == nil || host.LinuxConfiguration == nil || !value(host.LinuxConfiguration.DisablePasswordAuthentication) {
		refuse("%s lets people log in with a password, which Azure gives out to nobody", t.scaleSet)
	}
	return found
}

// need is what must be allowed in a resource group.
type need struct {
	scaleSet
	actions []string
}

// joinsOrReads is joins where nobody has asked the load balancers yet: they are to be read, and any pool of theirs may be one to join.
func joinsOrReads(model armcompute.VirtualMachineScaleSet) []need {
	all := joins(model, func(pool *armcompute.SubResource) bool { return pool != nil })
	for i := range all {
		if slices.Contains(all[i].actions, joinBalancer) {
			all[i].actions = append(all[i].actions, readBalancer)
		}
	}
	return all
}

// joins is what a copy of a scale set needs on what it refers to, by resource groups, if it keeps these pools of load balancers.
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
