package karpenter

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestKilled kills the command of a capture after writes that need another: after the class of the workshop, without its NodeClaim; after
// the workshop's last NodeClaim write, before the class is deleted; after the class of the trial; and after the recipe, before the guards
// are read again. The result equals that of an undisturbed capture.
func TestKilled(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "killed")
	for _, pattern := range []string{
		`^POST .*/ec2nodeclasses$`, `^PATCH .*/nodeclaims/` + e.Pool + `-workshop-`, `^DELETE .*/nodeclaims/` + e.Pool + `-workshop-`,
		`^POST .*/nodeclaims$`, `^PATCH .*/ec2nodeclasses/` + e.Pool + `$`,
	} {
		reached, killed := make(chan struct{}), make(chan struct{})
		e.Barrier().After(sandboxtest.Request{Server: sandboxtest.APIServer, Pattern: pattern}, func() {
			close(reached)
			<-killed
		})
		process := e.capture()
		select {
		case <-reached:
		case <-process.Exited():
			t.Fatalf("the command ended with %d before it sent %s:\n%s", process.ExitCode(), pattern, process.Output())
		}
		e.Kill(process)
		close(killed)
		e.assertClaims(0)
	}
	since := metav1.Now()
	e.capture().ExpectExit(0, "now builds new nodes from version ")
	p := e.AssertSucceeded(e.Donor)
	e.waitClaims("Drifted", metav1.ConditionTrue)
	e.waitHeld(since)
	e.assertClaims(0)
	e.assertNothingBeside()
	if next := e.Grow(); e.VersionOf(next.Image) != p.Spec.Version {
		t.Errorf("node %s was built from %s, want version %s", next.Node, next.Image, p.Spec.Version)
	}
}
