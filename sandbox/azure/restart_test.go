package azure

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// TestRestartContinuesOperations closes a server during four kinds of operations that never end. A second server on
// the same directory completes the operations at once.
func TestRestartContinuesOperations(t *testing.T) {
	f := fleet.NewMemory()
	config := testConfig(t, f)
	first := openCloud(t, config, f)
	first.pool(t, 2, nil)
	first.ensureDefinition(t)
	ready := first.snapshot(t, "ready", 0)
	first.web.Close()
	first.Close()

	slow := config
	slow.Clock = clock.Clock{Scale: 1}
	second := openCloud(t, slow, f)
	disk := *second.instances(t)[0].Properties.StorageProfile.OSDisk.ManagedDisk.ID
	_, err := second.factory.NewSnapshotsClient().BeginCreateOrUpdate(t.Context(), testGroup, "flying", snapshotOf(disk), nil)
	if err != nil {
		t.Fatal(err)
	}
	version, err := second.factory.NewGalleryImageVersionsClient().BeginCreateOrUpdate(t.Context(), testGroup, testGallery, testDefinition, testVersion,
		versionOf(ready, armcompute.StorageAccountTypeStandardLRS), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.factory.NewVirtualMachineScaleSetVMsClient().BeginPowerOff(t.Context(), testGroup, testPool, "1", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := second.factory.NewVirtualMachineScaleSetsClient().BeginUpdate(t.Context(), testGroup, testPool, capacityOf(3), nil); err != nil {
		t.Fatal(err)
	}
	second.order(t, fault.Fault{Name: "kept", Resource: "disk", Status: 500})
	if version.Done() {
		t.Fatal("a version that takes half an hour is done at once")
	}
	second.web.Close()
	second.Close()

	third := openCloud(t, config, f)
	token := third.token(t)
	for _, id := range third.inFlight() {
		third.await(t, token, "/subscriptions/"+testSubscription+"/providers/Microsoft.Compute/locations/westus2/operations/"+id+"?api-version=1")
	}
	if got := third.power(t, "1"); got != "stopped" {
		t.Errorf("power is %q, want stopped", got)
	}
	if got := third.instances(t); len(got) != 3 || f.Machine(*got[2].ID).Boots != 1 {
		t.Errorf("there are %d instances, want the third one launched once", len(got))
	}
	made, err := third.factory.NewGalleryImageVersionsClient().Get(t.Context(), testGroup, testGallery, testDefinition, testVersion,
		&armcompute.GalleryImageVersionsClientGetOptions{Expand: to.Ptr(armcompute.ReplicationStatusTypesReplicationStatus)})
	if err != nil || *made.Properties.ProvisioningState != armcompute.GalleryProvisioningStateSucceeded || !f.HasDisk(diskOf(*made.ID)) {
		t.Errorf("the version is not there: %v", err)
	}
	if got := third.Faults(); len(got) != 1 || got[0].Name != "kept" {
		t.Errorf("faults are %v", got)
	}
}

// inFlight lists the operations that have not ended.
func (c *testCloud) inFlight() []string {
	var out []string
	c.world.store.Read(func(st *state) {
		for _, op := range st.Operations {
			if op.Status == statusInProgress {
				out = append(out, op.ID)
			}
		}
	})
	return out
}

func TestTokensSurviveRestart(t *testing.T) {
	f := fleet.NewMemory()
	config := testConfig(t, f)
	first := openCloud(t, config, f)
	token := first.token(t)
	first.Close()
	second := openCloud(t, config, f)
	if resp, _ := second.raw(t, token, "GET", "/subscriptions?api-version=1", ""); resp.StatusCode != 200 {
		t.Errorf("a former server's token gets %d", resp.StatusCode)
	}
}

func TestStateFileModeAndDamage(t *testing.T) {
	f := fleet.NewMemory()
	config := testConfig(t, f)
	first := openCloud(t, config, f)
	first.pool(t, 1, nil)
	first.Close()
	entries, err := os.ReadDir(config.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v; it holds secrets", e.Name(), info.Mode())
		}
	}
	if err := os.WriteFile(filepath.Join(config.Dir, "azure.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(config); err == nil {
		t.Error("a damaged state was taken")
	}
}
