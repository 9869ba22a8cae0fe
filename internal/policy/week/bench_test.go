package week

import (
	"runtime"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// The largest supported cluster, and the number of nodes per pool from the last minutes.
const (
	benchPools = 100
	benchNodes = 150
	benchFresh = 30
	// benchStep is the time between two passes. All passes of a run end before the new nodes are overdue.
	benchStep = 5 * time.Second
)

// BenchmarkJoinHealth runs a pass over 15,000 nodes in 100 watched pools: quiet, with nodes of a day, and joining, with
// 3,000 nodes of the last ten minutes, half of them not Ready. The memory between passes is reported in MiB.
func BenchmarkJoinHealth(b *testing.B) {
	for _, bench := range []struct {
		name  string
		fresh int
	}{{"quiet", 0}, {"joining", benchFresh}} {
		b.Run(bench.name, func(b *testing.B) {
			w := newTrust(b, 0, benchPools)
			clear(w.troubles)
			for _, id := range w.pools {
				for range benchNodes - bench.fresh - 6 {
					w.add(id)
				}
			}
			w.settle()
			w.clock.Advance(24 * time.Hour)
			for _, id := range w.pools {
				w.promote(id, 1, nil)
			}
			w.pass()
			before := heap()
			for _, id := range w.pools {
				for i := range bench.fresh {
					w.add(id)
					if i%2 == 0 {
						w.newborns[len(w.newborns)-1].joins = w.clock.Now()
					}
				}
			}
			w.kubelets()
			w.clock.Advance(10 * time.Minute)
			w.pass()
			after := heap()
			b.ResetTimer()
			for range b.N {
				w.clock.Advance(benchStep)
				w.pass()
			}
			b.StopTimer()
			watched := 0
			for _, pool := range w.api.policy.Status.Pools {
				if pool.JoinHealth != nil && pool.JoinHealth.State == string(joinhealth.Watching) {
					watched++
				}
			}
			if watched != benchPools {
				b.Fatalf("%d of %d pools are watched after %d passes", watched, benchPools, b.N)
			}
			b.ReportMetric(float64(after-before)/(1<<20), "MiB")
		})
	}
}

// settle makes all nodes Ready.
func (w *trustEnv) settle() {
	for _, m := range w.newborns {
		m.joins = w.clock.Now()
	}
	w.kubelets()
}

func (w *trustEnv) pass() {
	if _, err := w.policy.Pass(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// heap is the reachable memory, in bytes.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc) //nolint:gosec // no heap is so large
}
