package trouble

import (
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestInterruptedAndResumed: Ctrl-C releases the Lease and says how to go on.
func TestInterruptedAndResumed(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=sigint,nodes=2")
	snapshot := e.Barrier().Hold(sandboxtest.CreateSnapshot)
	first := e.Capture(e.Donor)
	snapshot.Wait()
	first.Interrupt()
	snapshot.Release()
	first.ExpectExit(exitInterrupted, "interrupted. Nothing is lost: Prototype ", "kamino capture "+e.Donor, "kamino cancel ",
		"Node "+e.Donor+" stays out of service until you run a command above")
	lease, err := e.Kube().CoordinationV1().Leases(e.Namespace).Get(t.Context(), v1alpha1.LeaseName, metav1.GetOptions{})
	if err != nil || *lease.Spec.HolderIdentity != "" {
		t.Errorf("the Lease is not released: %+v, %v", lease, err)
	}
	e.Capture(e.Donor).ExpectExit(0, "A capture of node "+e.Donor+" is already running: following Prototype ")
	e.AssertCaptured(e.Before, e.Donor)
}

// TestKilledAndTheLeaseRunsOut: the next command waits until the Lease of the killed command expires.
func TestKilledAndTheLeaseRunsOut(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=lease,nodes=2")
	publishing := e.Barrier().Hold(sandboxtest.CreateVersion)
	first := e.Capture(e.Donor)
	publishing.Wait()
	first.Kill()
	publishing.Release()
	e.Capture(e.Donor).ExpectExit(0, "does the work now; this command continues afterwards", "this command does the work")
	e.AssertCaptured(e.Before, e.Donor)
}

// TestKilledAndResumed: three commands capture by a copy. The first is killed when the copy is a disk, the second during the publishing.
func TestKilledAndResumed(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=sigkill,nodes=2,profile=bootstrap")
	file := filepath.Join(t.TempDir(), "cloud-init.yaml")
	e.Must(os.WriteFile(file, specOf(e, e.Donor).CustomData, 0o600))
	grantSecrets(e)
	args := sandboxtest.CaptureArgs(t, e.Donor, "--method", string(v1alpha1.MethodCopy), "--custom-data", file)
	for _, request := range []sandboxtest.Request{sandboxtest.CreateDisk, sandboxtest.CreateVersion} {
		killAt(e, request, args...)
	}
	e.Start(args...).ExpectExit(0)
	e.AssertCopied(e.Before, e.Donor)
	for write, want := range map[string]int{"snapshot put": 2, "disk put": 1, "version put": 1} { // the copy, and the cleaned copy
		if n := e.CountWrites(write); n != want {
			t.Errorf("there were %d writes %q, want %d: %v", n, write, want, e.Writes())
		}
	}
}

// killAt runs kamino, kills the process after the effect of the first matching request, and frees the Lease.
func killAt(e *sandboxtest.Env, r sandboxtest.Request, args ...string) {
	e.Helper()
	started := make(chan *sandboxtest.Process, 1)
	e.Barrier().After(r, func() { (<-started).Kill() })
	p := e.Start(args...)
	started <- p
	p.ExpectExit(-1)
	e.FreeLease()
}
