package azure

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

func TestPool(t *testing.T) {
	a := newARM(t)
	a.pool(`{"tags": {"max": "200"}}`)
	got, err := a.provider().Pool(t.Context(), testPool)
	if err != nil {
		t.Fatal(err)
	}
	want := cloud.Pool{
		ID: testPool, Name: "pool1", Location: "westus2", Capacity: 3, MaxSize: 200, RootDisks: []string{"hv_storvsc"},
		Traits: map[string]string{"securityType": "Standard", "vmSize": "Standard_D2s_v5"},
		Family: cloud.ImageFamily{Place: testScope, Name: "pool1"},
		Recipe: cloud.Recipe{Image: "Canonical:ubuntu-24_04-lts:server:latest", Bootstrap: []string{"extension vmssCSE"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(a.calls) != 1 {
		t.Errorf("%d requests for one pool", len(a.calls))
	}
}

func TestPoolRefusals(t *testing.T) {
	for _, test := range []struct {
		reason, changes, says string
	}{
		{cloud.NodesWouldBeReplaced, `{"properties": {"upgradePolicy": {"mode": "Automatic"}}}`, "set upgradePolicy.mode to Manual"},
		{cloud.NodesWouldBeReplaced, `{"properties": {"upgradePolicy": {"mode": "Rolling"}}}`, "batch by batch"},
		{cloud.NodesWouldBeReplaced, `{"properties": {"upgradePolicy": {"automaticOSUpgradePolicy": {"enableAutomaticOSUpgrade": true}}}}`,
			"enableAutomaticOSUpgrade to false"},
		{cloud.PoolUnsupported, `{"properties": {"orchestrationMode": "Flexible"}}`, "only Uniform"},
		{cloud.ManagedElsewhere, `{"tags": {"aks-managed-poolName": "np1"}}`, "AKS owns the model"},
		{cloud.ManagedElsewhere, `{"tags": {"sigs.k8s.io_cluster-api-provider-azure_cluster_c1": "owned"}}`, "machine pool of Cluster API"},
		{cloud.DiskUnsupported, `{"properties": {"virtualMachineProfile": {"securityProfile": {"securityType": "ConfidentialVM"}}}}`, "bound to a single VM"},
		{cloud.DiskUnsupported, `{"properties": {"virtualMachineProfile": {"storageProfile": {"osDisk": {"diffDiskSettings": {"option": "Local"}}}}}}`,
			"ephemeral OS disk"},
		{cloud.SystemUnsupported, `{"properties": {"virtualMachineProfile": {"storageProfile": {"osDisk": {"osType": "Windows"}}}}}`, "only Linux"},
		{galleryUnsuitable, `{"properties": {"virtualMachineProfile": {"storageProfile": {"osDisk": {"managedDisk": {"diskEncryptionSet":
			{"id": "/subscriptions/other/resourceGroups/r/providers/Microsoft.Compute/diskEncryptionSets/d"}}}}}}}`, "subscription other"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			a := newARM(t)
			a.pool(test.changes)
			got, err := a.provider().Pool(t.Context(), testPool)
			if err != nil {
				t.Fatal(err)
			}
			if want := []string{test.reason}; !slices.Equal(reasons(got.Refusals), want) {
				t.Fatalf("refusals %v, want %v", got.Refusals, want)
			}
			if message := got.Refusals[0].Message; !strings.Contains(message, test.says) || !strings.Contains(message, "pool1") {
				t.Errorf("message %q", message)
			}
		})
	}
}

func TestAKSResourceGroup(t *testing.T) {
	for group, want := range map[string]bool{"mc_group_cluster_westus2": true, "mc_donalds": false, "rg1": false} {
		if got := isAKS(scaleSet{group: group}, model(t, newARM(t))); got != want {
			t.Errorf("%s: %v", group, got)
		}
	}
}

func TestRecipeVersions(t *testing.T) {
	version := func(name, state, profile string) any {
		return object(t, `{"name": "`+name+`", "id": "`+testDefinition+`/versions/`+name+`", "location": "westus2",
			"properties": {"provisioningState": "`+state+`", "publishingProfile": `+profile+`}}`)
	}
	here := `{"targetRegions": [{"name": "West US 2"}]}`
	for _, test := range []struct {
		name, image string
		want        cloud.Recipe
	}{
		{"pinned", testDefinition + "/versions/2026.11.3",
			cloud.Recipe{Short: "SIG_rg1/images/kamino-pool1-prototype/versions/2026.11.3", Version: "2026.11.3"}},
		{"latest", testDefinition, cloud.Recipe{Short: "SIG_rg1/images/kamino-pool1-prototype", Version: "2026.11.3", Latest: true}},
		{"foreign", testScope + "/providers/Microsoft.Compute/images/mine", cloud.Recipe{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newARM(t)
			a.pool(`{"properties": {"virtualMachineProfile": {"extensionProfile": null, "storageProfile": {"imageReference": null}}}}`)
			a.pool(`{"properties": {"virtualMachineProfile": {"extensionProfile": null, "storageProfile": {"imageReference":
				{"id": "` + test.image + `", "publisher": null, "offer": null, "sku": null, "version": null}}}}}`)
			a.lists[fold(testDefinition+"/versions")] = []any{
				version("2026.11.21", "Succeeded", `{"excludeFromLatest": true}`),
				version("2026.11.3", "Succeeded", here),
				version("2026.12.1", "Creating", here),
				version("2026.11.9", "Succeeded", `{"targetRegions": [{"name": "East US"}]}`),
				version("2026.2.28", "Succeeded", here),
			}
			got, err := a.provider().Pool(t.Context(), testPool)
			if err != nil {
				t.Fatal(err)
			}
			test.want.Image = test.image
			if diff := cmp.Diff(test.want, got.Recipe); diff != "" {
				t.Error(diff)
			}
		})
	}
}
