package azure

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const permissionsOf = testScope + "/providers/Microsoft.Authorization/permissions"

// TestPermissions names every action once, with its place, and tells those that captures do without.
func TestPermissions(t *testing.T) {
	a := newARM(t)
	a.lists[fold(permissionsOf)] = []any{map[string]any{
		"actions": []any{"Microsoft.Compute/*"}, "notActions": []any{"Microsoft.Compute/snapshots/delete", "*/reimage/action", "*/virtualMachines/delete", "*/virtualMachineScaleSets/delete"},
	}}
	got, err := as[cloud.Auditor](a.provider()).Permissions(t.Context(), testPool)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(RequiredActions())+len(RebuildActions())+len(RemoveActions())+len(TrialActions()) {
		t.Errorf("%d permissions are told", len(got))
	}
	var missing []cloud.Permission
	for _, p := range got {
		if p.Scope == "" {
			t.Errorf("%s is told without its place", p.Action)
		}
		if !p.Allowed {
			missing = append(missing, p)
		}
	}
	if len(missing) != 4 || missing[3].Action != "Microsoft.Compute/snapshots/delete" || missing[3].For != "" || missing[0].For == "" ||
		missing[1].Action != RemoveActions()[0] || missing[1].For != cloud.ForRemoval ||
		missing[2].Action != TrialActions()[0] || missing[2].For != cloud.ForTrial {
		t.Errorf("missing: %+v", missing)
	}
}

func TestPermissionsThatMayNotBeListed(t *testing.T) {
	a := newARM(t)
	a.next("GET", permissionsOf, armError(403, "AuthorizationFailed", "no"))
	_, err := as[cloud.Auditor](a.provider()).Permissions(t.Context(), testPool)
	wantKind(t, err, cloud.Denied)
}
