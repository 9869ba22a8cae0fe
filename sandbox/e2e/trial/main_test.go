// Package trial has versions tried before a pool uses them, with the real command and on nodes that really join: good ones
// pass, bad ones fail at the check that is for them, and nothing but the verdict is left of either. Versions are bad on their
// disks.
package trial

import (
	"flag"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/workload"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// sandbox is the one that the tests of this package share. Each has a pool and a namespace of its own, and runs beside the
// others.
var sandbox *sandboxtest.Sandbox

// timeScale is how many seconds of the cloud pass in one of the tests.
const timeScale = 200

func TestMain(m *testing.M) {
	// Tests wait far more than they work. What is said on the command line wins.
	_ = flag.Set("test.parallel", "20")
	os.Exit(sandboxtest.EachCloud(m, world.Options{
		TimeScale: timeScale, NodeGrace: time.Minute,
		// Half an hour for a version, and five minutes for a patch, would test nothing more.
		Azure: region.AzureOptions{Latencies: azure.Latencies{Version: 6 * time.Minute}}, Machines: machine.Latencies{Patch: time.Minute},
	}, &sandbox))
}

var installing struct {
	sync.Mutex
	done bool
}

// install makes Kamino's objects, something that runs on every node, and nodes to measure from: the first by name, which no
// test takes out of service.
func install(t *testing.T) {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	if installing.done {
		return
	}
	sandbox.Install(t)
	sandbox.SharedPool(t, "name=aaa,nodes=3")
	if err := workload.Apply(t.Context(), sandbox.Kube()); err != nil {
		t.Fatal(err)
	}
	installing.done = true
}
