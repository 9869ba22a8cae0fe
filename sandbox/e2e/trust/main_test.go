// Package trust rolls bad versions out to pools that try no version. Their nodes do not join, and the pools must go back by
// themselves. The controller is the real binary. Versions are bad on their disks; what fails is a kubelet, a network or a pod.
package trust

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

var sandbox *sandboxtest.Sandbox

const scale = 200

func TestMain(m *testing.M) {
	// Tests wait far more than they work. The command line has precedence.
	_ = flag.Set("test.parallel", "8")
	os.Exit(sandboxtest.EachCloud(m, world.Options{
		TimeScale: scale,
		// A node that is called lost on a busy computer would be evidence against a good version.
		NodeGrace: time.Minute,
		// Azure takes half an hour for a version, and a patch five minutes. That would test nothing more.
		Azure: region.AzureOptions{Latencies: azure.Latencies{Version: 6 * time.Minute}}, Machines: machine.Latencies{Patch: time.Minute},
	}, &sandbox))
}
