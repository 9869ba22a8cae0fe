package azure

import (
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	permissionsPath = testScope + "/providers/Microsoft.Authorization/permissions"
	usagesPath      = "/subscriptions/" + testSubscription + "/providers/Microsoft.Compute/locations/westus2/usages"
	galleriesPath   = "/subscriptions/" + testSubscription + "/providers/Microsoft.Compute/galleries"
)

// ready returns an ARM in which a capture can begin.
func ready(t *testing.T, pool, vm string) *fakeARM {
	t.Helper()
	a := newARM(t)
	a.pool(pool)
	a.vm(vm)
	a.lists[fold(permissionsPath)] = []any{object(t, `{"actions": ["*"], "notActions": []}`)}
	a.lists[fold(usagesPath)] = []any{object(t, `{"name": {"value": "StandardSnapshotCount"}, "currentValue": 3, "limit": 100, "unit": "Count"}`)}
	a.lists[fold(galleriesPath)] = []any{}
	return a
}

func TestPreflight(t *testing.T) {
	for _, test := range []struct {
		name, pool, vm string
		world          func(*fakeARM)
		reasons        []string
		says           string
	}{
		{name: "nothing in the way"},
		{name: "a definition of ours", world: func(a *fakeARM) { a.definition(goodDefinition) }},
		{name: "larger disk", pool: `{"properties": {"virtualMachineProfile": {"storageProfile": {"osDisk": {"diskSizeGB": 30}}}}}`,
			vm: `{"properties": {"storageProfile": {"osDisk": {"diskSizeGB": 80}}}}`, reasons: []string{"RootDiskTooLarge"},
			says: "OS disk of 80 GiB, but the model gives new instances 30 GiB"},
		{name: "equal disk", pool: `{"properties": {"virtualMachineProfile": {"storageProfile": {"osDisk": {"diskSizeGB": 80}}}}}`,
			vm: `{"properties": {"storageProfile": {"osDisk": {"diskSizeGB": 80}}}}`},
		{name: "automatic", pool: `{"properties": {"upgradePolicy": {"mode": "Automatic"}}}`, reasons: []string{cloud.NodesWouldBeReplaced}},
		{name: "reported once", pool: `{"properties": {"virtualMachineProfile": {"storageProfile": {"osDisk": {"diffDiskSettings": {"option": "Local"}}}}}}`,
			vm: `{"properties": {"storageProfile": {"osDisk": {"diffDiskSettings": {"option": "Local"}}}}}`, reasons: []string{cloud.DiskUnsupported}},
		{name: "version there", world: func(a *fakeARM) {
			a.definition(goodDefinition)
			a.has(testVersionID, `{"location": "westus2", "properties": {"provisioningState": "Succeeded"}}`)
		}, reasons: []string{cloud.VersionExists}, says: "already exists (complete)"},
		{name: "name taken", world: func(a *fakeARM) {
			a.lists[fold(galleriesPath)] = []any{map[string]any{"name": "sig_RG1", "location": "x", "id": strings.Replace(testGallery, "rg1", "other", 1)}}
		}, reasons: []string{galleryUnsuitable}, says: "resource group other"},
		{name: "permission", world: func(a *fakeARM) {
			a.lists[fold(permissionsPath)] = []any{object(a.t, `{"actions": ["*"], "notActions": ["Microsoft.Compute/snapshots/write"]}`)}
		}, reasons: []string{cloud.PermissionMissing}, says: "may not do Microsoft.Compute/snapshots/write on " + testScope},
		{name: "permissions unknown", world: func(a *fakeARM) {
			a.next("GET", permissionsPath, armError(403, "AuthorizationFailed", "no"))
		}},
		{name: "quota", world: func(a *fakeARM) {
			a.lists[fold(usagesPath)] = []any{object(a.t, `{"name": {"value": "StandardSnapshotCount"}, "currentValue": 100, "limit": 100, "unit": "Count"}`)}
		}, reasons: []string{string(cloud.QuotaExceeded)}, says: "100 of 100"},
		{name: "quotas unknown", world: func(a *fakeARM) { a.next("GET", usagesPath, armError(403, "AuthorizationFailed", "no")) }},
		{name: "galleries unknown", world: func(a *fakeARM) { a.next("GET", galleriesPath, armError(403, "AuthorizationFailed", "no")) }},
		{name: "generation", pool: `{"properties": {"virtualMachineProfile": {"securityProfile": {"securityType": "TrustedLaunch"}}}}`,
			world: func(a *fakeARM) {
				a.has(testScope+"/providers/Microsoft.Compute/disks/disk0", `{"location": "westus2", "properties": {"hyperVGeneration": "V1"}}`)
			}, reasons: []string{galleryUnsuitable}},
		{name: "encrypted within the VM", world: func(a *fakeARM) {
			a.has(testScope+"/providers/Microsoft.Compute/disks/disk0",
				`{"location": "westus2", "properties": {"hyperVGeneration": "V2", "encryptionSettingsCollection": {"enabled": true}}}`)
		}, reasons: []string{cloud.DiskUnsupported}, says: "disk0"},
		{name: "encryption set elsewhere", pool: `{"properties": {"virtualMachineProfile": {"storageProfile": {"osDisk": {"managedDisk": {"diskEncryptionSet":
			{"id": "` + testScope + `/providers/Microsoft.Compute/diskEncryptionSets/d"}}}}}}}`, world: func(a *fakeARM) {
			a.has(testScope+"/providers/Microsoft.Compute/diskEncryptionSets/d", `{"location": "eastus"}`)
		}, reasons: []string{galleryUnsuitable}, says: "region eastus"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := ready(t, test.pool, test.vm)
			if test.world != nil {
				test.world(a)
			}
			found, err := a.provider().Preflight(t.Context(), cloud.PreflightSpec{Pool: testPool, Instance: testInstance, Version: testVersion})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(reasons(found), append([]string{}, test.reasons...)) {
				t.Fatalf("found %v, want %v", found, test.reasons)
			}
			if len(found) > 0 && !strings.Contains(found[0].Message, test.says) {
				t.Errorf("message %q does not say %q", found[0].Message, test.says)
			}
			if made := a.made(); len(made) != 0 {
				t.Errorf("a look sent %v", made)
			}
			if len(a.calls) > 9 {
				t.Errorf("%d requests", len(a.calls))
			}
		})
	}
}

func TestPreflightErrors(t *testing.T) {
	spec := cloud.PreflightSpec{Pool: testPool, Instance: testInstance, Version: testVersion}
	_, err := newARM(t).provider().Preflight(t.Context(), spec)
	wantKind(t, err, cloud.NotFound)
	_, err = ready(t, "", "").provider().Preflight(t.Context(), cloud.PreflightSpec{Pool: testPool, Instance: testInstance, Version: "tomorrow"})
	wantKind(t, err, cloud.Invalid)
	a := ready(t, "", "")
	a.next("GET", permissionsPath, armError(401, "ExpiredAuthenticationToken", "old"))
	_, err = a.provider().Preflight(t.Context(), spec)
	wantKind(t, err, cloud.Unauthenticated)
}
