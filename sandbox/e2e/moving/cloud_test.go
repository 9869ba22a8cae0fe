package moving

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

// cloud is the sandbox's cloud as the Python original reaches the cloud, with the original's names.
type cloud struct {
	factory              *armcompute.ClientFactory
	group, location, set string
	gallery, image       string
	// donor is the node in the tags of the versions.
	donor string
	// definition is the image's ID, set after its creation.
	definition string
}

func connect(t *testing.T, set string) *cloud {
	t.Helper()
	facts := sandbox.Facts()
	pem, err := os.ReadFile(filepath.Join(sandbox.Dir(), sandboxdir.CAFile))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	url := ""
	for _, v := range sandbox.Environment() {
		if v.Name == "AZURE_AUTHORITY_HOST" {
			url = strings.TrimSuffix(v.Value, "/")
		}
	}
	options := azcore.ClientOptions{
		Cloud: azcloud.Configuration{
			ActiveDirectoryAuthorityHost: url + "/",
			Services:                     map[azcloud.ServiceName]azcloud.ServiceConfiguration{azcloud.ResourceManager: {Endpoint: url, Audience: url + "/"}},
		},
		Transport: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}},
	}
	credential, err := azidentity.NewClientSecretCredential(facts.TenantID, facts.ClientID, facts.ClientSecret,
		&azidentity.ClientSecretCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: true})
	if err != nil {
		t.Fatal(err)
	}
	factory, err := armcompute.NewClientFactory(facts.SubscriptionID, credential, &arm.ClientOptions{ClientOptions: options})
	if err != nil {
		t.Fatal(err)
	}
	return &cloud{
		factory: factory, group: facts.ResourceGroup, location: facts.Location, set: set, donor: sandbox.MachinesOf(t, "moved")[0].Node,
		gallery: "SIG_" + strings.ReplaceAll(facts.ResourceGroup, "-", "_"), image: "kamino-" + set + "-prototype",
	}
}

// done waits for a long operation.
func done[T any](t *testing.T, poller *runtime.Poller[T], err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	result, err := poller.PollUntilDone(t.Context(), &runtime.PollUntilDoneOptions{Frequency: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func (c *cloud) scaleSet(t *testing.T) armcompute.VirtualMachineScaleSet {
	t.Helper()
	answer, err := c.factory.NewVirtualMachineScaleSetsClient().Get(t.Context(), c.group, c.set, nil)
	if err != nil {
		t.Fatal(err)
	}
	return answer.VirtualMachineScaleSet
}

// firstDisk is the OS disk of the pool's first instance.
func (c *cloud) firstDisk(t *testing.T) string {
	t.Helper()
	page, err := c.factory.NewVirtualMachineScaleSetVMsClient().NewListPager(c.group, c.set, nil).NextPage(t.Context())
	if err != nil || len(page.Value) == 0 {
		t.Fatalf("instances of %s: %v", c.set, err)
	}
	return *page.Value[0].Properties.StorageProfile.OSDisk.ManagedDisk.ID
}

// recipe returns the original's change of the model: the image is the definition, which means its latest version,
// customData is empty, and only the billing extension stays.
func (c *cloud) recipe(t *testing.T) armcompute.VirtualMachineScaleSetUpdate {
	t.Helper()
	var kept []*armcompute.VirtualMachineScaleSetExtension
	for _, e := range c.scaleSet(t).Properties.VirtualMachineProfile.ExtensionProfile.Extensions {
		if strings.Contains(*e.Name, "AKSLinuxBilling") {
			kept = append(kept, e)
		}
	}
	return armcompute.VirtualMachineScaleSetUpdate{Properties: &armcompute.VirtualMachineScaleSetUpdateProperties{
		VirtualMachineProfile: &armcompute.VirtualMachineScaleSetUpdateVMProfile{
			StorageProfile: &armcompute.VirtualMachineScaleSetUpdateStorageProfile{ImageReference: &armcompute.ImageReference{
				ID: to.Ptr(c.definition), Publisher: azcore.NullValue[*string](), Offer: azcore.NullValue[*string](),
				SKU: azcore.NullValue[*string](), Version: azcore.NullValue[*string](),
			}},
			OSProfile: &armcompute.VirtualMachineScaleSetUpdateOSProfile{CustomData: to.Ptr(
				base64.StdEncoding.EncodeToString([]byte("#cloud-config\n")))},
			ExtensionProfile: &armcompute.VirtualMachineScaleSetExtensionProfile{Extensions: kept},
		},
	}}
}

// published returns the IDs of existing versions.
func (c *cloud) published(t *testing.T) []string {
	t.Helper()
	var ids []string
	for pager := c.factory.NewGalleryImageVersionsClient().NewListByGalleryImagePager(c.group, c.gallery, c.image, nil); pager.More(); {
		page, err := pager.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Value {
			ids = append(ids, *v.ID)
		}
	}
	return ids
}
