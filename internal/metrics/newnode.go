package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kamino-dev/kamino/internal/joinhealth"
)

var (
	poolJoinsDesc    = gauge("pool_joins", "Nodes of the pool's current version, and of a version after an automatic rollback, by pool, version and join result.", "pool", "version", "outcome")
	poolWentBackDesc = gauge("pool_went_back", "1 after an automatic rollback of the pool until a user acknowledges the rollback, else 0, by pool.", "pool")
	poolStaysDesc    = gauge("pool_nodes_do_not_join", "1 while the pool stays on a version whose nodes do not join, else 0, by pool.", "pool")
)

// PoolJoins is how the nodes of a pool's version join.
type PoolJoins struct {
	Pool string
	// Version that the recipe names, and Of how its nodes joined.
	Version string
	Of      joinhealth.Tally
	// Suspect is the version that the pool went back from, if any, and OfSuspect how its nodes joined.
	Suspect   string
	OfSuspect joinhealth.Tally
	// WentBack: nobody has acknowledged that it did. Stays: it stays on a version whose nodes do not join.
	WentBack, Stays bool
}

// newNodes are the pools whose new nodes are watched. What is told of them takes the place of what was told before.
type newNodes struct {
	mu    sync.Mutex
	pools map[string]PoolJoins
}

// Joins takes over how the nodes of all watched pools join. Pools of one name, in two resource groups, are one: the one that
// is worse off.
func (m *Metrics) Joins(told []PoolJoins) {
	pools := map[string]PoolJoins{}
	for _, p := range told {
		if other, taken := pools[p.Pool]; !taken || p.badness() > other.badness() {
			pools[p.Pool] = p
		}
		m.returns.WithLabelValues(p.Pool) // from zero on, so that the first one is an increase
	}
	m.newNodes.mu.Lock()
	defer m.newNodes.mu.Unlock()
	m.newNodes.pools = pools
}

func (p PoolJoins) badness() int { return 2*int(flag(p.WentBack)) + int(flag(p.Stays)) }

// PoolWentBack counts that a pool went back from a version by itself.
func (m *Metrics) PoolWentBack(pool string) { m.returns.WithLabelValues(pool).Inc() }

func (n *newNodes) collect(samples chan<- prometheus.Metric) {
	n.mu.Lock()
	pools := n.pools
	n.mu.Unlock()
	for _, p := range pools {
		samples <- prometheus.MustNewConstMetric(poolWentBackDesc, prometheus.GaugeValue, flag(p.WentBack), p.Pool)
		samples <- prometheus.MustNewConstMetric(poolStaysDesc, prometheus.GaugeValue, flag(p.Stays), p.Pool)
		tell(samples, p.Pool, p.Version, p.Of)
		if p.Suspect != p.Version {
			tell(samples, p.Pool, p.Suspect, p.OfSuspect)
		}
	}
}

func tell(samples chan<- prometheus.Metric, pool, version string, of joinhealth.Tally) {
	if version == "" {
		return
	}
	for outcome, n := range map[string]int{"joined": of.Joined, "failed": of.Failed, "waiting": of.Waiting} {
		samples <- prometheus.MustNewConstMetric(poolJoinsDesc, prometheus.GaugeValue, float64(n), pool, version, outcome)
	}
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
