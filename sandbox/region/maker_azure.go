package region

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/capi"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// Cluster API's provider for Azure, CAPZ v1.20 and later, api/v1beta1.

func (a *Azure) capiGroup() schema.GroupVersion {
	return schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}
}

func (a *Azure) capiKind() string { return "Azure" }

func (a *Azure) capiCluster() map[string]any {
	f := a.config.Facts
	return map[string]any{"location": f.Location, "resourceGroup": f.ResourceGroup, "subscriptionID": f.SubscriptionID}
}

// vmSize of the machines.
const vmSize = "Standard_D2s_v5"

var jammy = map[string]any{"publisher": "Canonical", "offer": "0001-com-ubuntu-server-jammy", "sku": "22_04-lts-gen2", "version": "22.04.202611010"}

func (a *Azure) capiMachine() map[string]any {
	return map[string]any{
		"vmSize": vmSize, "image": map[string]any{"marketplace": jammy},
		"osDisk": map[string]any{"osType": "Linux", "diskSizeGB": int64(30), "managedDisk": map[string]any{"storageAccountType": "Premium_LRS"}},
	}
}

func (a *Azure) capiImage(spec map[string]any) string { return imageText(imageReference(spec)) }

// imageReference converts an image in a machine's spec, as CAPZ does.
func imageReference(spec map[string]any) *armcompute.ImageReference {
	value := func(kind, name string) string {
		text, _, _ := unstructured.NestedString(spec, "image", kind, name)
		return text
	}
	if gallery := value("computeGallery", "gallery"); gallery != "" {
		return &armcompute.ImageReference{ID: to.Ptr(
			fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/galleries/%s/images/%s/versions/%s",
				value("computeGallery", "subscriptionID"), value("computeGallery", "resourceGroup"), gallery, value("computeGallery", "name"),
				value("computeGallery", "version")))}
	}
	return &armcompute.ImageReference{
		Publisher: to.Ptr(value("marketplace", "publisher")), Offer: to.Ptr(value("marketplace", "offer")),
		SKU: to.Ptr(value("marketplace", "sku")), Version: to.Ptr(value("marketplace", "version")),
	}
}

func (a *Azure) capiPool(pool.Spec) poolShape {
	return poolShape{
		spec: map[string]any{
			"location": a.config.Facts.Location, "template": a.capiMachine(),
			"strategy": map[string]any{"rollingUpdate": map[string]any{"maxSurge": int64(0), "maxUnavailable": int64(1)}},
		},
		machine: []string{"spec", "template"},
	}
}

func (a *Azure) capiVariable() (path, schema string, generic any) {
	return "/spec/template/spec/image", "{type: object, x-kubernetes-preserve-unknown-fields: true}", map[string]any{"marketplace": jammy}
}

func (a *Azure) capiInstance(providerID string) string {
	return strings.TrimPrefix(providerID, "azure://")
}

func (a *Azure) capiMaker(string) capi.Maker {
	return azureMaker{a.config.Facts.ResourceGroup, a.config.Facts.Location, a.virtualMachines}
}

type azureMaker struct {
	group, location string
	client          func() (*armcompute.VirtualMachinesClient, error)
}

// NewAzureMaker makes a Maker of VMs in a resource group.
func NewAzureMaker(vms *armcompute.VirtualMachinesClient, group, location string) capi.Maker {
	return azureMaker{group, location, func() (*armcompute.VirtualMachinesClient, error) { return vms, nil }}
}

// Ensure implements capi.Maker: a VM of the object's name.
func (c azureMaker) Ensure(ctx context.Context, m capi.Machine) (id string, state capi.MachineState, err error) {
	client, err := c.client()
	if err != nil {
		return "", "", err
	}
	got, err := client.Get(ctx, c.group, m.Name,
		&armcompute.VirtualMachinesClientGetOptions{Expand: to.Ptr(armcompute.InstanceViewTypesInstanceView)})
	if missing(err) {
		return "", "", c.begin(ctx, client, m)
	}
	if err != nil {
		return "", "", brief(err)
	}
	state = capi.Pending
	if view := got.Properties.InstanceView; view != nil && hasPower(view.Statuses) {
		state = capi.Running
	}
	return "azure://" + *got.ID, state, nil
}

// hasPower: a status says that the machine runs.
func hasPower(statuses []*armcompute.InstanceViewStatus) bool {
	return slices.ContainsFunc(statuses, func(s *armcompute.InstanceViewStatus) bool { return s.Code != nil && *s.Code == "PowerState/running" })
}

func (c azureMaker) begin(ctx context.Context, client *armcompute.VirtualMachinesClient, m capi.Machine) error {
	size, _, _ := unstructured.NestedString(m.Spec, "vmSize")
	vm := armcompute.VirtualMachine{
		Location: to.Ptr(c.location), Tags: map[string]*string{"sigs.k8s.io_cluster-api-provider-azure_role": to.Ptr("node")},
		Properties: &armcompute.VirtualMachineProperties{
			HardwareProfile: &armcompute.HardwareProfile{VMSize: to.Ptr(armcompute.VirtualMachineSizeTypes(size))},
			OSProfile: &armcompute.OSProfile{
				ComputerName: to.Ptr(m.Name), AdminUsername: to.Ptr("capi"), CustomData: to.Ptr(base64.StdEncoding.EncodeToString(m.Data)),
			},
			StorageProfile: &armcompute.StorageProfile{
				ImageReference: imageReference(m.Spec),
				OSDisk: &armcompute.OSDisk{OSType: to.Ptr(armcompute.OperatingSystemTypesLinux),
					CreateOption: to.Ptr(armcompute.DiskCreateOptionTypesFromImage), DiskSizeGB: to.Ptr[int32](30),
					ManagedDisk: &armcompute.ManagedDiskParameters{StorageAccountType: to.Ptr(armcompute.StorageAccountTypesPremiumLRS)}},
			},
		},
	}
	tags, _, _ := unstructured.NestedStringMap(m.Spec, "additionalTags")
	for name, value := range tags {
		vm.Tags[name] = to.Ptr(value)
	}
	if zone, _, _ := unstructured.NestedString(m.Spec, "failureDomain"); zone != "" {
		vm.Zones = []*string{to.Ptr(zone)}
	}
	if of := m.Labels["cluster.x-k8s.io/deployment-name"]; of != "" { // a standalone Machine has no such label
		vm.Tags[azure.PoolTag] = to.Ptr(of)
	}
	_, err := client.BeginCreateOrUpdate(ctx, c.group, m.Name, vm, nil)
	return brief(err)
}

// Remove implements capi.Maker.
func (c azureMaker) Remove(ctx context.Context, m capi.Machine) (bool, error) {
	client, err := c.client()
	if err != nil {
		return false, err
	}
	if _, err := client.Get(ctx, c.group, m.Name, nil); err != nil {
		return missing(err), ignoreMissing(err)
	}
	_, err = client.BeginDelete(ctx, c.group, m.Name, nil)
	return false, ignoreMissing(err)
}

func ignoreMissing(err error) error {
	if missing(err) {
		return nil
	}
	return brief(err)
}
