package azure

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	testGallery   = testScope + "/providers/Microsoft.Compute/galleries/SIG_rg1"
	testVersionID = testDefinition + "/versions/" + testVersion
)

func imageSpec() cloud.ImageSpec {
	return cloud.ImageSpec{ImageRef: testImage, SnapshotID: testSnapshotID, Tags: map[string]string{cloud.TagBuiltFrom: "node-0"}}
}

func (a *fakeARM) definition(properties string) {
	a.t.Helper()
	a.has(testGallery, `{"location": "westus2", "properties": {"provisioningState": "Succeeded"}}`)
	a.has(testDefinition, `{"location": "westus2", "properties": `+properties+`}`)
}

const goodDefinition = `{"provisioningState": "Succeeded", "osType": "Linux", "osState": "Generalized", "hyperVGeneration": "V2", "architecture": "x64"}`

func TestImageStates(t *testing.T) {
	zoned := `"publishingProfile": {"storageAccountType": "Standard_ZRS"}`
	for _, test := range []struct {
		name, properties string
		state            cloud.State
		percent          int32
		says             string
	}{
		{"replicating", `{"provisioningState": "Creating", "replicationStatus": {"aggregatedState": "InProgress", "summary": [{"region": "West US 2", "progress": 42}]}}`, cloud.Pending, 42, ""},
		{"not begun", `{"provisioningState": "Creating"}`, cloud.Pending, 0, ""},
		{"complete", `{"provisioningState": "Succeeded"}`, cloud.Complete, 100, ""},
		{"being tagged", `{"provisioningState": "Updating", "replicationStatus": {"aggregatedState": "Completed", "summary": [{"progress": 100}]}}`,
			cloud.Complete, 100, ""},
		{"made, and not in the region yet", `{"provisioningState": "Succeeded", "replicationStatus": {"aggregatedState": "InProgress", "summary": [{"region": "West US 2", "state": "Replicating", "progress": 40}]}}`, cloud.Pending, 40, ""},
		{"made, and the region failed", `{"provisioningState": "Succeeded", "replicationStatus": {"aggregatedState": "Failed", "summary": [{"region": "West US 2", "state": "Failed", "progress": 40, "details": "no room"}]}}`, cloud.Failed, 40, "no room"},
		{"in the region, and not in another", `{"provisioningState": "Succeeded", "replicationStatus": {"aggregatedState": "InProgress", "summary": [{"region": "West US 2", "state": "Completed", "progress": 100}, {"region": "East US", "state": "Replicating", "progress": 7}]}}`, cloud.Complete, 100, ""},
		{"in the region, and another failed", `{"provisioningState": "Succeeded", "replicationStatus": {"aggregatedState": "Failed", "summary": [{"region": "West US 2", "state": "Completed", "progress": 100}, {"region": "East US", "state": "Failed", "details": "no room"}]}}`, cloud.Complete, 100, ""},
		{"made, and no region named", `{"provisioningState": "Succeeded", "replicationStatus": {"aggregatedState": "InProgress"}}`, cloud.Pending, 0, ""},
		{"growing to another region", `{"provisioningState": "Updating", "replicationStatus": {"aggregatedState": "InProgress", "summary": [{"region": "West US 2", "state": "Completed", "progress": 100}, {"region": "East US", "state": "Replicating", "progress": 7}]}}`, cloud.Complete, 100, ""},
		{"failed", `{"provisioningState": "Failed", "replicationStatus": {"summary": [{"details": "the disk is\n too large"}]}}`, cloud.Failed, 0,
			"the disk is too large"},
		{"failed silently", `{"provisioningState": "Failed"}`, cloud.Failed, 0, "Azure gave no reason: see the activity log of the image version"},
		{"no zones", `{"provisioningState": "Failed", ` + zoned +
			`, "replicationStatus": {"summary": [{"details": "ZRS storage account type is not supported in this region"}]}}`, cloud.Absent, 0, ""},
		{"zones and another reason", `{"provisioningState": "Failed", ` + zoned + `, "replicationStatus": {"summary": [{"details": "zones are fine"}]}}`,
			cloud.Failed, 0, "zones are fine"},
		{"going", `{"provisioningState": "Deleting"}`, cloud.Deleting, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newARM(t)
			a.has(testVersionID, `{"location": "westus2", "properties": `+test.properties+`}`)
			got, err := a.provider().Image(t.Context(), testImage)
			if err != nil || got.State != test.state || got.Percent != test.percent || got.Error != test.says || got.Version != testVersion {
				t.Errorf("%+v, %v", got, err)
			}
			if a.calls[0].Query["$expand"][0] != "ReplicationStatus" {
				t.Errorf("asked %v", a.calls[0].Query)
			}
		})
	}
}

func TestImages(t *testing.T) {
	a := newARM(t)
	p := a.provider()
	if got, err := p.Images(t.Context(), testPool); err != nil || len(got) != 0 {
		t.Errorf("no definition: %v, %v", got, err)
	}
	var listed []any
	for _, name := range []string{"2026.11.3", "2026.2.28", "2026.11.21"} {
		listed = append(listed, object(t, `{"name": "`+name+`", "id": "`+testDefinition+`/versions/`+name+`", "location": "westus2",
			"tags": {"BuiltFrom": "n", "empty": ""},
			"properties": {"provisioningState": "Succeeded", "publishingProfile": {"publishedDate": "2026-11-21T01:02:03Z"}, "storageProfile": {"osDiskImage": {"sizeInGB": 30}}}}`))
	}
	a.lists[fold(testDefinition+"/versions")] = listed
	got, err := p.Images(t.Context(), testPool)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, image := range got {
		names = append(names, image.Version)
		if image.SizeGB != 30 || image.CreatedAt.IsZero() || image.Pool != testPool || !cmp.Equal(image.Tags, map[string]string{"BuiltFrom": "n"}) {
			t.Errorf("%+v", image)
		}
	}
	if want := []string{"2026.2.28", "2026.11.3", "2026.11.21"}; !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
}

func TestEnsureImage(t *testing.T) {
	a := newARM(t)
	a.pool(`{"tags": {"max": "240"}, "plan": {"name": "n", "publisher": "p", "product": "o"},
		"properties": {"virtualMachineProfile": {"securityProfile": {"securityType": "TrustedLaunch"}, "storageProfile": {"diskControllerType": "NVMe"}}}}`)
	a.snapshot(`{"provisioningState": "Succeeded", "hyperVGeneration": "V2", "supportedCapabilities": {"architecture": "Arm64"}}`)
	p := a.provider()
	made, err := p.EnsureImage(t.Context(), imageSpec())
	if err != nil || made.State != cloud.Pending {
		t.Fatalf("%+v, %v", made, err)
	}
	if got := a.made(); !slices.EqualFunc(got, []string{
		"PUT galleries/SIG_rg1", "PUT galleries/SIG_rg1/images/kamino-pool1-prototype",
		"PUT galleries/SIG_rg1/images/kamino-pool1-prototype/versions/2026.11.21",
	}, strings.EqualFold) {
		t.Fatalf("sent %v", got)
	}
	definition := a.last("PUT", "/images/kamino-pool1-prototype").Body
	wantDefinition := object(t, `{
		"hyperVGeneration": "V2", "architecture": "Arm64", "osType": "Linux", "osState": "Generalized",
		"identifier": {"publisher": "VMSS-Prototype-Pattern", "offer": "rg1", "sku": "pool1"},
		"purchasePlan": {"name": "n", "publisher": "p", "product": "o"},
		"features": [{"name": "SecurityType", "value": "TrustedLaunch"}, {"name": "DiskControllerTypes", "value": "SCSI, NVMe"}]}`)
	if diff := cmp.Diff(wantDefinition, definition["properties"]); diff != "" {
		t.Error(diff)
	}
	version := a.last("PUT", "/versions/2026.11.21").Body
	wantVersion := object(t, `{
		"publishingProfile": {"excludeFromLatest": true, "replicaCount": 5, "storageAccountType": "Standard_ZRS",
			"targetRegions": [{"name": "westus2", "regionalReplicaCount": 5, "storageAccountType": "Standard_ZRS", "excludeFromLatest": true}]},
		"storageProfile": {"osDiskImage": {"source": {"id": "`+testSnapshotID+`"}}}}`)
	if diff := cmp.Diff(wantVersion, version["properties"]); diff != "" {
		t.Error(diff)
	}
	requests := len(a.calls)
	if again, err := p.EnsureImage(t.Context(), imageSpec()); err != nil || again.State != cloud.Pending || len(a.calls) != requests+1 {
		t.Errorf("again: %+v, %v, %d requests", again, err, len(a.calls)-requests)
	}
}

func TestEnsureImageWaitsForParents(t *testing.T) {
	a := newARM(t)
	a.pool("")
	a.snapshot(goodSnapshot)
	a.has(testGallery, `{"location": "westus2", "properties": {"provisioningState": "Creating"}}`)
	p := a.provider()
	ensure := func() {
		t.Helper()
		if got, err := p.EnsureImage(t.Context(), imageSpec()); err != nil || got.State != cloud.Pending {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := p.Image(t.Context(), testImage); err != nil || got.State != cloud.Absent {
			t.Errorf("%+v, %v", got, err)
		}
		if made := a.made(); len(made) != 0 {
			t.Errorf("sent %v while a parent is being made", made)
		}
	}
	ensure()
	a.definition(strings.Replace(goodDefinition, "Succeeded", "Creating", 1))
	ensure()
	a.definition(goodDefinition)
	if got, err := p.EnsureImage(t.Context(), imageSpec()); err != nil || got.State != cloud.Pending {
		t.Errorf("%+v, %v", got, err)
	}
	// The next version reads neither gallery, definition, snapshot nor the cached pool.
	delete(a.documents, fold(testVersionID))
	before := len(a.calls)
	if _, err := p.EnsureImage(t.Context(), imageSpec()); err != nil || len(a.calls) != before+2 {
		t.Errorf("%d requests, %v", len(a.calls)-before, err)
	}
}

// TestFailedParent: a failed gallery or definition is created again with all tags. A second failure is returned.
func TestFailedParent(t *testing.T) {
	const status = "/subscriptions/" + testSubscription + "/providers/Microsoft.Compute/locations/westus2/operations/1"
	for _, id := range []string{testGallery, testDefinition} {
		a := newARM(t)
		a.pool("")
		a.snapshot(goodSnapshot)
		a.definition(goodDefinition)
		properties := a.documents[fold(id)]["properties"].(map[string]any)
		properties["provisioningState"] = "Failed"
		a.documents[fold(id)]["tags"] = map[string]any{"owner": "us"}
		a.next("PUT", id, answer{status: 201, header: map[string][]string{"Azure-Asyncoperation": {"https://management.azure.com" + status}},
			body: object(t, `{"properties": {"provisioningState": "Creating"}}`)})
		p := a.provider()
		if got, err := p.EnsureImage(t.Context(), imageSpec()); err != nil || got.State != cloud.Pending {
			t.Fatalf("%+v, %v", got, err)
		}
		if tags := a.last("PUT", id[strings.LastIndex(id, "/"):]).Body["tags"]; !cmp.Equal(tags, any(map[string]any{"owner": "us"})) {
			t.Errorf("%s was made again with the tags %v", id, tags)
		}
		a.documents[fold(status)] = object(t, `{"status": "Failed", "error": {"code": "InternalServerError", "message": "once more"}}`)
		// A read finds no version. A write returns the failure.
		if got, err := p.Image(t.Context(), testImage); err != nil || got.State != cloud.Absent {
			t.Errorf("%+v, %v", got, err)
		}
		_, err := p.EnsureImage(t.Context(), imageSpec())
		if e := mustKind(t, err, cloud.Invalid); e.Code != "InternalServerError" || e.Message != "once more" ||
			!strings.Contains(e.Resource, id[strings.LastIndex(id, "/")+1:]) {
			t.Errorf("%+v", e)
		}
	}
}

// TestFailureOfOtherCapture: the failure of an earlier capture is not returned to the next capture.
func TestFailureOfOtherCapture(t *testing.T) {
	const status = "/subscriptions/" + testSubscription + "/providers/Microsoft.Compute/locations/westus2/operations/1"
	a := newARM(t)
	a.pool("")
	a.snapshot(goodSnapshot)
	a.next("PUT", testGallery, answer{status: 201, header: map[string][]string{"Azure-Asyncoperation": {"https://management.azure.com" + status}},
		body: object(t, `{"properties": {"provisioningState": "Creating"}}`)})
	p := a.provider()
	yesterday := imageSpec()
	yesterday.SnapshotID += "-yesterday"
	if _, err := p.EnsureImage(t.Context(), yesterday); err != nil {
		t.Fatal(err)
	}
	a.documents[fold(status)] = object(t, `{"status": "Failed", "error": {"code": "QuotaExceeded", "message": "no more"}}`)
	for range 3 {
		if got, err := p.EnsureImage(t.Context(), imageSpec()); err != nil || got.State != cloud.Pending {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if made := a.made(); len(made) < 2 || !strings.HasPrefix(made[1], "PUT galleries") {
		t.Errorf("sent %v", made)
	}
}

func TestGalleryNameConflict(t *testing.T) {
	for message, want := range map[string]cloud.Kind{
		"Gallery names must be unique within the subscription.":        cloud.Invalid,
		"The request failed due to conflict with a concurrent request": cloud.Conflict,
	} {
		a := newARM(t)
		a.pool("")
		a.next("PUT", testGallery, armError(409, "Conflict", message))
		_, err := a.provider().EnsureImage(t.Context(), imageSpec())
		wantKind(t, err, want)
	}
}

func TestDefinitionMismatch(t *testing.T) {
	for _, test := range []struct{ name, definition, pool, says string }{
		{"generation", strings.Replace(goodDefinition, "V2", "V1", 1), "", "generation V1"},
		{"architecture", strings.Replace(goodDefinition, "x64", "Arm64", 1), "", "for Arm64"},
		{"Windows", strings.Replace(goodDefinition, "Linux", "Windows", 1), "", "for Windows"},
		{"specialized", strings.Replace(goodDefinition, "Generalized", "Specialized", 1), "", "specialized"},
		{"no Trusted Launch", goodDefinition, `{"properties": {"virtualMachineProfile": {"securityProfile": {"securityType": "TrustedLaunch"}}}}`,
			"does not support Trusted Launch"},
		{"Trusted Launch too", strings.Replace(goodDefinition, "{", `{"features": [{"name": "SecurityType", "value": "TrustedLaunchSupported"}], `, 1),
			`{"properties": {"virtualMachineProfile": {"securityProfile": {"securityType": "TrustedLaunch"}}}}`, "only for TrustedLaunch"},
		{"Trusted Launch only", strings.Replace(goodDefinition, "{", `{"features": [{"name": "SecurityType", "value": "TrustedLaunch"}], `, 1), "",
			"allows only TrustedLaunch"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newARM(t)
			a.pool(test.pool)
			a.vm("")
			a.snapshot(goodSnapshot)
			a.definition(test.definition)
			p := a.provider()
			_, err := p.EnsureImage(t.Context(), imageSpec())
			if e := mustKind(t, err, cloud.Invalid); e.Code != galleryUnsuitable || !strings.Contains(e.Message, test.says) {
				t.Errorf("%+v", e)
			}
			found, err := p.Preflight(t.Context(), cloud.PreflightSpec{Pool: testPool, Instance: testInstance, Version: testVersion})
			if err != nil || !slices.Contains(reasons(found), galleryUnsuitable) {
				t.Errorf("%v, %v", found, err)
			}
			if made := a.made(); len(made) != 0 {
				t.Errorf("sent %v", made)
			}
		})
	}
}

func TestZonelessRegion(t *testing.T) {
	storage := func(a *fakeARM) any {
		t.Helper()
		version := a.last("PUT", "/versions/2026.11.21").Body["properties"].(map[string]any)
		return version["publishingProfile"].(map[string]any)["storageAccountType"]
	}
	start := func(t *testing.T) *fakeARM {
		t.Helper()
		a := newARM(t)
		a.pool("")
		a.snapshot(goodSnapshot)
		a.definition(goodDefinition)
		return a
	}
	for _, message := range []string{
		"Failed: detail:ZRS is not supported",
		"The ZRS storage account type is not supported in this region.",
	} {
		t.Run("refused at once: "+message, func(t *testing.T) {
			a := start(t)
			a.next("PUT", testVersionID, armError(400, "InvalidParameter", message))
			if got, err := a.provider().EnsureImage(t.Context(), imageSpec()); err != nil || got.State != cloud.Pending {
				t.Fatalf("%+v, %v", got, err)
			}
			if storage(a) != "Standard_LRS" {
				t.Errorf("storage %v", storage(a))
			}
		})
	}
	t.Run("another refusal", func(t *testing.T) {
		a := start(t)
		a.next("PUT", testVersionID, armError(400, "InvalidParameter", "ZRS is fine, the snapshot is not"))
		_, err := a.provider().EnsureImage(t.Context(), imageSpec())
		wantKind(t, err, cloud.Invalid)
		if made := a.made(); len(made) != 1 {
			t.Errorf("sent %v", made)
		}
	})
	t.Run("failed later", func(t *testing.T) {
		a := start(t)
		p := a.provider()
		failed := `{"location": "westus2", "properties": {"provisioningState": "%s", "publishingProfile": {"storageAccountType": "Standard_ZRS"},
			"replicationStatus": {"summary": [{"details": "detail:ZRS is not supported"}]}}}`
		a.has(testVersionID, strings.Replace(failed, "%s", "Failed", 1))
		if got, err := p.EnsureImage(t.Context(), imageSpec()); err != nil || got.State != cloud.Pending {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := p.Image(t.Context(), testImage); err != nil || got.State != cloud.Absent {
			t.Errorf("%+v, %v", got, err)
		}
		if made := a.made(); len(made) != 1 || !strings.HasPrefix(made[0], "DELETE") {
			t.Errorf("sent %v", made)
		}
		a.has(testVersionID, strings.Replace(failed, "%s", "Deleting", 1))
		if got, err := p.EnsureImage(t.Context(), imageSpec()); err != nil || got.State != cloud.Pending {
			t.Errorf("%+v, %v", got, err)
		}
		delete(a.documents, fold(testVersionID))
		if got, err := p.EnsureImage(t.Context(), imageSpec()); err != nil || got.State != cloud.Pending {
			t.Errorf("%+v, %v", got, err)
		}
		if storage(a) != "Standard_LRS" {
			t.Errorf("storage %v", storage(a))
		}
	})
	t.Run("failed for another reason", func(t *testing.T) {
		a := start(t)
		a.has(testVersionID, `{"location": "westus2", "properties": {"provisioningState": "Failed", "publishingProfile": {"storageAccountType": "Standard_ZRS"}}}`)
		if got, err := a.provider().EnsureImage(t.Context(), imageSpec()); err != nil || got.State != cloud.Failed {
			t.Errorf("%+v, %v", got, err)
		}
		if made := a.made(); len(made) != 0 {
			t.Errorf("sent %v", made)
		}
	})
}

func TestReplicas(t *testing.T) {
	for _, test := range []struct {
		changes string
		want    int32
	}{
		{"", 3},
		{`{"sku": {"capacity": 151}}`, 4},
		{`{"tags": {"max": "1000"}}`, 20},
		{`{"tags": {"max": "no number"}}`, 3},
		{`{"tags": {"max": "10"}, "sku": {"capacity": 500}}`, 10},
		{`{"tags": {"max": "100000"}}`, 100},
	} {
		a := newARM(t)
		a.pool(test.changes)
		pool := model(t, a)
		if got := replicasFor(max(maxSizeOf(pool), capacityOf(pool))); got != test.want {
			t.Errorf("%s: %d replicas, want %d", test.changes, got, test.want)
		}
	}
}

func TestEncryptedVersion(t *testing.T) {
	const set = "/subscriptions/" + testSubscription + "/resourceGroups/keys/providers/Microsoft.Compute/diskEncryptionSets/d"
	a := newARM(t)
	a.pool(`{"properties": {"virtualMachineProfile": {"storageProfile": {"osDisk": {"managedDisk": {"diskEncryptionSet": {"id": "` + set + `"}}}}}}}`)
	a.snapshot(goodSnapshot)
	a.definition(goodDefinition)
	if _, err := a.provider().EnsureImage(t.Context(), imageSpec()); err != nil {
		t.Fatal(err)
	}
	profile := a.last("PUT", "/versions/2026.11.21").Body["properties"].(map[string]any)["publishingProfile"].(map[string]any)
	region := profile["targetRegions"].([]any)[0].(map[string]any)
	if diff := cmp.Diff(object(t, `{"osDiskImage": {"diskEncryptionSetId": "`+set+`"}}`), region["encryption"]); diff != "" {
		t.Error(diff)
	}
}

func TestTagImage(t *testing.T) {
	a := newARM(t)
	p := a.provider()
	wantKind(t, p.TagImage(t.Context(), testImage, map[string]string{"a": "b"}), cloud.NotFound)
	a.has(testVersionID, `{"location": "westus2", "tags": {"BuiltFrom": "n", "old": "x"}, "properties": {"provisioningState": "Succeeded"}}`)
	if err := p.TagImage(t.Context(), testImage, map[string]string{cloud.TagQuarantined: "bad", "old": "", "never": ""}); err != nil {
		t.Fatal(err)
	}
	got, err := p.Image(t.Context(), testImage)
	if err != nil || !cmp.Equal(got.Tags, map[string]string{"BuiltFrom": "n", cloud.TagQuarantined: "bad"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if sent := a.last("PATCH", "/versions/2026.11.21").Body["tags"]; !cmp.Equal(sent,
		map[string]any{"BuiltFrom": "n", "old": nil, cloud.TagQuarantined: "bad"}) {
		t.Errorf("sent %v", sent)
	}
	before := len(a.made())
	if err := p.TagImage(t.Context(), testImage, map[string]string{cloud.TagQuarantined: "bad"}); err != nil || len(a.made()) != before {
		t.Errorf("the same tags again: %v, %v", err, a.made())
	}
}

func TestDeleteImage(t *testing.T) {
	a := newARM(t)
	a.pool("")
	a.has(testVersionID, `{"location": "westus2", "properties": {"provisioningState": "Succeeded"}}`)
	p := a.provider()
	change, err := p.RecipeChange(t.Context(), testImage, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.SetRecipe(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	e := mustKind(t, p.DeleteImage(t.Context(), testImage), cloud.Conflict)
	if !strings.Contains(e.Message, "names the version") {
		t.Errorf("message %q", e.Message)
	}
	other := cloud.ImageRef{Pool: testPool, Version: "2026.11.3"}
	a.next("DELETE", testDefinition+"/versions/2026.11.3", armError(404, "ResourceNotFound", "gone"))
	if err := p.DeleteImage(t.Context(), other); err != nil {
		t.Errorf("deleting nothing: %v", err)
	}
	delete(a.documents, fold(string(testPool)))
	if err := p.DeleteImage(t.Context(), testImage); err != nil {
		t.Errorf("its pool is gone: %v", err)
	}
}
