package azure

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// customDataGiven has the settings that Azure does not return, from the operator.
var customDataGiven = map[string][]byte{"customData": []byte("#cloud-config needle\n")}

// promoted returns a scale set after its first promotion, and the removed settings.
func promoted(t *testing.T, changes string) (*fakeARM, cloud.Provider, cloud.Saved) {
	t.Helper()
	a := newARM(t)
	a.pool(changes)
	p := a.provider()
	change, err := p.RecipeChange(t.Context(), testImage, true)
	if err == nil {
		err = p.SetRecipe(t.Context(), change)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.calls = nil
	return a, p, cloud.Saved{Backup: change.Backup, Given: customDataGiven}
}

// TestRestorePatch: one write restores image, customData, extensions and their dependencies, and keeps all other
// settings.
func TestRestorePatch(t *testing.T) {
	a, p, saved := promoted(t, "")
	change, err := p.RestoreChange(t.Context(), testPool, saved)
	if err != nil {
		t.Fatal(err)
	}
	says := strings.Join(cloud.DescribeFields(change.Adds), "; ")
	if want := "customData (21 bytes, sha256 "; !strings.HasPrefix(says, want) || !strings.Contains(says, "extension vmssCSE ("+withoutProtected) ||
		strings.Contains(says, "needle") {
		t.Errorf("it says %s", says)
	}
	if doubtful := cloud.Unreadable(change.Adds); len(doubtful) != 1 || doubtful[0].Name != "vmssCSE" {
		t.Errorf("of these more may have been lost: %+v", doubtful)
	}
	whole := cloud.Saved{Backup: saved.Backup,
		Given: map[string][]byte{"customData": customDataGiven["customData"], "extension vmssCSE": []byte(`{"a": "needle"}`)}}
	if change, err := p.RestoreChange(t.Context(), testPool, whole); err != nil || len(cloud.Unreadable(change.Adds)) != 0 {
		t.Errorf("with all that was lost given: %+v, %v", change.Adds, err)
	}
	if err := p.SetRecipe(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	sent := a.last("PATCH", "/pool1")
	want := object(t, `{
		"tags": {"cluster": "one", "kamino-bootstrap-removed": ""},
		"properties": {"virtualMachineProfile": {
			"storageProfile": {"imageReference": {"id": null, "publisher": "Canonical", "offer": "ubuntu-24_04-lts", "sku": "server", "version": "latest"}},
			"osProfile": {"customData": "`+base64.StdEncoding.EncodeToString(customDataGiven["customData"])+`"},
			"extensionProfile": {"extensions": [
				{"name": "monitor", "properties": {"publisher": "Microsoft.Azure.Monitor", "type": "AzureMonitorLinuxAgent", "typeHandlerVersion": "1.0", "provisionAfterExtensions": ["vmssCSE"]}},
				{"name": "cluster-AKSLinuxBilling", "properties": {"publisher": "Microsoft.AKS", "type": "Compute.AKS-Engine.Linux.Billing", "typeHandlerVersion": "1.0"}},
				{"name": "vmssCSE", "properties": {"publisher": "Microsoft.Azure.Extensions", "type": "CustomScript", "typeHandlerVersion": "2.1", "settings": {"commandToExecute": "join"}}}
			]}
		}}}`)
	if diff := cmp.Diff(want, sent.Body); diff != "" || sent.IfMatch != `"1"` {
		t.Errorf("with If-Match %s (-want +sent):\n%s", sent.IfMatch, diff)
	}
	if err := p.SetRecipe(t.Context(), change); err != nil || len(a.made()) != 1 {
		t.Errorf("repeated: %v, sent %v", err, a.made())
	}
	if again, err := p.RestoreChange(t.Context(), testPool, saved); err != nil || !again.Done {
		t.Errorf("afterwards: %+v, %v", again, err)
	}
	if fresh, err := p.RecipeChange(t.Context(), testImage, true); err != nil || !cloud.HasField(fresh.Removes, customData) || len(fresh.Removes) != 2 {
		t.Errorf("a promotion afterwards: %+v, %v", fresh, err)
	}
}

// protectedCSE has its command in protected settings, which Azure does not return.
const protectedCSE = `{"properties": {"virtualMachineProfile": {"extensionProfile": {"extensions": [
	{"name": "vmssCSE", "properties": {"publisher": "Microsoft.Azure.Extensions", "type": "CustomScript", "typeHandlerVersion": "2.1"}}]}}}}`

func TestRestoreProtectedSettings(t *testing.T) {
	a, p, saved := promoted(t, protectedCSE)
	change, err := p.RestoreChange(t.Context(), testPool, saved)
	if err != nil || len(change.Missing) != 1 ||
		!strings.Contains(change.Missing[0].Describe(), "extension vmssCSE (the command is in the protected settings") {
		t.Fatalf("%+v, %v", change, err)
	}
	saved.Given = map[string][]byte{"customData": []byte("x"), "extension vmssCSE": []byte("join")}
	_, err = p.RestoreChange(t.Context(), testPool, saved)
	wantKind(t, err, cloud.Invalid)
	saved.Given["extension vmssCSE"] = []byte(`{"commandToExecute": "join"}`)
	if change, err = p.RestoreChange(t.Context(), testPool, saved); err != nil || len(change.Missing) != 0 {
		t.Fatalf("%+v, %v", change, err)
	}
	if err := p.SetRecipe(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(a.last("PATCH", "/pool1").Body)
	if err != nil || !strings.Contains(string(text), `"protectedSettings":{"commandToExecute":"join"}`) {
		t.Errorf("sent %s, %v", text, err)
	}
}

// TestRestoreWithoutLoss: if nodes join automatically, the bootstrap stays, and the operator need not pass any
// setting.
func TestRestoreWithoutLoss(t *testing.T) {
	a := newARM(t)
	a.pool("")
	p := a.provider()
	promoted, err := p.RecipeChange(t.Context(), testImage, false)
	if err == nil {
		err = p.SetRecipe(t.Context(), promoted)
	}
	if err != nil {
		t.Fatal(err)
	}
	change, err := p.RestoreChange(t.Context(), testPool, cloud.Saved{Backup: promoted.Backup})
	if err != nil || len(change.Missing) != 0 || len(change.Adds) != 0 || change.Done {
		t.Fatalf("%+v, %v", change, err)
	}
	if err := p.SetRecipe(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(a.last("PATCH", "/pool1").Body)
	if err != nil || strings.Contains(string(text), "customData") || !strings.Contains(string(text), "ubuntu-24_04-lts") {
		t.Errorf("sent %s, %v", text, err)
	}
}

// TestRestoreOldBackup reads a backup of an earlier format, without names of parts.
func TestRestoreOldBackup(t *testing.T) {
	_, p, saved := promoted(t, protectedCSE)
	old := object(t, string(saved.Backup))
	delete(old, "removes")
	delete(old, "waits")
	old["unreadable"] = []any{"customData (a node with customData has a copy)", "extension vmssCSE"}
	saved.Backup, _ = json.Marshal(old)
	change, err := p.RestoreChange(t.Context(), testPool, saved)
	if err != nil || len(change.Adds) != 1 || !cloud.HasField(change.Adds, customData) || !cloud.HasField(change.Missing, extensionPart("vmssCSE")) {
		t.Errorf("%+v, %v", change, err)
	}
}

// TestRestoreKeepsChanges: an extension that an operator added meanwhile stays. A version of the pool's own family
// stays, because only a rollback replaces it.
func TestRestoreKeepsChanges(t *testing.T) {
	a, p, saved := promoted(t, "")
	stale, err := p.RestoreChange(t.Context(), testPool, saved)
	if err != nil {
		t.Fatal(err)
	}
	a.documents[fold(string(testPool))] = merge(a.documents[fold(string(testPool))], object(t, `{"properties": {"virtualMachineProfile": {"extensionProfile": {"extensions": [
		{"name": "vmssCSE", "properties": {"publisher": "ours", "type": "better", "typeHandlerVersion": "1.0"}}]}}}}`))
	wantKind(t, p.SetRecipe(t.Context(), stale), cloud.Conflict)
	change, err := p.RestoreChange(t.Context(), testPool, saved)
	if err != nil || cloud.HasField(change.Adds, extensionPart("vmssCSE")) || !cloud.HasField(change.Keeps, extensionPart("vmssCSE")) {
		t.Fatalf("%+v, %v", change, err)
	}
	if err := p.SetRecipe(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if text, _ := json.Marshal(a.documents[fold(string(testPool))]); !strings.Contains(string(text), `"type":"better"`) {
		t.Errorf("the scale set is %s", text)
	}

	own := newARM(t)
	own.pool(`{"properties": {"virtualMachineProfile": {"storageProfile": {"imageReference": {"id": "` + testDefinition +
		`/versions/2026.11.20", "publisher": null, "offer": null, "sku": null, "version": null}}}}}`)
	p = own.provider()
	promotion, err := p.RecipeChange(t.Context(), testImage, true)
	if err == nil {
		err = p.SetRecipe(t.Context(), promotion)
	}
	if err != nil {
		t.Fatal(err)
	}
	change, err = p.RestoreChange(t.Context(), testPool, cloud.Saved{Backup: promotion.Backup, Given: customDataGiven})
	if err != nil || change.To != change.From || !cloud.HasField(change.Adds, customData) || !cloud.HasField(change.Adds, extensionPart("vmssCSE")) {
		t.Fatalf("%+v, %v", change, err)
	}
	if err := p.SetRecipe(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if pool, err := p.Pool(t.Context(), testPool); err != nil || pool.Recipe.Version != testVersion || len(pool.Recipe.Bootstrap) != 1 {
		t.Errorf("%+v, %v", pool, err)
	}
}

// TestRestoreRetriesLostWrite: Azure accepts a write without effect.
func TestRestoreRetriesLostWrite(t *testing.T) {
	a, p, saved := promoted(t, "")
	change, err := p.RestoreChange(t.Context(), testPool, saved)
	if err != nil {
		t.Fatal(err)
	}
	a.ignore[fold(string(testPool))] = 1
	if err := p.SetRecipe(t.Context(), change); err != nil || len(a.made()) != 2 {
		t.Errorf("a write that did not stick once: %v, sent %v", err, a.made())
	}
	a, p, saved = promoted(t, "")
	a.ignore[fold(string(testPool))] = 99
	if change, err = p.RestoreChange(t.Context(), testPool, saved); err != nil {
		t.Fatal(err)
	}
	wantKind(t, p.SetRecipe(t.Context(), change), cloud.Conflict)
	if made := a.made(); len(made) != maxRecipeWrites {
		t.Errorf("sent %v", made)
	}
}

// TestRestoreTooLarge: settings over the limits of Azure are refused, also before a promotion.
func TestRestoreTooLarge(t *testing.T) {
	a := newARM(t)
	a.pool("")
	p := a.provider()
	promotion, err := p.RecipeChange(t.Context(), testImage, true)
	if err != nil {
		t.Fatal(err)
	}
	for size, refused := range map[int]bool{1: false, maxCustomData: false, maxCustomData + 1: true} {
		back, err := p.RestoreChange(t.Context(), testPool, cloud.Saved{Backup: promotion.Backup, Given: map[string][]byte{"customData": make([]byte, size)}})
		if err != nil || len(back.Refusals) > 0 != refused || refused && back.Refusals[0].Reason != cloud.CustomDataUnusable {
			t.Errorf("%d bytes: %v, %v", size, back.Refusals, err)
		}
	}
}
