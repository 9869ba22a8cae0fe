package region

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/sandbox/capi"
)

// azureSets are the scale sets of machine pools of Cluster API's provider for Azure. A scale set has the name of its
// AzureMachinePool.
type azureSets struct {
	*Azure
	cluster string
}

var _ capi.ScaleSets = azureSets{}

// Get implements capi.ScaleSets.
func (s azureSets) Get(ctx context.Context, pool capi.Machine) (capi.ScaleSet, error) {
	client, err := s.scaleSets()
	if err != nil {
		return capi.ScaleSet{}, err
	}
	got, err := client.Get(ctx, s.config.Facts.ResourceGroup, pool.Name, nil)
	if err != nil {
		return capi.ScaleSet{}, ignoreMissing(err)
	}
	all, err := s.members(ctx, pool.Name,
		&armcompute.VirtualMachineScaleSetVMsClientListOptions{Expand: to.Ptr(string(armcompute.InstanceViewTypesInstanceView))})
	if err != nil {
		return capi.ScaleSet{}, err
	}
	template, _, _ := unstructured.NestedMap(pool.Spec, "template")
	set := capi.ScaleSet{There: true, Capacity: *got.SKU.Capacity, Image: imageAs(template, got.Properties.VirtualMachineProfile.StorageProfile.ImageReference)}
	for _, vm := range all {
		set.Instances = append(set.Instances, capi.ScaleSetInstance{
			ProviderID: "azure://" + *vm.ID, Number: *vm.InstanceID, Image: imageAs(template, vm.Properties.StorageProfile.ImageReference),
			Runs: vm.Properties.InstanceView != nil && hasPower(vm.Properties.InstanceView.Statuses),
		})
	}
	return set, nil
}

// imageAs writes an image as the pool's template does if the image is the template's image, else as Azure does.
func imageAs(template map[string]any, ref *armcompute.ImageReference) any {
	if strings.EqualFold(imageText(ref), imageText(imageReference(template))) {
		return template["image"]
	}
	return strings.ToLower(imageText(ref))
}

// Apply implements capi.ScaleSets.
func (s azureSets) Apply(ctx context.Context, pool capi.Machine, capacity int64) error {
	client, err := s.scaleSets()
	if err != nil {
		return err
	}
	template, _, _ := unstructured.NestedMap(pool.Spec, "template")
	size, _, _ := unstructured.NestedString(template, "vmSize")
	_, err = client.BeginCreateOrUpdate(ctx, s.config.Facts.ResourceGroup, pool.Name, armcompute.VirtualMachineScaleSet{
		Location: to.Ptr(s.config.Facts.Location), SKU: &armcompute.SKU{Name: to.Ptr(size), Tier: to.Ptr("Standard"), Capacity: to.Ptr(capacity)},
		Tags: map[string]*string{
			"sigs.k8s.io_cluster-api-provider-azure_role": to.Ptr("node"), "sigs.k8s.io_cluster-api-provider-azure_cluster_" + s.cluster: to.Ptr("owned"),
		},
		Properties: &armcompute.VirtualMachineScaleSetProperties{
			OrchestrationMode: to.Ptr(armcompute.OrchestrationModeUniform), Overprovision: to.Ptr(false), SinglePlacementGroup: to.Ptr(false),
			UpgradePolicy: &armcompute.UpgradePolicy{Mode: to.Ptr(armcompute.UpgradeModeManual)},
			VirtualMachineProfile: &armcompute.VirtualMachineScaleSetVMProfile{
				OSProfile: &armcompute.VirtualMachineScaleSetOSProfile{
					ComputerNamePrefix: to.Ptr(pool.Name), AdminUsername: to.Ptr("capi"), CustomData: to.Ptr(base64.StdEncoding.EncodeToString(pool.Data)),
				},
				StorageProfile: &armcompute.VirtualMachineScaleSetStorageProfile{
					ImageReference: imageReference(template),
					OSDisk: &armcompute.VirtualMachineScaleSetOSDisk{OSType: to.Ptr(armcompute.OperatingSystemTypesLinux),
						CreateOption: to.Ptr(armcompute.DiskCreateOptionTypesFromImage), DiskSizeGB: to.Ptr[int32](30),
						ManagedDisk: &armcompute.VirtualMachineScaleSetManagedDiskParameters{
							StorageAccountType: to.Ptr(armcompute.StorageAccountTypesPremiumLRS)}},
				},
			},
		},
	}, nil)
	return brief(err)
}

// Drop implements capi.ScaleSets.
func (s azureSets) Drop(ctx context.Context, pool capi.Machine, number string) (bool, error) {
	client, err := s.instances()
	if err != nil {
		return false, err
	}
	if _, err := client.Get(ctx, s.config.Facts.ResourceGroup, pool.Name, number, nil); err != nil {
		return missing(err), ignoreMissing(err)
	}
	_, err = client.BeginDelete(ctx, s.config.Facts.ResourceGroup, pool.Name, number, nil)
	return false, ignoreMissing(err)
}
