package process

import (
	"os"
	"runtime"
	"runtime/debug"
)

// gcPercent is the garbage collector's target in percent. A capture makes little garbage.
const gcPercent = 400

// LimitRuntime reduces the CPU time of a process that mostly waits. With one thread for Go code a capture costs a fifth less:
// other threads would wake for every response without work. GOMAXPROCS and GOGC in the environment take precedence.
func LimitRuntime() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
