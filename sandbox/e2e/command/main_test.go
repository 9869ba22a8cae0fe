// Package command tests the sandbox's own command, and those commands of kamino's that look at pools and change nothing. Each
// test has a pool of its own.
package command

import (
	"os"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// sandbox is the one that the tests of this package share.
var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	os.Exit(sandboxtest.Main(m, world.Options{TimeScale: 200}, &sandbox))
}
