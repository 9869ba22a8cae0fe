// Package trial tests trials with the real command, on nodes that really join. A good version passes, a bad version
// fails at the check for its defect, and only the verdict is left. The defects are on the versions' disks.
package trial

import (
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/workload"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// sandbox is shared by the tests of this package, which run in parallel.
var sandbox *sandboxtest.Sandbox

// timeScale is how many seconds of the cloud pass in a second of a test.
const timeScale = 200

func TestMain(m *testing.M) {
	// Tests mostly wait. The command line wins.
	_ = flag.Set("test.parallel", "20")
	os.Exit(sandboxtest.EachCloud(m, world.Options{
		TimeScale: timeScale, NodeGrace: time.Minute,
		// The cloud's real times, half an hour for a version and five minutes for a patch, would test nothing more.
		Azure: region.AzureOptions{Latencies: azure.Latencies{Version: 6 * time.Minute}}, Machines: machine.Latencies{Patch: time.Minute},
	}, &sandbox))
}

// installOnce creates the objects of all tests: a workload on every node, and nodes for measurements. A trial uses
// the first nodes by name, which no test takes out of service.
var installOnce sync.Once

// newEnv creates a pool of two nodes.
func newEnv(t *testing.T, name string) *sandboxtest.Env {
	t.Helper()
	description := "name=" + name + ",nodes=2"
	if sandbox.Azure() != nil {
		description += ",profile=static"
	}
	return newEnvLike(t, description)
}

func newEnvLike(t *testing.T, description string) *sandboxtest.Env {
	t.Helper()
	sandbox.Install(t)
	installOnce.Do(func() {
		sandbox.SharedPool(t, "name=aaa,nodes=3")
		if err := workload.Apply(t.Context(), sandbox.Kube()); err != nil {
			t.Fatal(err)
		}
	})
	return sandbox.NewEnv(t, description)
}

// onlyOnAzure skips a test on other clouds, because the behavior is equal or exists only on Azure.
func onlyOnAzure(t *testing.T) {
	t.Helper()
	if sandbox.Azure() == nil {
		t.Skip("runs on Azure only")
	}
}

// Timeouts of a trial. Half of it limits each check.
const (
	// generous only ends a test that hangs.
	generous = time.Hour
	// short is for a version whose node never joins or is never seen Ready: the check waits for half of it.
	short = 3 * time.Minute
)

// captureArgs are the arguments of a capture with a trial, and with settings of the trial in YAML's flow form.
func captureArgs(e *sandboxtest.Env, timeout time.Duration, settings ...string) []string {
	settings = append(settings, "timeout: "+timeout.String())
	if !slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, "soak: ") }) {
		settings = append(settings, "soak: 6s")
	}
	return []string{"capture", e.Donor, "--trial", string(v1alpha1.TrialApart), "-f",
		sandboxtest.SettingsFile(e.T, "trial: {"+strings.Join(settings, ", ")+"}")}
}
