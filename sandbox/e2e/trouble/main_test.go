// Package trouble tests what the product does when something is wrong: bad input, clouds that refuse,
// machines that do not come back, processes that die, clocks that are off. Each test runs the product's own
// binary on a pool of its own and asserts the exit code, the sentence, and the state of the world.
package trouble

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// sandbox is the one that the tests of this package share.
//
// A test runs in parallel with others, in a namespace and so under a Lease of its own, unless what it does
// reaches beyond its pool: a controller carries out everybody's Prototypes, and a permission that is taken
// away is missed by all. Those tests come first, one after the other.
var sandbox *sandboxtest.Sandbox

// timeScale is how many seconds of the cloud pass in one of the tests.
const timeScale = 300

// nodeGrace is how long a node may be silent before it is not Ready. On a machine that is busy with other
// things a heartbeat, which comes each second, can be many seconds late.
const nodeGrace = 20 * time.Second

func TestMain(m *testing.M) {
	// Tests wait for the cloud far more than they work. What is said on the command line wins.
	_ = flag.Set("test.parallel", "12")
	os.Exit(sandboxtest.Main(m, world.Options{
		TimeScale: timeScale, NodeGrace: nodeGrace, Azure: region.AzureOptions{Latencies: azure.Latencies{Version: 10 * time.Minute}},
	}, &sandbox))
}
