package week

import (
	"context"
	"math"
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
	// maxMemory is the limit of join tracking with its cohorts, in MiB; maxShare that of a core, with a pass each minute; and maxCopies that of a
	// pass, in copies of all nodes.
	maxMemory, maxShare, maxCopies = 20, 0.05, 25
)

// BenchmarkJoinHealth runs a pass over 15,000 nodes in 100 watched pools: quiet, with nodes of a day; joining, with 3,000 nodes of the last ten
// minutes, half of them not Ready; and cohorts, each minute, with 3,000 nodes of a version of yesterday, whose pods are sampled. The memory is
// that of the new nodes, and of what Kamino records of them. A core is compared by the time of one copy of all nodes on the same machine.
func BenchmarkJoinHealth(b *testing.B) {
	for _, bench := range []struct {
		name  string
		fresh int
		ages  time.Duration
		step  time.Duration
	}{{"quiet", 0, 10 * time.Minute, benchStep}, {"joining", benchFresh, 10 * time.Minute, benchStep}, {"cohorts", benchFresh, 24 * time.Hour, time.Minute}} {
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
					if i%2 == 0 || bench.step == time.Minute {
						w.newborns[len(w.newborns)-1].joins = w.clock.Now()
					}
				}
			}
			w.kubelets()
			sampled := w.samplePods()
			if bench.ages > time.Hour {
				w.clock.Advance(10 * time.Minute)
				w.pass()
			}
			w.clock.Advance(bench.ages)
			w.pass()
			after := heap()
			b.ResetTimer()
			for range b.N {
				w.clock.Advance(bench.step)
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
			if bench.step == time.Minute && (*sampled == 0 || *sampled > 40*(b.N+2)) {
				b.Fatalf("%d nodes were sampled in %d passes", *sampled, b.N)
			}
			w.limit(b, after-before, b.Elapsed()/time.Duration(b.N))
		})
	}
}

// samplePods lets each node run one workload well, and counts the sampled nodes.
func (w *trustEnv) samplePods() (sampled *int) {
	sampled = new(int)
	w.policy.NewNodes.Workloads = func(_ context.Context, nodes []string) (map[string]map[string]bool, error) {
		found := map[string]map[string]bool{}
		for _, node := range nodes {
			*sampled++
			found[node] = map[string]bool{"DaemonSet kube-system/proxy@1": true}
		}
		return found, nil
	}
	return sampled
}

// limit reports and limits the memory, and the time of a pass.
func (w *trustEnv) limit(b *testing.B, memory int64, pass time.Duration) {
	copies := time.Duration(math.MaxInt64)
	for range 5 {
		began := time.Now()
		for _, id := range w.pools {
			for _, n := range w.policy.Nodes.Of(id) {
				runtime.KeepAlive(n.DeepCopy())
			}
		}
		copies = min(copies, time.Since(began))
	}
	size, share, ratio := float64(memory)/(1<<20), pass.Seconds()/time.Minute.Seconds(), float64(pass)/float64(copies)
	b.ReportMetric(size, "MiB")
	b.ReportMetric(share*100, "%core")
	b.ReportMetric(ratio, "copies")
	if size > maxMemory || share > maxShare || ratio > maxCopies {
		b.Errorf("%.1f MiB, %.2f %% of a core, %.2f copies of all nodes; at most %d, %.0f and %d", size, share*100, ratio, maxMemory, maxShare*100, maxCopies)
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
