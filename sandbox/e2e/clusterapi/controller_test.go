package clusterapi

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// policy captures at once after a patch, and tries each version. A node has joined after ten seconds in state
// Ready.
const policy = `apiVersion: kamino.dev/v1alpha1
kind: PrototypePolicy
metadata:
  name: %[1]s
spec:
  pools: {names: [%[1]s]}
  selection: {minReadyTime: 0s}
  rollback: {joinTimeout: 30s}
  settings:
    trial: {mode: Apart, soak: 1s}
`

// TestController lets the controller capture a patched node by copy, the default. Then the controller observes a node of the version join.
func TestController(t *testing.T) {
	onlyOn(t, pool.AWS)
	e := newEnv(t, "controlled")
	e.patchDonor()
	donor := e.Machine(e.Donor)
	controller := e.StartController()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	e.Must(os.WriteFile(file, fmt.Appendf(nil, policy, e.Pool), 0o600))
	sandbox.Must(t, "kubectl", "apply", "--server-side", "-f", file)

	e.WaitPrototype("its capture ends", sandboxtest.Ended)
	p := e.AssertSucceeded(e.Donor)
	if method := p.Spec.Settings.Donor.Method; method != v1alpha1.MethodCopy {
		t.Errorf("the method is %s", method)
	}
	e.assertWhole(2)
	e.assertUntouched(donor)
	e.assertUntouched(e.Machines[1])
	e.grow(p.Spec.Version)
	e.Eventually("the policy has seen the node join", func() (bool, string) {
		joined := sandbox.Must(t, "kubectl", "get", "prototypepolicy", e.Pool, "-o", "jsonpath={.status.pools[0].joinHealth.joined}")
		return joined == "1", joined
	})
	e.assertWhole(3)
	controller.Kill()
	sandbox.Must(t, "kubectl", "delete", "prototypepolicy", e.Pool)
}
