package azure

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const testCapture = "pool1-2026.11.21"

func TestSnapshotStates(t *testing.T) {
	for _, test := range []struct {
		properties string
		state      cloud.State
		says       string
	}{
		{`{"provisioningState": "Succeeded"}`, cloud.Complete, ""},
		{`{"provisioningState": "Succeeded", "completionPercent": 100}`, cloud.Complete, ""},
		{`{"provisioningState": "Succeeded", "completionPercent": 40.5}`, cloud.Pending, ""},
		{`{"provisioningState": "Creating"}`, cloud.Pending, ""},
		{`{"provisioningState": "Deleting"}`, cloud.Deleting, ""},
		{`{"provisioningState": "Succeeded", "copyCompletionError": {"errorCode": "CopySourceNotFound", "errorMessage": "the source is gone"}}`, cloud.Failed, "CopySourceNotFound: the source is gone"},
		{`{"provisioningState": "Failed"}`, cloud.Failed, "Azure gave no reason: see the activity log of the snapshot"},
	} {
		a := newARM(t)
		a.snapshot(test.properties)
		got, err := a.provider().Snapshot(t.Context(), testInstance, testCapture)
		if err != nil || got.State != test.state || got.Error != test.says || got.Name != testCapture || got.ID != testSnapshotID {
			t.Errorf("%s: %+v, %v", test.properties, got, err)
		}
	}
}

func TestEnsureSnapshot(t *testing.T) {
	a := newARM(t)
	a.vm("")
	p := a.provider()
	absent, err := p.Snapshot(t.Context(), testInstance, testCapture)
	if err != nil || absent.State != cloud.Absent || absent.ID != "" {
		t.Errorf("absent: %+v, %v", absent, err)
	}
	spec := cloud.SnapshotSpec{Name: testCapture, Instance: testInstance, Tags: map[string]string{cloud.TagBuiltFrom: "node-0"}}
	made, err := p.EnsureSnapshot(t.Context(), spec)
	if err != nil || made.State != cloud.Pending || made.Tags[cloud.TagBuiltFrom] != "node-0" {
		t.Fatalf("made: %+v, %v", made, err)
	}
	sent := a.last("PUT", "/snapshots/snapshot_pool1-2026.11.21")
	want := object(t, `{"location": "westus2", "sku": {"name": "Standard_LRS"}, "tags": {"BuiltFrom": "node-0"},
		"properties": {"incremental": true, "creationData": {"createOption": "Copy", "sourceResourceId": "`+testScope+`/providers/Microsoft.Compute/disks/disk0"}},
		"id": "`+sent.Path+`", "name": "snapshot_pool1-2026.11.21"}`)
	if diff := cmp.Diff(want, sent.Body); diff != "" {
		t.Error(diff)
	}
	a.snapshot(`{"provisioningState": "Failed"}`)
	again, err := p.EnsureSnapshot(t.Context(), spec)
	if err != nil || again.State != cloud.Failed {
		t.Errorf("a failed one: %+v, %v", again, err)
	}
	for range 2 {
		if err := p.DeleteSnapshot(t.Context(), testInstance, testCapture); err != nil {
			t.Error(err)
		}
	}
	a.next("DELETE", testSnapshotID, armError(404, "ResourceNotFound", "gone"))
	if err := p.DeleteSnapshot(t.Context(), testInstance, testCapture); err != nil {
		t.Errorf("deleting nothing: %v", err)
	}
	want2 := []string{"PUT snapshots/snapshot_pool1-2026.11.21", "DELETE snapshots/snapshot_pool1-2026.11.21"}
	if got := a.made(); !slices.Equal(slices.Compact(got), want2) {
		t.Errorf("sent %v", got)
	}
}

func TestEnsureSnapshotWithoutDisk(t *testing.T) {
	a := newARM(t)
	a.vm(`{"properties": {"storageProfile": {"osDisk": {"managedDisk": null}}}}`)
	_, err := a.provider().EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: testCapture, Instance: testInstance})
	wantKind(t, err, cloud.Unsupported)
}

func TestFailedSnapshotReason(t *testing.T) {
	const status = "/subscriptions/" + testSubscription + "/providers/Microsoft.Compute/locations/westus2/operations/1"
	a := newARM(t)
	a.vm("")
	a.next("PUT", testSnapshotID, answer{status: 202, header: map[string][]string{"Azure-Asyncoperation": {"https://management.azure.com" + status}},
		body: object(t, `{"properties": {"provisioningState": "Creating"}}`)})
	p := a.provider()
	if _, err := p.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: testCapture, Instance: testInstance}); err != nil {
		t.Fatal(err)
	}
	a.snapshot(`{"provisioningState": "Failed"}`)
	a.documents[fold(status)] = object(t, `{"status": "Failed", "error": {"code": "InternalDiskError", "message": "the disk could not be read"}}`)
	got, err := p.Snapshot(t.Context(), testInstance, testCapture)
	if err != nil || got.State != cloud.Failed || got.Error != "InternalDiskError: the disk could not be read" {
		t.Errorf("%+v, %v", got, err)
	}
}
