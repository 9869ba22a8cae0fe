// Package trust rolls bad versions out to pools without trials. Their nodes do not join, and the pools must roll
// back automatically. The controller is the real binary. The defects are on the versions' disks, and break a
// kubelet, a network or a pod.
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
		// On a busy computer, a node that wrongly looks lost would be evidence against a good version.
		NodeGrace: time.Minute,
		// Azure needs half an hour for a version, and five minutes for a patch. The real latencies would test
		// nothing more.
		Azure: region.AzureOptions{Latencies: azure.Latencies{Version: 6 * time.Minute}}, Machines: machine.Latencies{Patch: time.Minute},
	}, &sandbox))
}
