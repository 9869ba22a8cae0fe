package metrics

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// Values of label built_from.
const (
	fromGeneric   = "generic"
	fromPrototype = "prototype"
)

// joinBuckets, in seconds: a copy of a prototype joins in a minute or two, a generic image with patches in tens of minutes.
var joinBuckets = []float64{15, 30, 45, 60, 90, 120, 180, 240, 300, 420, 600, 900, 1200, 1800, 3600}

var (
	poolNodesDesc     = gauge("pool_nodes", "Instances of a pool, by image version, from the last list of the cloud.", "pool", "version")
	poolImagesDesc    = gauge("pool_images", "Number of different images of the pool's instances and recipe, from the last list of the cloud.", "pool")
	poolMaxImagesDesc = gauge("pool_images_limit",
		"Limit of the cloud for different images in a pool; a pool at the limit cannot grow with another image.", "pool")
	poolCandidatesDesc = gauge("pool_candidates", "Nodes of a pool that can be donors, at the last decision.", "pool")
	poolRefusedDesc    = gauge("pool_refused_nodes",
		"Nodes of a pool that cannot be donors, at the last decision, by reason; a node may have several reasons.", "pool", "reason")
)

// tallies are the last counts of each pool. A count replaces the earlier count, so that no deleted version, reason or pool
// remains.
type tallies struct {
	mu sync.Mutex
	// nodes by pool and version.
	nodes map[cloud.PoolID]tally
	// refused by pool and reason, with the number of candidates.
	refused    map[cloud.PoolID]tally
	candidates map[cloud.PoolID]int
	// images of each pool, and the limit of images.
	images map[cloud.PoolID]images
}

type images struct {
	pool         string
	count, limit int
}

// collectImages emits the samples. Pools with equal names share a series: the pool with the most images.
func (t *tallies) collectImages(samples chan<- prometheus.Metric) {
	t.mu.Lock()
	shown := map[string]images{}
	for _, counted := range t.images {
		if counted.count > shown[counted.pool].count {
			shown[counted.pool] = counted
		}
	}
	t.mu.Unlock()
	for pool, counted := range shown {
		samples <- prometheus.MustNewConstMetric(poolImagesDesc, prometheus.GaugeValue, float64(counted.count), pool)
		samples <- prometheus.MustNewConstMetric(poolMaxImagesDesc, prometheus.GaugeValue, float64(counted.limit), pool)
	}
}

type tally struct {
	pool  string
	count map[string]int
}

// InstancesListed sets the number of a pool's instances per version (the value of label v1alpha1.VersionLabel), and the
// number of their images. A cloud without a limit of images has no series of images.
func (m *Metrics) InstancesListed(id cloud.PoolID, name string, byVersion map[string]int, count, limit int) {
	m.tallies.mu.Lock()
	defer m.tallies.mu.Unlock()
	if m.tallies.nodes == nil {
		m.tallies.nodes, m.tallies.images = map[cloud.PoolID]tally{}, map[cloud.PoolID]images{}
	}
	m.tallies.nodes[id] = tally{name, maps.Clone(byVersion)}
	if limit > 0 {
		m.tallies.images[id] = images{name, count, limit}
	}
}

// Decided sets the result of a decision about a pool: the number of candidates, and the number of refused nodes per reason.
func (m *Metrics) Decided(id cloud.PoolID, name string, candidates int, refused map[string]int) {
	known := map[string]int{}
	for reason, n := range refused {
		if !m.refusals.set[reason] && !choiceReasons[reason] {
			reason = OtherReason
		}
		known[reason] += n
	}
	m.tallies.mu.Lock()
	defer m.tallies.mu.Unlock()
	if m.tallies.refused == nil {
		m.tallies.refused, m.tallies.candidates = map[cloud.PoolID]tally{}, map[cloud.PoolID]int{}
	}
	m.tallies.refused[id], m.tallies.candidates[id] = tally{name, known}, candidates
}

// PoolGone drops the counts of a deleted pool.
func (m *Metrics) PoolGone(id cloud.PoolID) {
	m.tallies.mu.Lock()
	defer m.tallies.mu.Unlock()
	delete(m.tallies.nodes, id)
	delete(m.tallies.refused, id)
	delete(m.tallies.candidates, id)
	delete(m.tallies.images, id)
}

// NodeJoined counts a joined node; version is the value of label v1alpha1.VersionLabel. See nodelabel.Labeler.Joined.
func (m *Metrics) NodeJoined(version string, took time.Duration) {
	built := fromPrototype
	if version == v1alpha1.VersionGeneric {
		built = fromGeneric
	}
	m.joins.WithLabelValues(built).Observe(took.Seconds())
}

// collect emits the samples. Pools with equal names, in two resource groups, are added: a series exists once.
func (t *tallies) collect(samples chan<- prometheus.Metric) {
	t.mu.Lock()
	nodes, refused := byName(t.nodes), byName(t.refused)
	candidates := map[string]int{}
	for id, n := range t.candidates {
		candidates[t.refused[id].pool] += n
	}
	t.mu.Unlock()
	for pool, n := range candidates {
		samples <- prometheus.MustNewConstMetric(poolCandidatesDesc, prometheus.GaugeValue, float64(n), pool)
	}
	for key, n := range nodes {
		samples <- prometheus.MustNewConstMetric(poolNodesDesc, prometheus.GaugeValue, float64(n), key[0], key[1])
	}
	for key, n := range refused {
		samples <- prometheus.MustNewConstMetric(poolRefusedDesc, prometheus.GaugeValue, float64(n), key[0], key[1])
	}
}

// byName adds tallies by the pool's name and the second key.
func byName(all map[cloud.PoolID]tally) map[[2]string]int {
	sum := map[[2]string]int{}
	for _, t := range all {
		for key, n := range t.count {
			sum[[2]string{t.pool, key}] += n
		}
	}
	return sum
}
