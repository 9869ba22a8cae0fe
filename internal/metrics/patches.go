package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/internal/policy"
)

var (
	pendingPatchesDesc = gauge("pool_pending_patches",
		"Patches that nodes of the pool's image lack, at the last check that read all repositories, by pool and set.", "pool", "set")
	patchesUncheckedDesc = gauge("pool_patches_unchecked",
		"1 while the last check for patches of the pool had no answer, by pool and reason.", "pool", "reason")
	patchesBadDesc = gauge("pool_patches_quarantined", "1 while the pending patches of the pool have failed on a pioneer, else 0, by pool.", "pool")
)

var uncheckedReasons = setOf(patch.Reasons()...)

// patches are the pending patches at the last pass.
type patches struct {
	mu  sync.Mutex
	all map[string]policy.Patches
}

// Patches sets the pending patches of all pools. Pools with equal names share a series: the pool with most patches.
func (m *Metrics) Patches(all []policy.Patches) {
	byName := map[string]policy.Patches{}
	for _, p := range all {
		if p.Unchecked != "" && !uncheckedReasons[p.Unchecked] {
			p.Unchecked = OtherReason
		}
		if other, is := byName[p.Pool.Name]; !is || p.Packages > other.Packages {
			byName[p.Pool.Name] = p
		}
	}
	m.patches.mu.Lock()
	defer m.patches.mu.Unlock()
	m.patches.all = byName
}

func (p *patches) collect(samples chan<- prometheus.Metric) {
	p.mu.Lock()
	all := p.all
	p.mu.Unlock()
	for name, pool := range all {
		if pool.Known {
			samples <- prometheus.MustNewConstMetric(pendingPatchesDesc, prometheus.GaugeValue, float64(pool.Packages), name, "all")
			samples <- prometheus.MustNewConstMetric(pendingPatchesDesc, prometheus.GaugeValue, float64(pool.Security), name, "security")
		}
		if pool.Unchecked != "" {
			samples <- prometheus.MustNewConstMetric(patchesUncheckedDesc, prometheus.GaugeValue, 1, name, string(pool.Unchecked))
		}
		bad := 0.0
		if pool.Quarantined {
			bad = 1
		}
		samples <- prometheus.MustNewConstMetric(patchesBadDesc, prometheus.GaugeValue, bad, name)
	}
}
