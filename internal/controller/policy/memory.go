package policy

import (
	"context"
	"math"
	"runtime/debug"
)

// The list of nodes of a large cluster makes twenty times as much garbage as live data. Collections delay the first decision,
// so the memory may grow meanwhile. Later heartbeats make little garbage.
const (
	// hurryGC and steadyGC are percentages for GOGC, before the end of the first pass and after the first pass.
	hurryGC  = 400
	steadyGC = 40
	// hurryLimit is the soft memory limit during the first pass, in bytes.
	hurryLimit = 160 << 20
	// goDefault is the default of GOGC.
	goDefault = 100
)

// hurry begins with the start of the controller: the process may wait for the Lease for months. hurry keeps a GOGC or
// GOMEMLIMIT of the user. hurry is a source without events.
func (r *Reconciler) hurry(context.Context, queue) error {
	if before := debug.SetGCPercent(hurryGC); before != goDefault {
		debug.SetGCPercent(before)
		return nil
	}
	r.hurries = true
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(hurryLimit)
	}
	return nil
}

// settle follows the first pass: the memory returns to the system, and the limits to their normal values.
func (r *Reconciler) settle() {
	if r.hurries {
		debug.SetGCPercent(steadyGC)
		if debug.SetMemoryLimit(-1) == hurryLimit {
			debug.SetMemoryLimit(math.MaxInt64)
		}
	}
	debug.FreeOSMemory()
}
