package policy

import (
	"context"
	"math"
	"runtime/debug"
)

// Listing the nodes of a large cluster makes twenty times as much garbage as is kept of them. There is room for some
// of it, and each search for it costs time that the first decision waits for. Once that is made, heartbeats make
// little garbage, so that a search is seldom even if it comes early.
const (
	// hurryGC and steadyGC are by how many percent memory may grow before it is searched for garbage, before the
	// first pass is over and from then on.
	hurryGC  = 400
	steadyGC = 40
	// hurryLimit bounds the growth meanwhile, in bytes; whatever is kept beyond it is kept all the same.
	hurryLimit = 160 << 20
	// goDefault is Go's own percentage.
	goDefault = 100
)

// hurry begins with the controller's start, not with the process, which may wait for the Lease for months. Whoever
// has set GOGC or GOMEMLIMIT keeps it. It is a source that has nothing to tell.
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

// settle follows the first pass: what was taken to be quick is given back at once, and not taken again.
func (r *Reconciler) settle() {
	if r.hurries {
		debug.SetGCPercent(steadyGC)
		if debug.SetMemoryLimit(-1) == hurryLimit {
			debug.SetMemoryLimit(math.MaxInt64)
		}
	}
	debug.FreeOSMemory()
}
