package capi_test

import (
	"crypto/rand"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
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
	"github.com/kamino-dev/kamino/sandbox/requestlog"
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
	vms   *armcompute.VirtualMachinesClient
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
	p.vms, err = armcompute.NewVirtualMachinesClient(azureSubscription, credential, &arm.ClientOptions{ClientOptions: options})
	if err != nil {
		t.Fatal(err)
	}
	p.config = provider.Config{Credential: credential, Cloud: options.Cloud, Transport: options.Transport}
	p.makers.set(p.namespace, simulation.NewAzureMaker(p.vms, azureGroup, azureLocation))
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

// TestCopyOnAzureMachineWithLostAnswers: each call is by a process that remembers nothing, and Azure's answer to the first write of each kind
// is lost. There is one workshop, of the size in its spec, with one copy in its zone, and the pool is as it was at the end.
func TestCopyOnAzureMachineWithLostAnswers(t *testing.T) {
	t.Parallel()
	p := newAzurePoolOfVMs(t)
	donor, before, started := p.instances()[0], p.state(), time.Now()
	for _, write := range [][2]string{{"snapshot", "put"}, {"disk", "put"}, {"vm", "attachDetach"}, {"disk", "delete"}} {
		if _, err := p.cloud.AddFault(fault.Fault{Resource: write[0], Operation: write[1], Phase: fault.After, Drop: true, Count: 1}); err != nil {
			t.Fatal(err)
		}
	}
	until := func(what string, done func(cloud.Provider) (bool, error)) {
		t.Helper()
		p.wait(what, func() bool {
			is, err := done(p.provider())
			if err != nil && !cloud.Is(err, cloud.Unavailable) {
				t.Fatal(err)
			}
			return err == nil && is
		})
	}
	tags := map[string]string{cloud.TagUID: "u", cloud.TagOrder: "o", cloud.TagEndsAt: "2026-01-09T05:05:06Z"}
	spec := cloud.WorkshopSpec{Pool: p.poolID(), Name: "it", InstanceType: "Standard_D8s_v5", Tags: tags}
	var workshop cloud.Trial
	until("workshop", func(c cloud.Provider) (_ bool, err error) {
		workshop, err = c.EnsureWorkshop(t.Context(), spec)
		return workshop.State == cloud.Complete, err
	})
	copied := cloud.CopySpec{Name: "it", Instance: workshop.Instances[0].ID, Tags: tags}
	until("snapshot", func(c cloud.Provider) (bool, error) {
		have, err := c.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: "raw", Instance: donor, InUse: true, Tags: tags})
		copied.SnapshotID = have.ID
		return have.State == cloud.Complete, err
	})
	until("attached copy", func(c cloud.Provider) (bool, error) {
		have, err := c.EnsureAttached(t.Context(), copied)
		return have.State == cloud.Complete && have.IsAttached, err
	})
	vm, err := p.vms.Get(t.Context(), azureGroup, path.Base(string(copied.Instance)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if disks := vm.Properties.StorageProfile.DataDisks; *vm.Properties.HardwareProfile.VMSize != "Standard_D8s_v5" || *vm.Tags[cloud.TagWorkshop] != "it" ||
		*vm.Zones[0] != "2" || len(disks) != 1 || *disks[0].DeleteOption != armcompute.DiskDeleteOptionTypesDetach {
		t.Errorf("the workshop is %+v with the tags %v in zone %v and %d data disks", vm.Properties.HardwareProfile, vm.Tags, *vm.Zones[0], len(disks))
	}
	until("end of the copy", func(c cloud.Provider) (bool, error) {
		state, err := c.EndCopy(t.Context(), copied)
		return state == cloud.Absent, err
	})
	until("end of the workshop", func(c cloud.Provider) (bool, error) {
		state, err := c.EndWorkshop(t.Context(), spec)
		return state == cloud.Absent, err
	})
	p.wait("pool as it was", func() bool { return p.state() == before })
	writes := map[string]int{}
	for _, r := range p.cloud.Requests() {
		if r.Class == requestlog.Write && r.Time.After(started) && r.Status < 300 {
			writes[r.Noun+" "+r.Operation]++
		}
	}
	if left := p.cloud.Faults(); len(left) > 0 || writes["vm attachDetach"] != 2 || writes["vm put"] != 1 {
		t.Errorf("too few answers were lost, or Kamino repeated a write: %+v, %v", left, writes)
	}
	if all, err := p.provider().Copies(t.Context(), p.poolID()); err != nil || len(all) > 0 {
		t.Errorf("left are %+v, %v", all, err)
	}
}
