package conformance

import (
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

// TestAWSConditionalPolicies checks that only a known denial of IAM prevents a capture.
func TestAWSConditionalPolicies(t *testing.T) {
	const action = "autoscaling:EnterStandby"
	for name, test := range map[string]struct {
		fault   fault.Fault
		refused bool
		// listed: Kamino knows whether the action is allowed.
		listed bool
	}{
		"condition on the region":  {fault.Fault{Deny: action, Code: "condition", Message: "aws:RequestedRegion"}, false, true},
		"condition on a tag":       {fault.Fault{Deny: action, Code: "condition", Message: "aws:ResourceTag/team"}, false, false},
		"denied by organization":   {fault.Fault{Deny: action, Code: "scp"}, false, false},
		"denied by boundary":       {fault.Fault{Deny: action, Code: "boundary"}, false, false},
		"denied by its own policy": {fault.Fault{Deny: action}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroup(t, atOnce, "1")
			w.fault(test.fault)
			found, err := w.recipes.PreflightRecipe(t.Context(), cloud.PreflightSpec{Pool: w.pool, Instance: w.ids[0], Version: "2026.03.14"})
			w.must(err)
			if got := slices.ContainsFunc(found, func(r cloud.Refusal) bool { return r.Reason == cloud.PermissionMissing }); got != test.refused {
				t.Errorf("refused %t, want %t: %+v", got, test.refused, found)
			}
			all, err := w.recipes.Permissions(t.Context(), w.pool)
			w.must(err)
			at := slices.IndexFunc(all, func(p cloud.Permission) bool { return p.Action == action })
			if listed := at >= 0; listed != test.listed || listed && all[at].Allowed == test.refused {
				t.Errorf("permissions: %+v", all)
			}
		})
	}
}

// TestAWSUsedPermissions checks that a call that AWS just allowed is no missing permission, whatever IAM reports.
func TestAWSUsedPermissions(t *testing.T) {
	const action = "ec2:DescribeLaunchTemplateVersions"
	w := newGroup(t, atOnce, "1")
	w.fault(fault.Fault{Deny: action, Code: "simulated"})
	allowed := func() bool {
		all, err := w.recipes.Permissions(t.Context(), w.pool)
		w.must(err)
		at := slices.IndexFunc(all, func(p cloud.Permission) bool { return p.Action == action })
		return at >= 0 && all[at].Allowed
	}
	if allowed() {
		t.Fatal("IAM denies the action, and Kamino has not used the action")
	}
	_, err := w.recipes.Pool(t.Context(), w.pool)
	w.must(err)
	if !allowed() {
		t.Error("AWS allowed the action, but the permission is missing")
	}
}
