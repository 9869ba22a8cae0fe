// Package trouble tests the product with failures that only a real process, API server or machine can show:
// signals, kills, expired credentials, hanging machines, forged reports. Each test runs the product's binary on its
// own pool, and asserts exit code, message and state of the pool.
package trouble

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// sandbox is shared by the tests of this package. A test runs in parallel with others, under its own Lease. Tests
// with a controller, which handles all Prototypes, run first and in sequence.
var sandbox *sandboxtest.Sandbox

// timeScale is how many seconds of the cloud pass in a second of a test.
const timeScale = 300

// nodeGrace is the silence after which a node is not Ready. On a busy machine a heartbeat, which is sent each
// second, can be many seconds late.
const nodeGrace = 20 * time.Second

// Exit codes of kamino.
const (
	exitRefused     = 3
	exitFailed      = 4
	exitInterrupted = 130
)

// today is the version of a test with several captures, because the version must not change at midnight.
var today = "--version=" + imageversion.Of(time.Now())

func TestMain(m *testing.M) {
	// Tests mostly wait for the cloud. The command line wins.
	_ = flag.Set("test.parallel", "12")
	os.Exit(sandboxtest.Main(m, world.Options{
		TimeScale: timeScale, NodeGrace: nodeGrace, Azure: region.AzureOptions{Latencies: azure.Latencies{Version: 10 * time.Minute}},
	}, &sandbox))
}
