package azure

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// model returns the test's scale set as the SDK decodes it.
func model(t *testing.T, a *fakeARM) armcompute.VirtualMachineScaleSet {
	t.Helper()
	if a.documents[fold(string(testPool))] == nil {
		a.pool("")
	}
	shared, err := connect(Config{Credential: token{}, Transport: a})
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&PoolProvider{account: shared}).model(t.Context(), scaleSet{testSubscription, "rg1", "pool1"})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func extensionPart(name string) cloud.RecipeField {
	return cloud.RecipeField{Kind: partExtension, Name: name}
}

var testImage = cloud.ImageRef{Pool: testPool, Version: testVersion}

func TestRecipePatch(t *testing.T) {
	empty := base64.StdEncoding.EncodeToString([]byte("#cloud-config\n{}\n"))
	r := versionRef{scaleSet{testSubscription, "rg1", "pool1"}, testVersion}
	image := `"storageProfile": {"imageReference": {"id": "` + r.id() + `", "publisher": null, "offer": null, "sku": null, "version": null}}`
	for _, test := range []struct {
		name    string
		removes []cloud.RecipeField
		want    string
	}{
		{"image only", nil, `{"properties": {"virtualMachineProfile": {` + image + `}}}`},
		{"bootstrap", []cloud.RecipeField{customData, extensionPart("vmssCSE")}, `{
			"tags": {"cluster": "one", "kamino-bootstrap-removed": "2026.11.21"},
			"properties": {"virtualMachineProfile": {` + image + `,
				"osProfile": {"customData": "` + empty + `"},
				"extensionProfile": {"extensions": [
					{"name": "monitor", "properties": {"publisher": "Microsoft.Azure.Monitor", "type": "AzureMonitorLinuxAgent", "typeHandlerVersion": "1.0", "provisionAfterExtensions": []}},
					{"name": "cluster-AKSLinuxBilling", "properties": {"publisher": "Microsoft.AKS", "type": "Compute.AKS-Engine.Linux.Billing", "typeHandlerVersion": "1.0"}}
				]}
			}}}`},
		{"every extension", []cloud.RecipeField{extensionPart("vmssCSE"), extensionPart("monitor"), extensionPart("cluster-AKSLinuxBilling")},
			`{"properties": {"virtualMachineProfile": {` + image + `, "extensionProfile": {"extensions": []}}}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			data, err := json.Marshal(recipePatch(r, model(t, newARM(t)), test.removes))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object(t, test.want), object(t, string(data))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestIsBootstrap(t *testing.T) {
	for _, test := range []struct {
		name, publisher, kind string
		want                  bool
	}{
		{"vmssCSE", "", "", true},
		{"cse-agent-0", "Microsoft.Azure.Extensions", "CustomScript", true},
		{"join", "Microsoft.Azure.Extensions", "CustomScript", true},
		{"old", "Microsoft.OSTCExtensions", "CustomScriptForLinux", true},
		{"CAPZ.Linux.Bootstrapping", "Microsoft.Azure.ContainerUpstream", "Cluster-API-Provider-Azure.Linux.Bootstrapping", true},
		{"k8s-AKSLinuxBilling", "Microsoft.AKS", "Compute.AKS-Engine.Linux.Billing", false},
		{"monitor", "Microsoft.Azure.Monitor", "AzureMonitorLinuxAgent", false},
		{"mde", "Microsoft.Azure.AzureDefenderForServers", "MDE.Linux", false},
		{"health", "Microsoft.ManagedServices", "ApplicationHealthLinux", false},
	} {
		extension := &armcompute.VirtualMachineScaleSetExtension{Name: &test.name,
			Properties: &armcompute.VirtualMachineScaleSetExtensionProperties{Publisher: &test.publisher, Type: &test.kind}}
		if got := isBootstrap(extension); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestRecipeChange(t *testing.T) {
	a := newARM(t)
	a.pool("")
	p := a.provider()
	change, err := p.RecipeChange(t.Context(), testImage, true)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(change.Removes, []cloud.RecipeField{customData, {Kind: partExtension, Name: "vmssCSE"}}) ||
		!slices.Equal(cloud.DescribeFields(change.Keeps), []string{"extension monitor", "extension cluster-AKSLinuxBilling"}) || change.Done {
		t.Errorf("%+v", change)
	}
	if lost := cloud.Unreadable(change.Removes); len(lost) != 1 || !strings.Contains(lost[0].Describe(), "/var/lib/cloud/instance/user-data.txt") {
		t.Errorf("unreadable %q", lost)
	}
	saved := object(t, string(change.Backup))
	if !strings.Contains(string(change.Backup), `"commandToExecute": "join"`) || saved["imageReference"] == nil ||
		strings.Contains(string(change.Backup), "Billing") {
		t.Errorf("backup %s", change.Backup)
	}
	if made := a.made(); len(made) != 0 {
		t.Errorf("a look sent %v", made)
	}

	plain, err := p.RecipeChange(t.Context(), testImage, false)
	if err != nil || len(plain.Removes) != 0 || len(plain.Keeps) != 3 || plain.From != "Canonical:ubuntu-24_04-lts:server:latest" ||
		!strings.EqualFold(plain.To, testDefinition+"/versions/2026.11.21") {
		t.Errorf("%+v, %v", plain, err)
	}
}

func TestSetRecipe(t *testing.T) {
	a := newARM(t)
	a.pool("")
	p := a.provider()
	change, err := p.RecipeChange(t.Context(), testImage, true)
	if err != nil {
		t.Fatal(err)
	}
	// A change also works after encoding and decoding.
	data, err := json.Marshal(change)
	if err != nil {
		t.Fatal(err)
	}
	var restored cloud.RecipeChange
	if err := json.Unmarshal(data, &restored); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.SetRecipe(t.Context(), restored); err != nil {
			t.Fatal(err)
		}
	}
	if made := a.made(); !slices.Equal(made, []string{"PATCH virtualMachineScaleSets/pool1"}) {
		t.Errorf("sent %v", made)
	}
	if sent := a.last("PATCH", "/pool1"); sent.IfMatch != `"1"` || sent.Body["sku"] != nil {
		t.Errorf("sent %+v", sent)
	}
	pool, err := p.Pool(t.Context(), testPool)
	if err != nil || pool.Recipe.Version != testVersion || pool.Recipe.Latest || len(pool.Recipe.Bootstrap) != 0 || pool.Capacity != 3 {
		t.Errorf("%+v, %v", pool, err)
	}
	again, err := p.RecipeChange(t.Context(), testImage, true)
	if err != nil || !again.Done {
		t.Errorf("%+v, %v", again, err)
	}

	// The operator sets a generic image again. The cloud does not show whether customData is back.
	a.documents[fold(string(testPool))] = merge(a.documents[fold(string(testPool))], object(t, `{"properties": {"virtualMachineProfile": {"storageProfile": {"imageReference":
		{"id": null, "publisher": "Canonical", "offer": "o", "sku": "s", "version": "latest"}}}}}`))
	wantKind(t, p.SetRecipe(t.Context(), again), cloud.Conflict)
	fresh, err := p.RecipeChange(t.Context(), testImage, true)
	if err != nil || !cloud.HasField(fresh.Removes, customData) {
		t.Errorf("%+v, %v", fresh, err)
	}
}

func TestSetRecipeRetriesLostWrite(t *testing.T) {
	a := newARM(t)
	a.pool("")
	p := a.provider()
	change, err := p.RecipeChange(t.Context(), testImage, true)
	if err != nil {
		t.Fatal(err)
	}
	a.ignore[fold(string(testPool))] = 1
	if err := p.SetRecipe(t.Context(), change); err != nil {
		t.Errorf("a write that did not stick once: %v", err)
	}
	if made := a.made(); len(made) != 2 {
		t.Errorf("sent %v", made)
	}

	a.pool("")
	a.ignore[fold(string(testPool))] = 99
	e := mustKind(t, p.SetRecipe(t.Context(), change), cloud.Conflict)
	if !strings.Contains(e.Message, "still shows image Canonical:ubuntu-24_04-lts:server:latest, customData, extension vmssCSE") {
		t.Errorf("message %q", e.Message)
	}
	if made := a.made(); len(made) != 2+maxRecipeWrites {
		t.Errorf("sent %v", made)
	}
}

// TestSetRecipeReads: a second read follows only if the response is insufficient. Examples: no scale set, a
// different recipe, or a removed extension that Azure may show again.
func TestSetRecipeReads(t *testing.T) {
	for name, test := range map[string]struct {
		removes bool
		answers func(a *fakeARM)
		reads   int
	}{
		"the image alone":         {false, func(*fakeARM) {}, 1},
		"an extension goes":       {true, func(*fakeARM) {}, 2},
		"the write did not stick": {false, func(a *fakeARM) { a.ignore[fold(string(testPool))] = 1 }, 2},
		"an empty answer": {false, func(a *fakeARM) {
			a.next("PATCH", string(testPool), answer{status: 200, body: map[string]any{}})
		}, 2},
	} {
		a := newARM(t)
		a.pool("")
		p := a.provider()
		change, err := p.RecipeChange(t.Context(), testImage, test.removes)
		if err != nil {
			t.Fatal(err)
		}
		a.calls = nil
		test.answers(a)
		if err := p.SetRecipe(t.Context(), change); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if reads := a.gets(string(testPool)); reads != test.reads {
			t.Errorf("%s: %d reads, want %d", name, reads, test.reads)
		}
		if pool, err := p.Pool(t.Context(), testPool); err != nil || pool.Recipe.Version != testVersion {
			t.Errorf("%s: the pool is %+v, %v", name, pool.Recipe, err)
		}
	}
}

func TestSetRecipeConflict(t *testing.T) {
	a := newARM(t)
	a.pool("")
	p := a.provider()
	change, err := p.RecipeChange(t.Context(), testImage, false)
	if err != nil {
		t.Fatal(err)
	}
	a.next("PATCH", string(testPool), armError(412, "PreconditionFailed", "changed"))
	wantKind(t, p.SetRecipe(t.Context(), change), cloud.Conflict)
}
