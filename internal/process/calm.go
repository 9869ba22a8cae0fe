package process

import (
	"os"
	"runtime"
	"runtime/debug"
)

// calmGC is the garbage collector's target, in percent: a capture leaves little garbage in its minutes.
const calmGC = 400

// Calm makes a process cheap that waits nearly all the time. One thread at a time runs Go code, because others
// would be woken for every answer only to find nothing to do; that is a fifth of what a capture costs. What
// the environment says of either counts more.
func Calm() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(calmGC)
	}
}
