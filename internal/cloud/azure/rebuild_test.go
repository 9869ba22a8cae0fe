package azure

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// reference is an image reference to a version of the pool's own.
func reference(version string) string {
	return `{"id": "` + testDefinition + `/versions/` + version + `", "publisher": null, "offer": null, "sku": null, "version": null}`
}

// TestEnsureRebuilt: each state of an instance leads to at most one request.
func TestEnsureRebuilt(t *testing.T) {
	const (
		update  = "POST virtualMachineScaleSets/pool1/manualupgrade"
		reimage = "POST virtualMachineScaleSets/pool1/virtualMachines/0/reimage"
		start   = "POST virtualMachineScaleSets/pool1/virtualMachines/0/start"
		old     = "2026.11.1"
	)
	newModel := `{"properties": {"storageProfile": {"imageReference": ` + reference(testVersion) + `}}}`
	for _, test := range []struct {
		name, vm, disk string
		want           cloud.State
		sent           []string
	}{
		{"the model is old", `{"properties": {"latestModelApplied": false}}`, "", cloud.Pending, []string{update}},
		{"Azure works on it", `{"properties": {"provisioningState": "Updating", "latestModelApplied": false}}`, "", cloud.Pending, nil},
		{"only the disk is old", newModel, `{"creationData": {"createOption": "FromImage", "imageReference": {"id": "` + testDefinition +
			`/versions/` + old + `"}}}`, cloud.Pending, []string{reimage}},
		{"the disk is of the marketplace", newModel, `{"creationData": {"imageReference": {"id": "/Subscriptions/s/Providers/Microsoft.Compute/Locations/westus2/Publishers/Canonical"}}}`, cloud.Pending, []string{reimage}},
		{"the disk is new", newModel, `{"creationData": {"createOption": "FromImage", "galleryImageReference": {"id": "` + testDefinition +
			`/versions/` + testVersion + `"}}}`, cloud.Complete, nil},
		{"the disk shows no image", newModel, `{}`, cloud.Complete, nil},
		{"it is off afterwards", `{"properties": {"storageProfile": {"imageReference": ` + reference(testVersion) +
			`}, "instanceView": {"statuses": [{"code": "PowerState/stopped"}]}}}`, `{}`, cloud.Pending, []string{start}},
		{"it starts", `{"properties": {"storageProfile": {"imageReference": ` + reference(testVersion) +
			`}, "instanceView": {"statuses": [{"code": "PowerState/starting"}]}}}`, `{}`, cloud.Pending, nil},
		{"the last attempt failed", `{"properties": {"provisioningState": "Failed"}}`, "", cloud.Pending, []string{update}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newARM(t)
			a.pool(`{"properties": {"virtualMachineProfile": {"storageProfile": {"imageReference": ` + reference(testVersion) + `}}}}`)
			a.vm(test.vm)
			if test.disk != "" {
				a.has(testScope+"/providers/Microsoft.Compute/disks/disk0", `{"location": "westus2", "properties": `+test.disk+`}`)
			}
			got, err := a.provider().EnsureRebuilt(t.Context(), testInstance, testVersion)
			if err != nil || got.State != test.want {
				t.Errorf("got %+v, %v, want %s", got, err, test.want)
			}
			if diff := cmp.Diff(test.sent, a.made()); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnsureRebuiltFromOtherVersion(t *testing.T) {
	a := newARM(t)
	a.pool("")
	a.vm("")
	_, err := a.provider().EnsureRebuilt(t.Context(), testInstance, testVersion)
	wantKind(t, err, cloud.Conflict)
	if sent := a.made(); sent != nil {
		t.Errorf("sent %v", sent)
	}
	_, err = a.provider().EnsureRebuilt(t.Context(), testInstance, "latest")
	wantKind(t, err, cloud.Invalid)
}
