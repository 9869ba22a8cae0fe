package azure

import (
	"cmp"
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const permissionsOf = testScope + "/providers/Microsoft.Authorization/permissions"

// TestPermissions: each action is listed once, with its scope, and actions that a capture does not need are marked.
func TestPermissions(t *testing.T) {
	a := newARM(t)
	a.lists[fold(permissionsOf)] = []any{map[string]any{
		"actions":    []any{"Microsoft.Compute/*"},
		"notActions": []any{"Microsoft.Compute/snapshots/delete", "*/reimage/action", "*/powerOff/action", "*/virtualMachineScaleSets/delete"},
	}}
	a.has(string(testPool), `{"properties": {"virtualMachineProfile": {"networkProfile": {"networkInterfaceConfigurations": [{"name": "nic", "properties": {
		"networkSecurityGroup": {"id": "`+networks+`/networkSecurityGroups/nsg"},
		"ipConfigurations": [{"name": "ip", "properties": {"subnet": {"id": "`+networks+`/virtualNetworks/v/subnets/s"}}}]}}]}}}}`)
	a.lists["/subscriptions/"+testSubscription+"/resourcegroups/net/providers/microsoft.authorization/permissions"] = []any{map[string]any{
		"actions": []any{joinSubnet},
	}}
	got, err := a.provider().Permissions(t.Context(), testPool)
	if err != nil {
		t.Fatal(err)
	}
	wanted := 5 // trials: deletion, second boot, console, subnet and security group
	for _, feature := range []string{"", cloud.ForCopy, cloud.ForInPlace, cloud.ForRebuild} {
		wanted += len(actionsFor(feature, "pool", "instance", "image"))
	}
	if len(got) != wanted {
		t.Errorf("%d permissions are listed", len(got))
	}
	var missing []cloud.Permission
	for _, p := range got {
		if p.Scope == "" {
			t.Errorf("%s is listed without its scope", p.Action)
		}
		if !p.Allowed {
			missing = append(missing, p)
		}
	}
	slices.SortFunc(missing, func(a, b cloud.Permission) int {
		return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(a.For, b.For))
	})
	want := []cloud.Permission{
		{Action: "Microsoft.Compute/snapshots/delete"}, {Action: actionsFor(cloud.ForCopy, "pool")[0], For: cloud.ForCopy},
		{Action: actionsFor(cloud.ForTrialApart, "pool")[0], For: cloud.ForTrialApart},
		{Action: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/powerOff/action", For: cloud.ForInPlace},
		{Action: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/reimage/action", For: cloud.ForRebuild},
		{Action: joinSecurity, For: cloud.ForTrialApart},
	}
	if !slices.EqualFunc(missing, want, func(a, b cloud.Permission) bool { return a.Action == b.Action && a.For == b.For }) {
		t.Errorf("missing: %+v", missing)
	}
	// If permissions in the other resource group cannot be listed, only the calls themselves show missing
	// permissions.
	a.next("GET", "/subscriptions/"+testSubscription+"/resourceGroups/net/providers/Microsoft.Authorization/permissions",
		armError(403, "AuthorizationFailed", "no"))
	got, err = a.provider().Permissions(t.Context(), testPool)
	if err != nil || slices.ContainsFunc(got, func(p cloud.Permission) bool { return p.Action == joinSecurity }) {
		t.Errorf("%v: %+v", err, got)
	}
}

func TestForbiddenPermissionList(t *testing.T) {
	a := newARM(t)
	a.next("GET", permissionsOf, armError(403, "AuthorizationFailed", "no"))
	_, err := a.provider().Permissions(t.Context(), testPool)
	wantKind(t, err, cloud.Denied)
}
