package azure

import (
	"context"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// trialApart returns the state of a scale set next to its pool, as a trial. After the first read of the scale set, a single request suffices while
// the scale set has instances: the list with instance views.
func (p trials) trialApart(ctx context.Context, t apartRef) (cloud.Trial, error) {
	at := t.ownScaleSet()
	seen := p.contains(p.trialSets, at.id())
	var model armcompute.VirtualMachineScaleSet
	if !seen {
		found, err := p.modelApart(ctx, t)
		if found == nil || err != nil {
			return cloud.Trial{}, err
		}
		model = *found
	}
	vms, err := p.viewsApart(ctx, t)
	if err == nil && seen && len(vms) == 0 { // only the scale set shows the reason
		found, err := p.modelApart(ctx, t)
		if found == nil || err != nil {
			return cloud.Trial{}, err
		}
		model = *found
	}
	switch {
	case cloud.Is(err, cloud.NotFound):
		p.forget(at.id())
		return cloud.Trial{}, nil
	case err != nil:
		return cloud.Trial{}, err
	}
	return p.trialState(ctx, at, model, vms)
}

// modelApart reads the scale set next to the pool; nil if missing or foreign.
func (p trials) modelApart(ctx context.Context, t apartRef) (*armcompute.VirtualMachineScaleSet, error) {
	at := t.ownScaleSet()
	model, err := p.model(ctx, at)
	switch {
	case cloud.Is(err, cloud.NotFound):
		p.forget(at.id())
		return nil, nil
	case err != nil:
		return nil, err
	case !t.owns(model):
		return nil, nil
	}
	p.add(p.trialSets, at.id())
	return &model, nil
}

// viewsApart lists the instances of the scale set next to the pool with instance views. NotFound without the scale set.
func (p trials) viewsApart(ctx context.Context, t apartRef) (out []apartVM, err error) {
	at := t.ownScaleSet()
	clients, err := p.in(at)
	if err != nil {
		return nil, err
	}
	expand := &armcompute.VirtualMachineScaleSetVMsClientListOptions{Expand: to.Ptr(string(armcompute.InstanceViewTypesInstanceView))}
	for pager := clients.instances.NewListPager(at.group, at.name, expand); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, fail("list instances of", at, err)
		}
		for _, vm := range page.Value {
			if vm != nil && value(vm.InstanceID) != "" && vm.Properties != nil && vm.Properties.StorageProfile != nil &&
				t.matches(vm.Properties.StorageProfile.ImageReference) {
				out = append(out, t.apartVM(instance{scaleSet: at, number: value(vm.InstanceID)}, *vm))
			}
		}
	}
	return out, nil
}

// ensureApart begins the scale set if missing, and returns its state.
func (p trials) ensureApart(ctx context.Context, t apartRef) (cloud.Trial, error) {
	began, err := p.buildApart(ctx, t)
	switch {
	case err != nil:
		return cloud.Trial{}, asQuotaExceeded(err)
	case began:
		return cloud.Trial{State: cloud.Pending}, nil
	}
	return p.trialApart(cloud.WithoutReadCache(ctx), t)
}

// buildApart makes the scale set if missing, and reports whether it did. The condition IfNoneMatch prevents
// a second creation.
func (p trials) buildApart(ctx context.Context, t apartRef) (began bool, err error) {
	at := t.ownScaleSet()
	existing, err := p.model(ctx, at)
	switch {
	case err == nil && !t.owns(existing):
		return false, t.notOurs(t.op)
	case err == nil:
		return false, nil
	case !cloud.Is(err, cloud.NotFound):
		return false, err
	}
	model, err := p.model(ctx, t.scaleSet)
	if err != nil {
		return false, err
	}
	if found := notCopyable(t, model); len(found) > 0 {
		return false, found[0].Error(t.op, t.scaleSet.String())
	}
	out, refusal, err := p.egressOf(ctx, model)
	switch {
	case err != nil:
		return false, err
	case refusal != nil:
		return false, refusal.Error(t.op, t.scaleSet.String())
	}
	clients, err := p.in(at)
	if err != nil {
		return false, err
	}
	poller, err := clients.scaleSets.BeginCreateOrUpdate(ctx, at.group, at.name, copied(t, model, out),
		&armcompute.VirtualMachineScaleSetsClientBeginCreateOrUpdateOptions{IfNoneMatch: to.Ptr("*")})
	if isStatus(err, http.StatusPreconditionFailed) {
		return false, nil // another process made the scale set
	}
	if err != nil {
		return false, fail(t.op, t.scaleSet, err)
	}
	rememberOperation(p.account, at.id(), poller)
	p.add(p.trialSets, at.id())
	return true, nil
}

// removeApart deletes the scale set next to the pool. With force a hanging VM does not delay the deletion. Source: Compute
// REST API, Virtual Machine Scale Sets, Delete.
func (p trials) removeApart(ctx context.Context, t apartRef) (cloud.State, error) {
	const op = "delete"
	at := t.ownScaleSet()
	model, err := p.model(cloud.WithoutReadCache(ctx), at)
	switch {
	case cloud.Is(err, cloud.NotFound):
		p.forget(at.id())
		return cloud.Absent, nil
	case err != nil:
		return cloud.Absent, err
	case !t.owns(model):
		return cloud.Absent, t.notOurs(op)
	case strings.EqualFold(provisioning(model), "Deleting"):
		return cloud.Deleting, nil
	}
	clients, err := p.in(at)
	if err != nil {
		return cloud.Absent, err
	}
	poller, err := clients.scaleSets.BeginDelete(ctx, at.group, at.name,
		&armcompute.VirtualMachineScaleSetsClientBeginDeleteOptions{ForceDeletion: to.Ptr(true)})
	if err := fail(op, at, err); cloud.Is(err, cloud.NotFound) {
		return cloud.Absent, nil
	} else if err != nil {
		return cloud.Absent, err
	}
	rememberOperation(p.account, at.id(), poller)
	return cloud.Deleting, nil
}

// copied returns the scale set of a trial or workshop: a copy of the pool with one instance, without traffic, scaling, upgrades and
// extensions. The host name prefix differs, because Kubernetes finds the scale set by it. Source: Compute REST API, Virtual
// Machine Scale Sets, Create Or Update; cloud-provider-azure.
func copied(t apartRef, model armcompute.VirtualMachineScaleSet, out egress) armcompute.VirtualMachineScaleSet {
	was := model.Properties
	if was == nil {
		was = &armcompute.VirtualMachineScaleSetProperties{}
	}
	profile := profileOf(model)
	made := armcompute.VirtualMachineScaleSet{
		Location: model.Location, ExtendedLocation: model.ExtendedLocation, Zones: model.Zones, Plan: model.Plan, Identity: assigned(model.Identity),
		Tags: tagsOfTrial(t, model),
		Properties: &armcompute.VirtualMachineScaleSetProperties{
			OrchestrationMode: to.Ptr(armcompute.OrchestrationModeUniform), Overprovision: to.Ptr(false),
			UpgradePolicy:        &armcompute.UpgradePolicy{Mode: to.Ptr(armcompute.UpgradeModeManual)},
			SinglePlacementGroup: was.SinglePlacementGroup, PlatformFaultDomainCount: was.PlatformFaultDomainCount, ZoneBalance: was.ZoneBalance,
			ProximityPlacementGroup: was.ProximityPlacementGroup, HostGroup: was.HostGroup, AdditionalCapabilities: was.AdditionalCapabilities,
			VirtualMachineProfile: &armcompute.VirtualMachineScaleSetVMProfile{
				BillingProfile: profile.BillingProfile, CapacityReservation: profile.CapacityReservation, DiagnosticsProfile: managedConsole(),
				EvictionPolicy: profile.EvictionPolicy, HardwareProfile: profile.HardwareProfile, LicenseType: profile.LicenseType,
				Priority: profile.Priority, SecurityProfile: profile.SecurityProfile,
				OSProfile: hostOf(t, profile.OSProfile, needsCustomData(t, model)), StorageProfile: disksOf(t, profile.StorageProfile),
				NetworkProfile: networkOf(profile.NetworkProfile, out.has),
			},
		},
	}
	if model.SKU != nil {
		made.SKU = &armcompute.SKU{Name: model.SKU.Name, Tier: model.SKU.Tier, Capacity: to.Ptr[int64](1)}
		if t.vmSize != "" {
			made.SKU.Name = to.Ptr(t.vmSize)
		}
	}
	return made
}

// managedConsole enables the serial console's log in managed storage, which ConsoleOutput reads.
func managedConsole() *armcompute.DiagnosticsProfile {
	return &armcompute.DiagnosticsProfile{BootDiagnostics: &armcompute.BootDiagnostics{Enabled: to.Ptr(true)}}
}

// assigned returns an identity in the form of a request: IDs only.
func assigned(identity *armcompute.VirtualMachineScaleSetIdentity) *armcompute.VirtualMachineScaleSetIdentity {
	if identity == nil || len(identity.UserAssignedIdentities) == 0 {
		return nil
	}
	out := &armcompute.VirtualMachineScaleSetIdentity{Type: to.Ptr(armcompute.ResourceIdentityTypeUserAssigned),
		UserAssignedIdentities: map[string]*armcompute.UserAssignedIdentitiesValue{}}
	for id := range identity.UserAssignedIdentities {
		out.UserAssignedIdentities[id] = &armcompute.UserAssignedIdentitiesValue{}
	}
	return out
}

// tagsOfTrial returns the pool's tags, because an Azure Policy may require tags, without the autoscaler's tags, and adds
// those of the trial or workshop. Source: the cluster autoscaler's Azure provider.
func tagsOfTrial(t apartRef, model armcompute.VirtualMachineScaleSet) map[string]*string {
	tags := maps.Clone(model.Tags)
	maps.DeleteFunc(tags, func(name string, _ *string) bool {
		name = strings.ToLower(name)
		return name == "min" || name == maxSizeTag || strings.Contains(name, "cluster-autoscaler") || strings.HasPrefix(name, "kamino-")
	})
	if tags == nil {
		tags = map[string]*string{}
	}
	maps.Copy(tags, toTags(t.spec.Tags))
	tags[t.mark], tags[cloud.TagPool] = to.Ptr(t.spec.Name), to.Ptr(t.name)
	return tags
}

// hostOf returns login, host names and customData: the copy, or empty customData as after the promotion.
func hostOf(t apartRef, was *armcompute.VirtualMachineScaleSetOSProfile, needsCustomData bool) *armcompute.VirtualMachineScaleSetOSProfile {
	out := &armcompute.VirtualMachineScaleSetOSProfile{}
	if was != nil {
		out.AdminUsername, out.AllowExtensionOperations, out.LinuxConfiguration = was.AdminUsername, was.AllowExtensionOperations, was.LinuxConfiguration
		out.RequireGuestProvisionSignal, out.Secrets = was.RequireGuestProvisionSignal, was.Secrets
	}
	out.ComputerNamePrefix = to.Ptr(t.host + t.digest() + "-")
	data := []byte(emptyCloudConfig)
	if needsCustomData {
		data = t.spec.CustomData
	}
	out.CustomData = to.Ptr(base64.StdEncoding.EncodeToString(data))
	return out
}

// disksOf returns the disks, with the version or the present image of the pool as the OS disk's image.
func disksOf(t apartRef, was *armcompute.VirtualMachineScaleSetStorageProfile) *armcompute.VirtualMachineScaleSetStorageProfile {
	out := &armcompute.VirtualMachineScaleSetStorageProfile{}
	if was != nil {
		out.DataDisks, out.DiskControllerType, out.OSDisk, out.ImageReference = was.DataDisks, was.DiskControllerType, was.OSDisk, was.ImageReference
	}
	if t.version != "" {
		out.ImageReference = &armcompute.ImageReference{ID: to.Ptr(t.versionRef.id())}
	}
	return out
}

// networkOf returns the network without inbound traffic. Backend pools stay if keeps accepts them, for egress. A public
// address loses its DNS name, which belongs to the pool.
func networkOf(was *armcompute.VirtualMachineScaleSetNetworkProfile,
	keeps func(*armcompute.SubResource) bool) *armcompute.VirtualMachineScaleSetNetworkProfile {
	if was == nil {
		return nil
	}
	out := &armcompute.VirtualMachineScaleSetNetworkProfile{NetworkAPIVersion: was.NetworkAPIVersion}
	for _, card := range was.NetworkInterfaceConfigurations {
		if card == nil {
			continue
		}
		sent := *card
		if card.Properties != nil {
			properties := *card.Properties
			properties.IPConfigurations = nil
			for _, address := range card.Properties.IPConfigurations {
				properties.IPConfigurations = append(properties.IPConfigurations, addressOf(address, keeps))
			}
			sent.Properties = &properties
		}
		out.NetworkInterfaceConfigurations = append(out.NetworkInterfaceConfigurations, &sent)
	}
	return out
}

func addressOf(was *armcompute.VirtualMachineScaleSetIPConfiguration,
	keeps func(*armcompute.SubResource) bool) *armcompute.VirtualMachineScaleSetIPConfiguration {
	if was == nil || was.Properties == nil {
		return was
	}
	sent, properties := *was, *was.Properties
	properties.ApplicationGatewayBackendAddressPools, properties.LoadBalancerInboundNatPools = nil, nil
	properties.LoadBalancerBackendAddressPools = slices.DeleteFunc(slices.Clone(properties.LoadBalancerBackendAddressPools),
		func(pool *armcompute.SubResource) bool {
			return !keeps(pool)
		})
	if public := properties.PublicIPAddressConfiguration; public != nil && public.Properties != nil {
		nameless, inside := *public, *public.Properties
		inside.DNSSettings = nil
		nameless.Properties = &inside
		properties.PublicIPAddressConfiguration = &nameless
	}
	sent.Properties = &properties
	return &sent
}
