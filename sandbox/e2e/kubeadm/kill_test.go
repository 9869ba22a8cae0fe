package kubeadm

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestKilledWithEachWrite kills each command of a capture with a write to the cloud: of a copy, and of a capture in place, whose donor
// returns. The result equals the result of an undisturbed capture.
func TestKilledWithEachWrite(t *testing.T) {
	if sandboxtest.CurrentCloud() != pool.AWS {
		t.Skip("this test runs on AWS")
	}
	kill := func(t *testing.T, e *sandboxtest.Env, args []string) {
		t.Helper()
		output := (&killer{TB: t, namespace: e.Namespace, rights: e.Environ, args: append(args, e.NamespaceFlags()...)}).killWithEachWrite()
		if want := "now builds new nodes from version "; !strings.Contains(output, want) {
			t.Fatalf("the last command did not write %q:\n%s", want, output)
		}
	}
	t.Run("copy", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, "name=killcopy,nodes=2")
		donor, identity := e.Machines[0], e.identityOf(e.Machines[0])
		kill(t, e.Env, sandboxtest.CaptureArgs(t, donor.Node))
		e.AssertCopied(e.Before, donor.Node)
		e.assertCopy(e.Grow(), e.NextVersion(), map[string]map[string]string{donor.Node: identity})
	})
	t.Run("inplace", func(t *testing.T) {
		t.Parallel()
		e := sandbox.NewEnv(t, "name=killinplace,nodes=2,profile=eks")
		kill(t, e, sandboxtest.CaptureArgs(t, e.Donor, "--method", string(v1alpha1.MethodInPlace)))
		e.AssertCaptured(e.Before, e.Donor)
		if m := e.Grow(); e.VersionOf(m.Image) != e.NextVersion() {
			t.Errorf("node %s was built from %s", m.Node, m.Image)
		}
	})
}

// maxKills is more than the number of writes of any capture. A capture with more writes makes no progress.
const maxKills = 60

// killer runs kamino repeatedly, and kills the processes.
type killer struct {
	testing.TB
	namespace    string
	args, rights []string
	// inFreeze: a process was killed at its snapshot of a disk in use.
	inFreeze bool
}

// killWithEachWrite kills each process at its first write to the cloud or management cluster, before and then after the effect.
// The last process makes no write; its output is returned.
func (k *killer) killWithEachWrite() (output string) {
	k.Helper()
	var deaths []string
	for nth := 1; ; {
		if len(deaths) > maxKills {
			k.Fatalf("killed %d processes, and the work is not done; writes: %v\n%s", len(deaths), deaths, output)
		}
		var wrote string
		for _, after := range []bool{false, true} {
			if wrote, output = k.killWithWrite(nth, after); wrote == "" {
				k.Logf("killed processes with the writes %v", deaths)
				return output
			}
		}
		if nth++; !slices.Contains(deaths, wrote) {
			nth = 1
		}
		deaths = append(deaths, wrote)
	}
}

// killWithWrite runs kamino until its nth write. The process is killed before the write reaches the server, or after
// its effect. killWithWrite returns the write, or an empty string if the process exited before. Only one process is killed at a
// snapshot of a disk in use, because only three copies are made, and a busy machine needs the others.
func (k *killer) killWithWrite(nth int, after bool) (wrote, output string) {
	k.Helper()
	var mu sync.Mutex
	var process *sandboxtest.Process
	writes := 0
	env := sandbox.Intercept(k, k.rights, func(to sandboxtest.Server, r *http.Request) sandboxtest.Handling {
		if to == sandboxtest.APIServer {
			return sandboxtest.Handling{}
		}
		mu.Lock()
		defer mu.Unlock()
		write, after := sandboxtest.WriteOf(r), after
		inFreeze := write == "CreateSnapshot" && strings.Contains(sandboxtest.RequestText(r), "-copy-")
		switch {
		case inFreeze && k.inFreeze:
			write = ""
		case inFreeze:
			after = true
		}
		if write != "" {
			writes++
		}
		kill := func() { process.Signal(syscall.SIGKILL) }
		switch {
		case write == "" || writes < nth:
			return sandboxtest.Handling{}
		case writes > nth: // sent before the process was dead
			return sandboxtest.Handling{Drop: true}
		}
		wrote, k.inFreeze = write, k.inFreeze || inFreeze
		if after {
			return sandboxtest.Handling{After: kill}
		}
		kill()
		return sandboxtest.Handling{Drop: true}
	})
	mu.Lock() // no request before there is a process
	process = sandbox.Start(k, env, "kamino", k.args...)
	mu.Unlock()
	code := process.ExitCode()
	mu.Lock()
	defer mu.Unlock()
	if wrote != "" {
		// The Lease would expire after half a minute.
		err := sandbox.Kube().CoordinationV1().Leases(k.namespace).Delete(k.Context(), v1alpha1.LeaseName, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			k.Fatal(err)
		}
		return wrote, process.Output()
	}
	if code != 0 {
		k.Fatalf("kamino %s ended with %d\n%s", strings.Join(k.args, " "), code, process.Output())
	}
	return "", process.Output()
}
