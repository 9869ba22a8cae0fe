package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/azure"
)

// TestDoctor examines real pools: one that is sound, one that Kamino refuses, and a credential that lost a
// permission.
func TestDoctor(t *testing.T) {
	install(t)
	sound, refused := sandbox.Pool(t, "name=sound,nodes=2"), sandbox.Pool(t, "name=sick,nodes=2,upgrade-policy=Automatic")
	type finding struct{ Level, Check, Subject, Reason, Message, Remedy string }
	examine := func(pool string, code int) []finding {
		t.Helper()
		result := sandbox.Run(t, nil, "kamino", "doctor", pool, "-o", "json")
		var report struct{ Findings []finding }
		if err := json.Unmarshal([]byte(result.Stdout), &report); err != nil {
			t.Fatalf("%v:\n%s%s", err, result.Stdout, result.Stderr)
		}
		if result.Code != code {
			t.Errorf("pool %s: exit code %d, want %d:\n%s", pool, result.Code, code, result.Stdout)
		}
		return slices.DeleteFunc(report.Findings, func(f finding) bool { return f.Level != "fail" })
	}
	if fails := examine(sound[0].Pool, 0); len(fails) > 0 {
		t.Errorf("a sound pool: %+v", fails)
	}
	if fails := examine(refused[0].Pool, 3); len(fails) != 1 || fails[0].Reason != "UpgradePolicyAutomatic" || !strings.Contains(fails[0].Remedy, "Manual") {
		t.Errorf("a pool with upgrade policy Automatic: %+v", fails)
	}
	const action = "Microsoft.Compute/snapshots/write"
	sandbox.Fault(t, azure.Fault{Name: "denied", Deny: action})
	if fails := examine(sound[0].Pool, 3); len(fails) != 1 || fails[0].Reason != "PermissionMissing" || !strings.Contains(fails[0].Message, action) {
		t.Errorf("without a permission: %+v", fails)
	}
}
