package process

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
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

// roomy is the heap up to which a command collects its garbage rarely.
const roomy = 192 << 20

// CollectLate lets a command that reads thousands of objects and ends collect its garbage rarely, as long as its heap is small: the
// collection was a third of its CPU time. GOGC in the environment takes precedence.
func CollectLate() {
	if os.Getenv("GOGC") != "" {
		return
	}
	late.Do(func() {
		debug.SetGCPercent(gcPercent)
		afterCollection(&collected{})
	})
}

var late sync.Once

// collected becomes garbage with each collection. An object without a pointer could share its memory with others.
type collected struct{ _ *collected }

func afterCollection(c *collected) {
	runtime.SetFinalizer(c, func(*collected) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(percentFor(int64(live[0].Value.Uint64())))
		afterCollection(&collected{})
	})
}

// percentFor is the target in percent that lets a heap of live bytes grow to what is roomy, within limits.
func percentFor(live int64) int { return int(min(gcPercent, max(100, 100*(roomy-live)/max(live, 1)))) }
