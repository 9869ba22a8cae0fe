package azure

import (
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/google/go-cmp/cmp"
)

const (
	testGallery    = "SIG_rg1"
	testDefinition = "kamino-" + testPool + "-prototype"
	testVersion    = "2026.11.21"
)

// ensureDefinition makes gallery and definition.
func (c *testCloud) ensureDefinition(t *testing.T) {
	t.Helper()
	poller, err := c.factory.NewGalleriesClient().BeginCreateOrUpdate(t.Context(), testGroup, testGallery, armcompute.Gallery{Location: to.Ptr("westus2")}, nil)
	done(t, poller, err)
	images := c.factory.NewGalleryImagesClient()
	def, err := images.BeginCreateOrUpdate(t.Context(), testGroup, testGallery, testDefinition, definitionOf("V2", testPool), nil)
	done(t, def, err)
}

func definitionOf(generation, sku string) armcompute.GalleryImage {
	return armcompute.GalleryImage{Location: to.Ptr("westus2"), Properties: &armcompute.GalleryImageProperties{
		OSType: to.Ptr(armcompute.OperatingSystemTypesLinux), OSState: to.Ptr(armcompute.OperatingSystemStateTypesGeneralized),
		HyperVGeneration: to.Ptr(armcompute.HyperVGeneration(generation)), Architecture: to.Ptr(armcompute.ArchitectureX64),
		Identifier: &armcompute.GalleryImageIdentifier{Publisher: to.Ptr("VMSS-Prototype-Pattern"), Offer: to.Ptr(testGroup), SKU: to.Ptr(sku)}}}
}

// snapshot creates a snapshot of an instance's disk and returns its ID.
func (c *testCloud) snapshot(t *testing.T, name string, instance int) string {
	t.Helper()
	disk := *c.instances(t)[instance].Properties.StorageProfile.OSDisk.ManagedDisk.ID
	poller, err := c.factory.NewSnapshotsClient().BeginCreateOrUpdate(t.Context(), testGroup, name, snapshotOf(disk), nil)
	return *done(t, poller, err).ID
}

func snapshotOf(disk string) armcompute.Snapshot {
	return armcompute.Snapshot{Location: to.Ptr("westus2"), Properties: &armcompute.SnapshotProperties{Incremental: to.Ptr(true),
		CreationData: &armcompute.CreationData{CreateOption: to.Ptr(armcompute.DiskCreateOptionCopy), SourceResourceID: to.Ptr(disk)}}}
}

func versionOf(snapshot string, storage armcompute.StorageAccountType) armcompute.GalleryImageVersion {
	return armcompute.GalleryImageVersion{Location: to.Ptr("westus2"), Tags: map[string]*string{"BuiltFrom": to.Ptr("node")},
		Properties: &armcompute.GalleryImageVersionProperties{
			StorageProfile: &armcompute.GalleryImageVersionStorageProfile{OSDiskImage: &armcompute.GalleryOSDiskImage{
				Source: &armcompute.GalleryDiskImageSource{ID: to.Ptr(snapshot)}}},
			PublishingProfile: &armcompute.GalleryImageVersionPublishingProfile{ReplicaCount: to.Ptr[int32](3), ExcludeFromLatest: to.Ptr(true),
				StorageAccountType: to.Ptr(storage), TargetRegions: []*armcompute.TargetRegion{{Name: to.Ptr("westus2")}}}}}
}

// publish creates a version from the first instance's disk and returns the ID.
func (c *testCloud) publish(t *testing.T, version string) string {
	t.Helper()
	id := c.snapshot(t, "snapshot_"+version, 0)
	poller, err := c.factory.NewGalleryImageVersionsClient().BeginCreateOrUpdate(t.Context(), testGroup, testGallery, testDefinition, version,
		versionOf(id, armcompute.StorageAccountTypeStandardLRS), nil)
	return *done(t, poller, err).ID
}

func TestPublishFromSnapshot(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	c.ensureDefinition(t)
	donor := *c.instances(t)[0].Properties.StorageProfile.OSDisk.ManagedDisk.ID
	c.fleet.WriteFile(diskOf(donor), "patched", "yes")
	snapshot := c.snapshot(t, "snap", 0)
	c.fleet.WriteFile(diskOf(donor), "patched", "changed afterwards")

	versions := c.factory.NewGalleryImageVersionsClient()
	poller, err := versions.BeginCreateOrUpdate(t.Context(), testGroup, testGallery, testDefinition, testVersion,
		versionOf(snapshot, armcompute.StorageAccountTypeStandardZRS), nil)
	if err != nil {
		t.Fatal(err)
	}
	expand := &armcompute.GalleryImageVersionsClientGetOptions{Expand: to.Ptr(armcompute.ReplicationStatusTypesReplicationStatus)}
	half, err := versions.Get(t.Context(), testGroup, testGallery, testDefinition, testVersion, expand)
	if err != nil {
		t.Fatal(err)
	}
	if got := *half.Properties.ProvisioningState; got != armcompute.GalleryProvisioningStateCreating {
		t.Errorf("a version in the making is %s, want Creating", got)
	}
	if got := *half.Properties.ReplicationStatus.Summary[0].State; got != armcompute.ReplicationStateReplicating {
		t.Errorf("its replication is %s, want Replicating", got)
	}
	_, err = c.factory.NewSnapshotsClient().BeginDelete(t.Context(), testGroup, "snap", nil)
	wantCode(t, err, http.StatusConflict, "OperationNotAllowed") // the copy to the version is still running
	made := done(t, poller, nil)
	if got, want := *made.Properties.StorageProfile.OSDiskImage.SizeInGB, int32(128); got != want {
		t.Errorf("size is %d GB, want the disk's %d", got, want)
	}
	whole, err := versions.Get(t.Context(), testGroup, testGallery, testDefinition, testVersion, expand)
	if err != nil {
		t.Fatal(err)
	}
	summary := whole.Properties.ReplicationStatus.Summary[0]
	if got, want := [2]any{*summary.State, *summary.Progress}, [2]any{armcompute.ReplicationStateCompleted, int32(100)}; got != want {
		t.Errorf("replication is %v, want %v", got, want)
	}
	if got := c.fleet.File(diskOf(*made.ID), "patched"); got != "yes" {
		t.Errorf("the version holds %q, want what the disk held when the snapshot was taken", got)
	}
	del, err := c.factory.NewSnapshotsClient().BeginDelete(t.Context(), testGroup, "snap", nil)
	done(t, del, err)
	if c.fleet.HasDisk(diskOf(snapshot)) {
		t.Error("the snapshot's content is still there")
	}
}

func TestVersionWithoutZoneRedundantStorage(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		c := newCloud(t, func(c *Config) { c.ZRS, c.ZRSRefusedAtOnce = false, atOnce })
		c.pool(t, 1, nil)
		c.ensureDefinition(t)
		snapshot := c.snapshot(t, "snap", 0)
		versions := c.factory.NewGalleryImageVersionsClient()
		put := func(storage armcompute.StorageAccountType) error {
			poller, err := versions.BeginCreateOrUpdate(t.Context(), testGroup, testGallery, testDefinition, testVersion, versionOf(snapshot, storage), nil)
			_, err = finish(t.Context(), poller, err)
			return err
		}
		err := put(armcompute.StorageAccountTypeStandardZRS)
		if atOnce {
			wantCode(t, err, http.StatusBadRequest, "InvalidParameter")
			if !strings.Contains(err.Error(), "ZRS storage account type is not supported in this region") {
				t.Errorf("the refusal reads %v", err)
			}
		} else {
			if err == nil || !strings.Contains(err.Error(), "detail:ZRS is not supported") {
				t.Fatalf("the failure reads %v", err)
			}
			got, err := versions.Get(t.Context(), testGroup, testGallery, testDefinition, testVersion, nil)
			if err != nil || *got.Properties.ProvisioningState != armcompute.GalleryProvisioningStateFailed {
				t.Fatalf("the failed version shows %v, %v; want it to stay as Failed", got.Properties, err)
			}
			wantCode(t, put(armcompute.StorageAccountTypeStandardLRS), http.StatusConflict, "PropertyChangeNotAllowed")
			del, err := versions.BeginDelete(t.Context(), testGroup, testGallery, testDefinition, testVersion, nil)
			done(t, del, err)
		}
		if err := put(armcompute.StorageAccountTypeStandardLRS); err != nil {
			t.Error(err)
		}
	}
}

func TestDefinitionRefusals(t *testing.T) {
	c := newCloud(t, nil)
	c.ensureDefinition(t)
	images := c.factory.NewGalleryImagesClient()
	for _, refused := range []struct {
		why, gallery, name string
		body               armcompute.GalleryImage
		status             int
		code               string
	}{
		{"another generation", testGallery, testDefinition, definitionOf("V1", testPool), http.StatusConflict, "PropertyChangeNotAllowed"},
		{"an identifier that is taken", testGallery, "another", definitionOf("V2", testPool), http.StatusConflict, "Conflict"},
		{"a gallery that isn't there", "nowhere", "another", definitionOf("V2", "x"), http.StatusNotFound, "ParentResourceNotFound"},
		{"no location", testGallery, "another", armcompute.GalleryImage{}, http.StatusBadRequest, "LocationRequired"},
	} {
		_, err := images.BeginCreateOrUpdate(t.Context(), testGroup, refused.gallery, refused.name, refused.body, nil)
		t.Log(refused.why)
		wantCode(t, err, refused.status, refused.code)
	}
	_, err := c.factory.NewGalleriesClient().BeginCreateOrUpdate(t.Context(), testGroup, "with-dash", armcompute.Gallery{Location: to.Ptr("westus2")}, nil)
	wantCode(t, err, http.StatusBadRequest, "InvalidParameter")
	_, err = c.factory.NewGalleriesClient().BeginDelete(t.Context(), testGroup, testGallery, nil)
	wantCode(t, err, http.StatusConflict, "CannotDeleteResource")
}

func TestDefinitionDefaultsByAPIVersion(t *testing.T) {
	c := newCloud(t, nil)
	c.ensureDefinition(t)
	token := c.token(t)
	path := "/subscriptions/" + testSubscription + "/resourceGroups/" + testGroup + "/providers/Microsoft.Compute/galleries/" + testGallery + "/images/"
	for version, want := range map[string]string{"2021-10-01": "V1", "2024-03-03": "V2"} {
		body := `{"location":"westus2","properties":{"osType":"Linux","osState":"Generalized","identifier":{"publisher":"p","offer":"o","sku":"` +
			version + `"}}}`
		resp, doc := c.raw(t, token, "PUT", path+"d"+version+"?api-version="+version, body)
		if resp.StatusCode != http.StatusCreated || text(doc, "properties", "hyperVGeneration") != want {
			t.Errorf("API version %s: %d, generation %q; want %q", version, resp.StatusCode, text(doc, "properties", "hyperVGeneration"), want)
		}
		if got := len(list(doc, "properties", "features")) > 0; got != (want == "V2") {
			t.Errorf("API version %s: features present is %v", version, got)
		}
	}
}

func TestVersionRefusals(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, func(p *PoolSpec) { p.Generation = "V1" })
	c.ensureDefinition(t)
	snapshot := c.snapshot(t, "snap", 0)
	versions := c.factory.NewGalleryImageVersionsClient()
	elsewhere := versionOf(snapshot, armcompute.StorageAccountTypeStandardLRS)
	elsewhere.Properties.PublishingProfile.TargetRegions[0].Name = to.Ptr("eastus")
	both := versionOf(snapshot, armcompute.StorageAccountTypeStandardLRS)
	both.Properties.StorageProfile.Source = &armcompute.GalleryArtifactVersionFullSource{ID: to.Ptr(snapshot)}
	for _, refused := range []struct {
		why, name string
		body      armcompute.GalleryImageVersion
		status    int
		code      string
	}{
		{"a name that is no version", "2026-11-21", versionOf(snapshot, armcompute.StorageAccountTypeStandardLRS), http.StatusBadRequest, "InvalidParameter"},
		{"a number beyond 32 bits", "2026.11.99999999999", versionOf(snapshot, armcompute.StorageAccountTypeStandardLRS),
			http.StatusBadRequest, "InvalidParameter"},
		{"not in its own region", testVersion, elsewhere, http.StatusBadRequest, "InvalidParameter"},
		{"two sources", testVersion, both, http.StatusBadRequest, "InvalidParameter"},
		{"a source that isn't there", testVersion, versionOf(snapshot+"x", armcompute.StorageAccountTypeStandardLRS), http.StatusNotFound, "ResourceNotFound"},
		{"a source of the other generation", testVersion, versionOf(snapshot, armcompute.StorageAccountTypeStandardLRS),
			http.StatusBadRequest, "InvalidParameter"},
	} {
		t.Log(refused.why)
		_, err := versions.BeginCreateOrUpdate(t.Context(), testGroup, testGallery, testDefinition, refused.name, refused.body, nil)
		wantCode(t, err, refused.status, refused.code)
	}
}

func TestVersionTagsMerge(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	c.ensureDefinition(t)
	c.publish(t, testVersion)
	token := c.token(t)
	path := "/subscriptions/" + testSubscription + "/resourceGroups/" + testGroup + "/providers/Microsoft.Compute/galleries/" + testGallery +
		"/images/" + testDefinition + "/versions/" + testVersion + "?api-version=2024-03-03"
	resp, _ := c.raw(t, token, "PATCH", path, `{"tags":{"BuiltFrom":null,"quarantined":"bad"}}`)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("PATCH answered %d, want 200", resp.StatusCode)
	}
	_, doc := c.raw(t, token, "GET", path, "")
	if diff := cmp.Diff(object{"quarantined": "bad"}, tagsOf(doc)); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

func TestSnapshotRateLimitPerDisk(t *testing.T) {
	c := newCloud(t, func(c *Config) { c.Clock.Scale = 100; c.Latencies.Snapshot = -1 })
	c.pool(t, 1, nil)
	disk := *c.instances(t)[0].Properties.StorageProfile.OSDisk.ManagedDisk.ID
	for n := range maxShots + 1 {
		_, err := c.factory.NewSnapshotsClient().BeginCreateOrUpdate(t.Context(), testGroup, "snap"+string(rune('a'+n)), snapshotOf(disk), nil)
		if n < maxShots && err != nil {
			t.Fatal(err)
		}
		if n == maxShots {
			wantCode(t, err, http.StatusTooManyRequests, "SnapshotCreationRateLimitExceeded")
			if retryAfter(t, err) == "" {
				t.Error("there is no Retry-After")
			}
		}
	}
}
