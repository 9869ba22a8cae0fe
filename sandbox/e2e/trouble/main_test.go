// Package trouble tests what the product does when something goes wrong that only a real process, API server or machine can show:
// signals, kills, expired credentials, machines that hang, forged reports. Each test runs the product's own binary on a pool of
// its own and asserts the exit code, the message, and the state of the pool.
package trouble

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// sandbox is shared by the tests of this package. A test runs in parallel with others, under a Lease of its own, unless it
// starts a controller, which works for all Prototypes. Those tests come first, one after the other.
var sandbox *sandboxtest.Sandbox

// timeScale is how many seconds of the cloud pass in a second of a test.
const timeScale = 300

// nodeGrace is how long a node may be silent before it is not Ready. On a busy machine a heartbeat, which is sent each second,
// can be many seconds late.
const nodeGrace = 20 * time.Second

// Exit codes of kamino.
const (
	exitRefused     = 3
	exitFailed      = 4
	exitInterrupted = 130
)

// today is the version of a test with several captures: it must not change at midnight.
var today = "--version=" + imageversion.Of(time.Now())

func TestMain(m *testing.M) {
	// Tests mostly wait for the cloud. The command line wins.
	_ = flag.Set("test.parallel", "12")
	os.Exit(sandboxtest.Main(m, world.Options{
		TimeScale: timeScale, NodeGrace: nodeGrace, Azure: region.AzureOptions{Latencies: azure.Latencies{Version: 10 * time.Minute}},
	}, &sandbox))
}
