package karpenter

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// unguarded are the budgets of a NodePool whose owner took the guard away, and guarded those with the guard.
const (
	unguarded = `[{"nodes":"10%"}]`
	guarded   = `[{"nodes":"10%"},{"nodes":"0","reasons":["Drifted"]}]`
)

// TestGuardTakenAway: the owner of the NodePool removes the guard after Kamino has read it and written the class. Kamino writes the
// former terms again, before Karpenter replaces a node. Without the guard, no capture begins. With the guard, `kamino promote` continues.
func TestGuardTakenAway(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "guard")
	_, former := e.class()
	write := sandboxtest.Request{Server: sandboxtest.APIServer, Pattern: `^PATCH .*/ec2nodeclasses/` + e.Pool + `$`, Texts: []string{"amiSelectorTerms"}}
	e.Barrier().After(write, func() { e.setBudgets(unguarded) })
	e.Capture(e.Donor).ExpectExit(exitFailed, "a disruption budget was removed during the promotion, so Kamino wrote the former image again")
	class, is := e.class()
	if marks := sandboxtest.Marks(*class); is != former || len(marks) > 0 {
		t.Errorf("the class selects %s, want %s as before, with the marks %v", is, former, marks)
	}
	e.waitClaims("Drifted", metav1.ConditionFalse)
	e.assertClaims(0)

	e.Capture(e.Donor).ExpectExit(exitRefused, "NodesWouldBeReplaced", "kubectl patch nodepool "+e.Pool)
	e.setBudgets(guarded)
	since := metav1.Now()
	e.Start("promote", e.Pool, e.Versions()[0].Name).ExpectExit(0)
	e.waitClaims("Drifted", metav1.ConditionTrue)
	e.waitHeld(since)
	e.assertClaims(0)
	e.assertNothingBeside()
}
