// Package command tests the sandbox's own command, and read-only commands of kamino. Each test has its own pool.
package command

import (
	"os"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// sandbox is shared by the tests of this package.
var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	os.Exit(sandboxtest.Main(m, world.Options{TimeScale: 200}, &sandbox))
}
