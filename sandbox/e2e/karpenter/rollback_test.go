package karpenter

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/unverified"
)

// policy watches a pool, and captures nothing: no node has been Ready for an hour since the patch.
const policy = `apiVersion: kamino.dev/v1alpha1
kind: PrototypePolicy
metadata:
  name: %[1]s
spec:
  pools: {names: [%[1]s]}
  rollback: {joinTimeout: 30s}
  settings:
    ` + unverified.Settings + "\n"

// TestRollback: pending pods get NodeClaims of a bad version, which are launched and never register. The controller promotes the former
// version again, and the next NodeClaim registers. The first NodeClaims are untouched throughout.
func TestRollback(t *testing.T) {
	e := newEnv(t, "rollback")
	first := time.Now().UTC().Format("2006.01.02")
	second := first + "02"
	e.Capture(e.Donor, "--version", first).ExpectExit(0)
	e.Grow()
	e.Capture(e.Donor, "--version", second).ExpectExit(0)
	e.Spoil(second, disk.Defect{Kind: disk.NeverJoins})
	e.assertClaims(1)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	e.Must(os.WriteFile(file, fmt.Appendf(nil, policy, e.Pool), 0o600))
	sandbox.Must(t, "kubectl", "apply", "--server-side", "-f", file)
	e.StartController()

	e.Resize(5)
	e.Eventually("two NodeClaims are launched and not registered", func() (bool, string) {
		launched := 0
		for _, c := range e.ofPool() {
			if conditionOf(c, "Launched") == metav1.ConditionTrue && conditionOf(c, "Registered") != metav1.ConditionTrue {
				launched++
			}
		}
		return launched == 2, fmt.Sprintf("%d NodeClaims", launched)
	})
	e.Eventually("Kamino rolls the pool back", func() (bool, string) { return e.NextVersion() == first, e.NextVersion() })
	e.assertClaims(3)
	e.Resize(6)
	e.Eventually("the version is quarantined", func() (bool, string) {
		why := e.Tags(second)[cloud.TagQuarantined]
		return strings.HasPrefix(why, "join health: "), why
	})
	e.assertClaims(4)
	ready := 0
	for _, c := range e.ofPool() {
		if conditionOf(c, "Registered") == metav1.ConditionTrue {
			ready++
		}
	}
	if class, is := e.class(); ready != 4 || len(sandboxtest.Marks(*class)) > 0 {
		t.Errorf("%d NodeClaims are registered, want 4; the class selects %s, with the annotations %v", ready, is, class.GetAnnotations())
	}
}
