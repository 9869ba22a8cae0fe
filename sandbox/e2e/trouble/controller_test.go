package trouble

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// The tests in this file do not run in parallel, because a controller handles all Prototypes.

// TestCommandFollowsTheController: a command hands its capture to the controller that starts later, and a second
// command follows the capture.
func TestCommandFollowsTheController(t *testing.T) {
	e := sandbox.NewEnv(t, "name=follow,nodes=2")
	publishing := e.Barrier().Hold(sandboxtest.CreateVersion)
	e.Capture(e.Donor, "--wait=false").ExpectExit(0, "No controller holds Kamino's Lease, so Prototype "+e.Group)
	if writes := e.Writes(); len(writes) > 0 {
		t.Errorf("the command began: %v", writes)
	}
	controller := e.StartController()
	publishing.Wait()
	follower := e.Capture(e.Donor)
	follower.WaitOutput("the controller ")
	publishing.Release()
	follower.ExpectExit(0, "A capture of node "+e.Donor+" is already running: following Prototype ")
	if follower.HasOutput("this command does the work") {
		t.Error("the command did the work of the controller")
	}
	e.AssertCaptured(e.Before, e.Donor)
	controller.Interrupt()
	controller.ExpectExit(0)
}

// TestPrototypeDeletedDuringCapture while the donor is out of service.
func TestPrototypeDeletedDuringCapture(t *testing.T) {
	e := sandbox.NewEnv(t, "name=kubectl,nodes=2")
	snapshot := e.Barrier().Hold(sandboxtest.CreateSnapshot)
	controller := e.StartController()
	e.Capture(e.Donor, "--wait=false").ExpectExit(0, "The controller ", " does the work")
	snapshot.Wait()
	name := e.Prototype().Name
	deletion := sandbox.Start(t, nil, "kubectl", "delete", "prototype", name)
	e.WaitPrototype("its Prototype is being deleted", func(p *v1alpha1.Prototype) bool { return p.DeletionTimestamp != nil })
	snapshot.Release()
	deletion.ExpectExit(0) // kubectl waits until it is gone
	e.AssertReturned(e.Before, e.Donor, 1)
	assertPrototypeGone(e, name)
	controller.Interrupt()
	controller.ExpectExit(0)
}

// assertPrototypeGone asserts that a Prototype does not exist.
func assertPrototypeGone(e *sandboxtest.Env, name string) {
	e.Helper()
	if _, err := e.PrototypeClient().Get(e.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		e.Errorf("prototype %s is still there: %v", name, err)
	}
}
