// Package trust lets image versions that are bad get into pools, with trials off: their nodes do not join, and the pools go
// back by themselves, or stay and say why. The controller is the real binary; it is killed around each of its writes. Versions
// are bad on their disks, and what fails is a kubelet, a network or a pod, as the sandbox has them.
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
	// The stories wait far more than they work. What is said on the command line wins.
	_ = flag.Set("test.parallel", "8")
	os.Exit(sandboxtest.EachCloud(m, world.Options{
		TimeScale: scale,
		// A node that is called lost because this computer is busy would speak against a version that is good.
		NodeGrace: time.Minute,
		// Half an hour for a version, and five minutes for a patch, would test nothing more.
		Azure: region.AzureOptions{Latencies: azure.Latencies{Version: 6 * time.Minute}}, Machines: machine.Latencies{Patch: time.Minute},
	}, &sandbox))
}
