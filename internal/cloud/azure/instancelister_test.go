package azure

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestInstances: one request lists the instances without instance views. Each instance shows the version of its own
// image, not the version of the recipe.
func TestInstances(t *testing.T) {
	a := newARM(t)
	a.has(string(testPool)+"/virtualMachines", `{"value": [
		{"instanceId": "0", "properties": {"protectionPolicy": {"protectFromScaleIn": true}, "storageProfile": {
			"imageReference": {"id": "`+testDefinition+`", "exactVersion": "2026.11.3"}, "osDisk": {"osType": "Linux", "managedDisk": {"id": "d"}}}}},
		{"instanceId": "1", "properties": {"storageProfile": {
			"imageReference": {"publisher": "Canonical", "version": "latest", "exactVersion": "24.04.1"}, "osDisk": {"osType": "Linux", "managedDisk": {"id": "d"}}}}}
	]}`)
	got, err := a.provider().Instances(t.Context(), testPool)
	if err != nil {
		t.Fatal(err)
	}
	want := []cloud.Instance{
		{ID: providerPrefix + cloud.InstanceID(testPool) + "/virtualMachines/0", Pool: testPool, Image: testDefinition, BuiltFrom: "2026.11.3", Disk: "d"},
		{ID: providerPrefix + cloud.InstanceID(testPool) + "/virtualMachines/1", Pool: testPool, Image: "Canonical:::latest", Disk: "d"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	if len(a.calls) != 1 || a.calls[0].Query["$expand"] != nil {
		t.Errorf("requests %+v", a.calls)
	}
}
