package process

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestCollectLate: a small heap is collected rarely, and a large one as Go does by default.
func TestCollectLate(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	percent := func() int { is := debug.SetGCPercent(100); debug.SetGCPercent(is); return is }
	CollectLate()
	if is := percent(); is != gcPercent {
		t.Fatalf("at the start %d percent", is)
	}
	large := make([]byte, roomy)
	for until := time.Now().Add(time.Minute); percent() != 100 && time.Now().Before(until); runtime.Gosched() {
		runtime.GC()
	}
	if is := percent(); is != 100 {
		t.Errorf("with %d bytes %d percent", len(large), is)
	}
	runtime.KeepAlive(large)
	for live, want := range map[int64]int{0: gcPercent, roomy / 5: gcPercent, roomy / 4: 300, roomy / 2: 100, 4 * roomy: 100} {
		if is := percentFor(live); is != want {
			t.Errorf("%d live bytes: %d percent, want %d", live, is, want)
		}
	}
}
