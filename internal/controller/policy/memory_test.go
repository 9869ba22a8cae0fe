package policy

import (
	"math"
	"runtime/debug"
	"testing"
)

// collector returns the current settings of the garbage collector.
func collector() (percent int, limit int64) {
	percent = debug.SetGCPercent(goDefault)
	debug.SetGCPercent(percent)
	return percent, debug.SetMemoryLimit(-1)
}

func TestMemoryLimitDuringStart(t *testing.T) {
	t.Cleanup(func() {
		debug.SetGCPercent(goDefault)
		debug.SetMemoryLimit(math.MaxInt64)
	})
	for _, test := range []struct {
		what                 string
		percent              int
		limit                int64
		hurried, settled     int
		hurryLimit, endLimit int64
	}{
		{"no message", goDefault, math.MaxInt64, hurryGC, steadyGC, hurryLimit, math.MaxInt64},
		{"GOGC is set", 70, math.MaxInt64, 70, 70, math.MaxInt64, math.MaxInt64},
		{"GOMEMLIMIT is set", goDefault, 1 << 30, hurryGC, steadyGC, 1 << 30, 1 << 30},
	} {
		debug.SetGCPercent(test.percent)
		debug.SetMemoryLimit(test.limit)
		r := &Reconciler{}
		if err := r.hurry(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if percent, limit := collector(); percent != test.hurried || limit != test.hurryLimit {
			t.Errorf("%s: in a hurry %d %%, %d bytes", test.what, percent, limit)
		}
		r.settle()
		if percent, limit := collector(); percent != test.settled || limit != test.endLimit {
			t.Errorf("%s: settled at %d %%, %d bytes", test.what, percent, limit)
		}
	}
}
