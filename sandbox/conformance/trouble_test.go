package conformance

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	simulator "github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

func (w *cloudEnv) preflight() []cloud.Refusal {
	w.t.Helper()
	found, err := w.p.Preflight(w.t.Context(), cloud.PreflightSpec{Pool: w.pool, Instance: w.a, Version: version})
	w.must(err)
	return found
}

// wantRefusal requires exactly one refusal with these texts.
func (w *cloudEnv) wantRefusal(found []cloud.Refusal, reason string, says ...string) {
	w.t.Helper()
	if len(found) != 1 || found[0].Reason != reason {
		w.t.Fatalf("found %+v, want %s alone", found, reason)
	}
	for _, text := range says {
		if !strings.Contains(found[0].Message, text) {
			w.t.Errorf("%q does not say %q", found[0].Message, text)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		reason string
		pool   func(*simulator.PoolSpec)
	}{
		{"NodesWouldBeReplaced", func(p *simulator.PoolSpec) { p.UpgradePolicy = "Automatic" }},
		{"NodesWouldBeReplaced", func(p *simulator.PoolSpec) { p.UpgradePolicy = "Rolling" }},
		{"NodesWouldBeReplaced", func(p *simulator.PoolSpec) { p.AutoOSUpgrade = true }},
		{"ManagedElsewhere", func(p *simulator.PoolSpec) { p.AKSManaged = true }},
		{"DiskUnsupported", func(p *simulator.PoolSpec) { p.Ephemeral = true }},
		{"DiskUnsupported", func(p *simulator.PoolSpec) { p.SecurityType = "ConfidentialVM" }},
		{"SystemUnsupported", func(p *simulator.PoolSpec) { p.Windows = true }},
	} {
		t.Run(test.reason, func(t *testing.T) {
			w := newCloudEnv(t, options{pool: test.pool})
			w.wantRefusal(w.preflight(), test.reason, poolName)
			pool, err := w.p.Pool(t.Context(), w.pool)
			w.must(err)
			w.wantRefusal(pool.Refusals, test.reason)
			if stats := w.cloud.Stats(); stats.Writes != 0 {
				t.Errorf("a refusal took %d writes", stats.Writes)
			}
		})
	}
}

func TestFlexibleInstance(t *testing.T) {
	w := newCloudEnv(t, options{})
	id := cloud.InstanceID("azure:///subscriptions/" + subscription + "/resourceGroups/" + group + "/providers/Microsoft.Compute/virtualMachines/flex_1")
	_, err := w.p.Preflight(t.Context(), cloud.PreflightSpec{Pool: w.pool, Instance: id, Version: version})
	w.wantError(err, cloud.Unsupported, "Flexible orchestration")
}

func TestDenied(t *testing.T) {
	w := newCloudEnv(t, options{})
	w.fault(fault.Fault{Deny: "Microsoft.Compute/snapshots/write"})
	w.wantRefusal(w.preflight(), "PermissionMissing", "Microsoft.Compute/snapshots/write on /subscriptions/"+subscription)
	_, err := w.p.EnsureSnapshot(t.Context(), w.snapshotSpec())
	w.wantError(err, cloud.Denied, "action Microsoft.Compute/snapshots/write on /subscriptions/"+subscription, "assign a role")
}

func TestThrottled(t *testing.T) {
	w := newCloudEnv(t, options{})
	w.fault(fault.Fault{Method: http.MethodGet, Resource: "instance", RetryAfter: 90, Count: 1})
	_, err := w.p.Instance(t.Context(), w.a)
	w.wantError(err, cloud.Throttled)
	if after := cloud.RetryAfter(err); after != 90*time.Second {
		t.Errorf("come back after %s", after)
	}
	if _, err := w.p.Instance(t.Context(), w.a); err != nil {
		t.Errorf("once the fault is spent: %v", err)
	}
}

func TestTransientErrorsAreRetried(t *testing.T) {
	for name, fault := range map[string]fault.Fault{
		"refused before":       {Status: http.StatusServiceUnavailable},
		"answer lost":          {Phase: fault.After, Drop: true},
		"connection lost":      {Drop: true},
		"failed after all":     {Phase: fault.After, Status: http.StatusInternalServerError},
		"throttled for a tick": {RetryAfter: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCloudEnv(t, options{})
			fault.Resource, fault.Operation, fault.Count = "snapshot", "put", 1
			w.fault(fault)
			if have := w.snapshot(); have.Tags[cloud.TagBuiltFrom] != "node-a" {
				t.Errorf("%+v", have)
			}
		})
	}
}

func TestRegionWithoutZones(t *testing.T) {
	for name, atOnce := range map[string]bool{"refused at once": true, "failed later": false} {
		t.Run(name, func(t *testing.T) {
			w := newCloudEnv(t, options{config: func(c *simulator.Config) { c.ZRS, c.ZRSRefusedAtOnce = false, atOnce }})
			have := w.publish(w.snapshot())
			if have.State != cloud.Complete || have.Tags[cloud.TagBuiltFrom] != "node-a" {
				t.Fatalf("%+v", have)
			}
			profile := w.document(have.ID)["properties"].(map[string]any)["publishingProfile"].(map[string]any)
			if profile["storageAccountType"] != "Standard_LRS" || profile["excludeFromLatest"] != true || profile["replicaCount"] != 4.0 {
				t.Errorf("publishing profile %+v", profile)
			}
		})
	}
}

func TestFailedVersion(t *testing.T) {
	w := newCloudEnv(t, options{})
	w.fault(fault.Fault{Resource: "version", Operation: "put", Long: true, Code: "SourceDiskUnreadable", Message: "The source disk could not be read."})
	have := w.publish(w.snapshot())
	if have.State != cloud.Failed || !strings.Contains(have.Error, "SourceDiskUnreadable: The source disk could not be read.") {
		t.Errorf("%+v", have)
	}
	if puts := w.cloud.Stats().ByOperation["version put"]; puts != 1 {
		t.Errorf("a version that failed for any reason was tried %d times", puts)
	}
	w.must(w.p.DeleteImage(t.Context(), w.ref()))
	w.until("gone", func() bool {
		have, err := w.p.Image(t.Context(), w.ref())
		w.must(err)
		return have.State == cloud.Absent
	})
}

func TestFailedSnapshot(t *testing.T) {
	w := newCloudEnv(t, options{})
	w.fault(fault.Fault{Resource: "snapshot", Operation: "put", Long: true, Count: 1, Code: "DiskInMotion", Message: "The disk is being moved."})
	w.until("failed", func() bool {
		have, err := w.p.EnsureSnapshot(t.Context(), w.snapshotSpec())
		w.must(err)
		if have.State == cloud.Failed && have.Error != "DiskInMotion: The disk is being moved." {
			t.Errorf("%+v", have)
		}
		return have.State == cloud.Failed
	})
	// A process that did not start the snapshot has no reason. The error says where to look.
	have, err := w.connect(w.environment(w.secret)).Snapshot(t.Context(), w.a, w.snapshotSpec().Name)
	w.must(err)
	if have.State != cloud.Failed || have.Error == "" {
		t.Errorf("%+v", have)
	}
}

func TestQuota(t *testing.T) {
	w := newCloudEnv(t, options{config: func(c *simulator.Config) { c.Quota = map[string]int64{"StandardSnapshotCount": 0} }})
	w.wantRefusal(w.preflight(), "QuotaExceeded", location, "0 of 0")
	_, err := w.p.EnsureSnapshot(t.Context(), w.snapshotSpec())
	w.wantError(err, cloud.QuotaExceeded)
}

func TestGalleryNameTaken(t *testing.T) {
	w := newCloudEnv(t, options{})
	w.change(http.MethodPut, "/subscriptions/"+subscription+"/resourcegroups/other", map[string]any{"location": location})
	w.change(http.MethodPut, "/subscriptions/"+subscription+"/resourceGroups/other/providers/Microsoft.Compute/galleries/SIG_My_Group",
		map[string]any{"location": location, "properties": map[string]any{}})
	w.wantRefusal(w.preflight(), "GalleryUnsuitable", "resource group other")
	_, err := w.p.EnsureImage(t.Context(), cloud.ImageSpec{ImageRef: w.ref(), SnapshotID: w.snapshot().ID})
	w.wantError(err, cloud.Invalid, "delete the other gallery")
}

// Paths of objects that the Python original leaves in this group.
const (
	galleryPath    = "/subscriptions/" + subscription + "/resourceGroups/" + group + "/providers/Microsoft.Compute/galleries/SIG_My_Group"
	definitionPath = galleryPath + "/images/kamino-" + poolName + "-prototype"
	scaleSetPath   = "/subscriptions/" + subscription + "/resourceGroups/" + group + "/providers/Microsoft.Compute/virtualMachineScaleSets/" + poolName
)

// createOriginal creates the gallery and definition of the Python original.
func (w *cloudEnv) createOriginal(generation string) {
	w.t.Helper()
	w.change(http.MethodPut, galleryPath, map[string]any{"location": location, "properties": map[string]any{"description": "Kamino VMSS images"}})
	w.change(http.MethodPut, definitionPath, map[string]any{"location": location, "properties": map[string]any{
		"osType": "Linux", "osState": "Generalized", "hyperVGeneration": generation,
		"identifier": map[string]any{"publisher": "VMSS-Prototype-Pattern", "offer": group, "sku": poolName},
		"features":   []any{map[string]any{"name": "SecurityType", "value": "Standard"}},
	}})
	w.until("made", func() bool {
		return w.document(definitionPath)["properties"].(map[string]any)["provisioningState"] == "Succeeded"
	})
}

func TestDefinitionOfAnotherGeneration(t *testing.T) {
	w := newCloudEnv(t, options{})
	w.createOriginal("V1")
	w.wantRefusal(w.preflight(), "GalleryUnsuitable", "generation V1", "delete the definition")
	_, err := w.p.EnsureImage(t.Context(), cloud.ImageSpec{ImageRef: w.ref(), SnapshotID: w.snapshot().ID})
	w.wantError(err, cloud.Invalid, "generation V1")
}

func TestTraitsOfANewDefinition(t *testing.T) {
	for _, test := range []struct{ generation, security, feature string }{
		{"V1", "", "Standard"},
		{"V2", "", "Standard"},
		{"V2", "TrustedLaunch", "TrustedLaunch"},
	} {
		t.Run(test.generation+test.security, func(t *testing.T) {
			w := newCloudEnv(t, options{pool: func(p *simulator.PoolSpec) { p.Generation, p.SecurityType = test.generation, test.security }})
			if found := w.preflight(); found != nil {
				t.Fatalf("%+v", found)
			}
			w.publish(w.snapshot())
			properties := w.document(definitionPath)["properties"].(map[string]any)
			feature := properties["features"].([]any)[0].(map[string]any)
			if properties["hyperVGeneration"] != test.generation || properties["architecture"] != "x64" || feature["value"] != test.feature {
				t.Errorf("definition %+v", properties)
			}
			change, err := w.p.RecipeChange(t.Context(), w.ref(), true)
			w.must(err)
			w.must(w.p.SetRecipe(t.Context(), change))
		})
	}
}

// TestHistoryOfTheOriginal takes over a pool of the Python original: the recipe names the definition, and Kamino
// creates the versions.
func TestHistoryOfTheOriginal(t *testing.T) {
	w := newCloudEnv(t, options{})
	w.createOriginal("V2")
	from := w.snapshot()
	for _, old := range []string{"2021.9.30", "2021.10.01"} {
		path := definitionPath + "/versions/" + old
		w.change(http.MethodPut, path,
			map[string]any{"location": location, "tags": map[string]any{"BuiltFrom": "old-node", "BuiltAt": "2021-09-30 01:02:03.000004"},
				"properties": map[string]any{
					"publishingProfile": map[string]any{"replicaCount": 3, "storageAccountType": "Standard_ZRS",
						"targetRegions": []any{map[string]any{"name": location}}},
					"storageProfile": map[string]any{"osDiskImage": map[string]any{"source": map[string]any{"id": from.ID}}},
				}})
		w.until("published", func() bool {
			return w.document(path)["properties"].(map[string]any)["provisioningState"] == "Succeeded"
		})
	}
	w.change(http.MethodPatch, scaleSetPath,
		map[string]any{"properties": map[string]any{"virtualMachineProfile": map[string]any{"storageProfile": map[string]any{
			"imageReference": map[string]any{"id": definitionPath, "publisher": nil, "offer": nil, "sku": nil, "version": nil}}}}})

	images, err := w.p.Images(t.Context(), w.pool)
	w.must(err)
	if len(images) != 2 || images[0].Version != "2021.9.30" || images[1].Tags[cloud.TagBuiltFrom] != "old-node" {
		t.Errorf("history %+v", images)
	}
	pool, err := w.p.Pool(t.Context(), w.pool)
	w.must(err)
	if !pool.Recipe.Latest || pool.Recipe.Version != "2021.10.01" {
		t.Errorf("recipe %+v", pool.Recipe)
	}
	// A version of Kamino is excluded from "latest". Pinning is a change, even to the version that "latest" names.
	w.publish(from)
	pool, err = w.p.Pool(t.Context(), w.pool)
	w.must(err)
	if pool.Recipe.Version != "2021.10.01" {
		t.Errorf("recipe %+v", pool.Recipe)
	}
	w.wantError(w.p.DeleteImage(t.Context(), cloud.ImageRef{Pool: w.pool, Version: "2021.10.01"}), cloud.Conflict)
	change, err := w.p.RecipeChange(t.Context(), cloud.ImageRef{Pool: w.pool, Version: "2021.10.01"}, false)
	w.must(err)
	if change.Done {
		t.Errorf("change %+v", change)
	}
	w.must(w.p.SetRecipe(t.Context(), change))
	pool, err = w.p.Pool(t.Context(), w.pool)
	w.must(err)
	if pool.Recipe.Latest || pool.Recipe.Version != "2021.10.01" {
		t.Errorf("recipe %+v", pool.Recipe)
	}
}

func TestIgnoredRecipeWrite(t *testing.T) {
	w := newCloudEnv(t, options{})
	w.publish(w.snapshot())
	change, err := w.p.RecipeChange(t.Context(), w.ref(), true)
	w.must(err)
	w.fault(fault.Fault{Name: "lost", Method: http.MethodPatch, Resource: "pool", Ignore: true, Count: 1})
	w.must(w.p.SetRecipe(t.Context(), change))
	pool, err := w.p.Pool(t.Context(), w.pool)
	w.must(err)
	if pool.Recipe.Version != version || len(pool.Recipe.Bootstrap) != 0 {
		t.Errorf("recipe %+v", pool.Recipe)
	}
	for _, extension := range []string{"vmssCSE", poolName + "-AKSLinuxBilling"} {
		have := slices.Contains(w.extensions(), extension)
		if want := extension != "vmssCSE"; have != want {
			t.Errorf("extension %s is there: %v, want %v", extension, have, want)
		}
	}

	w.change(http.MethodPatch, scaleSetPath,
		map[string]any{"properties": map[string]any{"virtualMachineProfile": map[string]any{"storageProfile": map[string]any{
			"imageReference": map[string]any{"id": nil, "publisher": "Canonical", "offer": "o", "sku": "s-gen2", "version": "1.0.0"}}}}})
	change, err = w.p.RecipeChange(t.Context(), w.ref(), true)
	w.must(err)
	w.fault(fault.Fault{Name: "lost", Method: http.MethodPatch, Resource: "pool", Ignore: true})
	w.wantError(w.p.SetRecipe(t.Context(), change), cloud.Conflict, "still shows")
}

func (w *cloudEnv) extensions() []string {
	w.t.Helper()
	profile := w.document(scaleSetPath)["properties"].(map[string]any)["virtualMachineProfile"].(map[string]any)
	var out []string
	for _, extension := range profile["extensionProfile"].(map[string]any)["extensions"].([]any) {
		out = append(out, extension.(map[string]any)["name"].(string))
	}
	return out
}
