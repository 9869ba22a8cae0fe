package command

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// TestDoctor examines real pools: a good pool, a refused pool, and a pool whose credential lost a permission.
func TestDoctor(t *testing.T) {
	sandbox.Install(t)
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
	if fails := examine(refused[0].Pool, 3); len(fails) != 1 || fails[0].Reason != "NodesWouldBeReplaced" || !strings.Contains(fails[0].Remedy, "Manual") {
		t.Errorf("a pool with upgrade policy Automatic: %+v", fails)
	}
	const action = "Microsoft.Compute/snapshots/write"
	sandbox.Fault(t, fault.Fault{Name: "denied", Deny: action})
	if fails := examine(sound[0].Pool, 3); len(fails) != 1 || fails[0].Reason != "PermissionMissing" || !strings.Contains(fails[0].Message, action) {
		t.Errorf("without a permission: %+v", fails)
	}
}

// TestDoctorAsAServiceAccount reviews the rights of three accounts at a real API server: a controller, an account
// with half of the controller's roles, and an account without rights.
func TestDoctorAsAServiceAccount(t *testing.T) {
	sandbox.Install(t)
	pool := sandbox.Pool(t, "name=asked,nodes=2")[0].Pool
	sandbox.Must(t, "kubectl", "create", "clusterrolebinding", "half", "--clusterrole=kamino-engine", "--serviceaccount=kamino-system:half")
	defer sandbox.Must(t, "kubectl", "delete", "clusterrolebinding", "half")
	for account, test := range map[string]struct {
		code     int
		says     []string
		saysNone string
	}{
		"kamino-engine": {0, []string{"kamino-engine has all "}, "fail "},
		"half": {3, []string{"half may not create leases.coordination.k8s.io in namespace kamino-system; ",
			"create secrets in namespace kamino-system"}, "nodes;"},
		"default": {5, []string{"system:serviceaccount:kamino-system:default", "nodes"}, "ok "},
	} {
		result := sandbox.Run(t, nil, "kamino", "doctor", pool, "--as", "system:serviceaccount:kamino-system:"+account)
		messages := result.Stdout + result.Stderr
		if result.Code != test.code || strings.Contains(messages, test.saysNone) {
			t.Errorf("%s: exit code %d, want %d, without %q:\n%s", account, result.Code, test.code, test.saysNone, messages)
		}
		for _, text := range test.says {
			if !strings.Contains(messages, text) {
				t.Errorf("%s: it is not said that %q:\n%s", account, text, messages)
			}
		}
	}
}
