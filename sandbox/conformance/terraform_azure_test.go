package conformance

import (
	"context"
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azure "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/history"
)

// azureConfiguration is a scale set in Terraform.
type azureConfiguration struct {
	image armcompute.ImageReference
	// ignoresImage: the scale set has ignore_changes = [source_image_id, source_image_reference].
	ignoresImage bool
	// rolls is roll_instances_when_required, which is true by default.
	rolls bool
}

// GetToken implements azcore.TokenCredential with the token of a foreign client.
func (w *cloudEnv) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: w.token()}, nil
}

// apply sends the requests of `terraform apply`, and reports whether the model changed. azurerm rolls all instances, also
// those with the latest model. Source: terraform-provider-azurerm, virtual_machine_scale_set_update.go.
func (w *cloudEnv) apply(c azureConfiguration) bool {
	w.t.Helper()
	factory, err := armcompute.NewClientFactory(subscription, w, &arm.ClientOptions{ClientOptions: policy.ClientOptions{Transport: w.web.Client(),
		Cloud: azure.Configuration{Services: map[azure.ServiceName]azure.ServiceConfiguration{azure.ResourceManager: {Endpoint: w.web.URL,
			Audience: w.audience}}}}})
	w.must(err)
	sets, ctx := factory.NewVirtualMachineScaleSetsClient(), w.t.Context()
	have, err := sets.Get(ctx, group, poolName, nil)
	w.must(err)
	state := have.Properties.VirtualMachineProfile.StorageProfile.ImageReference
	if c.ignoresImage || state.ID == nil && *state.SKU == *c.image.SKU && *state.Version == *c.image.Version {
		return false
	}
	updating, err := sets.BeginUpdate(ctx, group, poolName,
		armcompute.VirtualMachineScaleSetUpdate{Properties: &armcompute.VirtualMachineScaleSetUpdateProperties{
			VirtualMachineProfile: &armcompute.VirtualMachineScaleSetUpdateVMProfile{StorageProfile: &armcompute.VirtualMachineScaleSetUpdateStorageProfile{
				ImageReference: &armcompute.ImageReference{ID: azcore.NullValue[*string](), Publisher: c.image.Publisher, Offer: c.image.Offer,
					SKU: c.image.SKU, Version: c.image.Version}}}}}, nil)
	w.must(err)
	finish(w, updating)
	if !c.rolls {
		return true
	}
	for pages := factory.NewVirtualMachineScaleSetVMsClient().NewListPager(group, poolName, nil); pages.More(); {
		page, err := pages.NextPage(ctx)
		w.must(err)
		for _, vm := range page.Value {
			one := []*string{vm.InstanceID}
			upgrading, err := sets.BeginUpdateInstances(ctx, group, poolName, armcompute.VirtualMachineScaleSetVMInstanceRequiredIDs{InstanceIDs: one}, nil)
			w.must(err)
			finish(w, upgrading)
			reimaging, err := sets.BeginReimage(ctx, group, poolName, &armcompute.VirtualMachineScaleSetsClientBeginReimageOptions{
				VMScaleSetReimageInput: &armcompute.VirtualMachineScaleSetReimageParameters{InstanceIDs: one}})
			w.must(err)
			finish(w, reimaging)
		}
	}
	return true
}

// finish polls an operation to its end.
func finish[T any](w *cloudEnv, poller *runtime.Poller[T]) {
	w.t.Helper()
	w.until("finished", func() bool {
		if !poller.Done() {
			_, err := poller.Poll(w.t.Context())
			w.must(err)
		}
		return poller.Done()
	})
	_, err := poller.Result(w.t.Context())
	w.must(err)
}

// TestTerraformOnAzure applies three configurations after a promotion and a growth by one. A node of the new version is
// reimaged by the default configuration alone. docs/tasks/infrastructure-as-code.md has the last configuration.
func TestTerraformOnAzure(t *testing.T) {
	for name, test := range map[string]struct {
		ignoresImage, rolls bool
		// changes: the apply changes the model. nodes is the number of nodes of the version afterwards.
		changes bool
		nodes   int
		use     history.Use
	}{
		"the defaults of azurerm":         {false, true, true, 0, history.Older},
		"without rolls":                   {false, false, true, 1, history.Older},
		"an ignored image, as documented": {true, true, false, 1, history.Current},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCloudEnv(t, options{})
			w.change(http.MethodPatch, scaleSetPath, map[string]any{"tags": map[string]any{"managed-by": "terraform"}})
			w.settled()
			if !isTerraformWarned(t, w.p, w.pool) {
				t.Error("Kamino does not warn of Terraform")
			}
			image := w.document(
				scaleSetPath)["properties"].(map[string]any)["virtualMachineProfile"].(map[string]any)["storageProfile"].(map[string]any)["imageReference"].(map[string]any)
			text := func(key string) *string { return to.Ptr(image[key].(string)) }
			config := azureConfiguration{armcompute.ImageReference{Publisher: text("publisher"), Offer: text("offer"), SKU: text("sku"),
				Version: text("version")}, test.ignoresImage, test.rolls}
			w.publish(w.snapshot())
			promotion, err := w.p.RecipeChange(t.Context(), w.ref(), false)
			w.must(err)
			w.must(w.p.SetRecipe(t.Context(), promotion))
			w.scale(3)
			w.until("grown", func() bool { return len(w.list()) == 3 })
			w.settled()
			if h := historyOf(t, w.p, w.pool); h.Versions[0].Use != history.Current || len(h.Versions[0].Nodes) != 1 {
				t.Fatalf("before the apply, the history shows use %s and nodes %v", h.Versions[0].Use, h.Versions[0].Nodes)
			}
			if changes := w.apply(config); changes != test.changes {
				t.Errorf("the apply changes the model: %t", changes)
			}
			if h := historyOf(t, w.p, w.pool); h.Versions[0].Use != test.use || len(h.Versions[0].Nodes) != test.nodes {
				t.Errorf("after the apply, the history shows use %s and nodes %v", h.Versions[0].Use, h.Versions[0].Nodes)
			}
		})
	}
}
