package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kamino-dev/kamino/internal/joinhealth"
)

var (
	poolJoinsDesc = gauge("pool_joins",
		"Nodes of the pool's current version, and of a version after an automatic rollback, by pool, version and join result.", "pool", "version", "outcome")
	poolRolledBackDesc = gauge("pool_rolled_back", "1 after an automatic rollback of the pool until a user acknowledges the rollback, else 0, by pool.", "pool")
	poolStaysDesc      = gauge("pool_nodes_do_not_join", "1 while the pool stays on a version whose nodes do not join, else 0, by pool.", "pool")
)

// PoolJoins is the join tracking of a pool's version.
type PoolJoins struct {
	Pool string
	// Version in the recipe, and Of the joins of its nodes.
	Version string
	Of      joinhealth.Tally
	// Suspect is the version before an automatic rollback, if there is one, and OfSuspect the joins of its nodes.
	Suspect   string
	OfSuspect joinhealth.Tally
	// RolledBack: the rollback is not acknowledged. Stays: the pool stays on a version whose nodes do not join.
	RolledBack, Stays bool
}

// newNodes are the watched pools. New values replace earlier values.
type newNodes struct {
	mu    sync.Mutex
	pools map[string]PoolJoins
}

// Joins sets the join tracking of all watched pools. Pools with equal names, in two resource groups, share a series: the
// worse pool.
func (m *Metrics) Joins(reported []PoolJoins) {
	pools := map[string]PoolJoins{}
	for _, p := range reported {
		if other, taken := pools[p.Pool]; !taken || p.badness() > other.badness() {
			pools[p.Pool] = p
		}
		m.returns.WithLabelValues(p.Pool) // from zero on, so that the first event is an increase
	}
	m.newNodes.mu.Lock()
	defer m.newNodes.mu.Unlock()
	m.newNodes.pools = pools
}

func (p PoolJoins) badness() int { return 2*int(flag(p.RolledBack)) + int(flag(p.Stays)) }

// CountRollback counts an automatic rollback of a pool.
func (m *Metrics) CountRollback(pool string) { m.returns.WithLabelValues(pool).Inc() }

func (n *newNodes) collect(samples chan<- prometheus.Metric) {
	n.mu.Lock()
	pools := n.pools
	n.mu.Unlock()
	for _, p := range pools {
		samples <- prometheus.MustNewConstMetric(poolRolledBackDesc, prometheus.GaugeValue, flag(p.RolledBack), p.Pool)
		samples <- prometheus.MustNewConstMetric(poolStaysDesc, prometheus.GaugeValue, flag(p.Stays), p.Pool)
		report(samples, p.Pool, p.Version, p.Of)
		if p.Suspect != p.Version {
			report(samples, p.Pool, p.Suspect, p.OfSuspect)
		}
	}
}

func report(samples chan<- prometheus.Metric, pool, version string, of joinhealth.Tally) {
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
