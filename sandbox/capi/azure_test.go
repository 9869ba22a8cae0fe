package capi_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/azure"
	"github.com/kamino-dev/kamino/internal/cloud/capi"
	"github.com/kamino-dev/kamino/internal/testing/cloudtest"
	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fault"
	simulated "github.com/kamino-dev/kamino/sandbox/fleet"
	simulation "github.com/kamino-dev/kamino/sandbox/region"
)

const (
	azureSubscription = "11111111-2222-3333-4444-555555555555"
	azureGroup        = "home-group"
	azureLocation     = "westeurope"
	ofAzureMachines   = "azure:///subscriptions/" + azureSubscription + "/resourceGroups/" + azureGroup + "/providers/Microsoft.Compute/virtualMachines/"
)

// azureMachines has the template and the MachineDeployment of VMs in a zone. Its name is that of its namespace.
const azureMachines = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: AzureMachineTemplate
metadata: {name: workers-1, namespace: NAMESPACE, labels: {cluster.x-k8s.io/cluster-name: home}}
spec:
  template:
    spec:
      vmSize: Standard_D2s_v5
      failureDomain: "2"
      sshPublicKey: kept
      image: {marketplace: {publisher: Canonical, offer: 0001-com-ubuntu-server-jammy, sku: 22_04-lts-gen2, version: 22.04.202611010}}
      osDisk: {osType: Linux, managedDisk: {storageAccountType: Premium_LRS}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: NAMESPACE, namespace: NAMESPACE}
spec:
  clusterName: home
  replicas: 2
  rollout: {strategy: {type: OnDelete}}
  template:
    spec:
      clusterName: home
      version: v1.37.1
      bootstrap: {dataSecretName: boot}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AzureMachineTemplate, name: workers-1}
`

// azurePoolOfVMs is a MachineDeployment in a simulated Azure of its own, with the real ImageProvider.
type azurePoolOfVMs struct {
	*pool
	cloud *azure.Server
	fleet *nodeFleet
	// config makes ImageProviders, each as a process of its own.
	config provider.Config
}

func newAzurePoolOfVMs(t *testing.T) azurePoolOfVMs {
	t.Helper()
	p := azurePoolOfVMs{pool: newCluster(t, strings.NewReplacer("westeurope", azureLocation, "resourceGroup: g", "resourceGroup: "+azureGroup,
		"subscriptionID: s", "subscriptionID: "+azureSubscription).Replace(azureObjects))}
	p.fleet = &nodeFleet{simulated.NewMemory(), p.client}
	secret, client, tenant := rand.Text(), "c0ffee00-0000-0000-0000-000000000001", "99999999-0000-0000-0000-000000000001"
	p.name = p.namespace
	var err error
	p.cloud, err = azure.New(azure.Config{
		Dir: t.TempDir(), Clock: clock.Clock{Scale: 18000}, Fleet: p.fleet, SubscriptionID: azureSubscription, TenantID: tenant, ResourceGroup: azureGroup,
		Location: azureLocation, ClientID: client, ClientSecret: secret, ZRS: true,
		Latencies: azure.Latencies{Snapshot: 3 * time.Minute, VersionUpdate: -1, Replicate: time.Minute},
		Throttle:  azure.Throttle{ReadBurst: 1e6, WriteBurst: 1e6},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.cloud.Close)
	web := httptest.NewTLSServer(p.cloud.Handler())
	t.Cleanup(web.Close)
	options := azcore.ClientOptions{Transport: web.Client(), Cloud: azcloud.Configuration{ActiveDirectoryAuthorityHost: web.URL + "/",
		Services: map[azcloud.ServiceName]azcloud.ServiceConfiguration{azcloud.ResourceManager: {Endpoint: web.URL, Audience: web.URL}}}}
	credential, err := azidentity.NewClientSecretCredential(tenant, client, secret,
		&azidentity.ClientSecretCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: true})
	if err != nil {
		t.Fatal(err)
	}
	vms, err := armcompute.NewVirtualMachinesClient(azureSubscription, credential, &arm.ClientOptions{ClientOptions: options})
	if err != nil {
		t.Fatal(err)
	}
	p.config = provider.Config{Credential: credential, Cloud: options.Cloud, Transport: options.Transport}
	p.makers.set(p.namespace, simulation.NewAzureMaker(vms, azureGroup, azureLocation))
	p.create(azureMachines)
	p.wait("all machines", p.isComplete)
	return p
}

// provider makes the provider of a process that remembers nothing.
func (p azurePoolOfVMs) provider() cloud.Provider {
	p.t.Helper()
	disks, err := provider.NewDisks(p.t.Context(), p.config)
	if err != nil {
		p.t.Fatal(err)
	}
	recipes, err := capi.New(capi.Config{Management: p.pool.config, Cluster: types.NamespacedName{Namespace: p.namespace, Name: "home"}, Images: disks})
	if err != nil {
		p.t.Fatal(err)
	}
	return cloud.New(cloud.DisksOf(disks), cloud.RecipesOf(recipes))
}

// TestCopyOnAzureMachines runs the cases about workshops and copies on VMs that Cluster API builds in the simulated Azure.
func TestCopyOnAzureMachines(t *testing.T) {
	t.Parallel()
	cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
		if !slices.ContainsFunc([]string{"workshop", "copy", "copies", "copied"}, func(word string) bool { return strings.Contains(t.Name(), word) }) {
			t.Skip("this case is not about captures by copy")
		}
		t.Parallel()
		p := newAzurePoolOfVMs(t)
		return cloudtest.Harness{
			Provider: p.provider(), Pool: p.poolID(), Instances: p.instances(), Missing: ofAzureMachines + "none", FoldsCase: true,
			Advance: func(testing.TB) { time.Sleep(pollInterval) }, Looks: 1200, RoomUnknown: true,
		}
	})
}

var _ = fault.Fault{}
var _ = fmt.Sprint
var _ = http.MethodPut
var _ = json.Marshal
var _ = unstructured.Unstructured{}
