package policy

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
)

const (
	// sampleInterval is the pause between two samples of pods, of whatever pool; a pool's own pause is longer.
	sampleInterval = time.Minute
	ownInterval    = 10 * time.Minute
	// sampleSize is the number of nodes of each cohort in a sample. Each costs a request, which the API server answers from its cache.
	sampleSize = 20
	// sampleLife is how long a sample counts, so that a large pool collects more nodes than one sample has.
	sampleLife = time.Hour
)

// cohort compares all nodes of the pool's version with its other nodes.
type cohort struct {
	// nodes holds the Nodes at the last list of instances, by name and UID, without Ready and Changed.
	nodes map[[2]string]joinhealth.CohortNode
	// pods holds the last samples, by name and UID.
	pods map[[2]string]sampledPods
	// sampled is when the pods were last sampled, and samples the number of samples.
	sampled time.Time
	samples int
	// now is the comparison, made at.
	now joinhealth.Cohorts
	at  time.Time
}

type sampledPods struct {
	fails string
	at    time.Time
}

// lacksCohort reports whether the versions of the pool's nodes are unknown after a start of this process, while a node is not Ready.
func (t *watchedPool) lacksCohort(sum nodecache.Summary) bool {
	return t.cohort.nodes == nil && sum.Ready < sum.Nodes
}

// compareCohorts compares the nodes of the pool's version with its other nodes, at most once a minute. The last list of instances named their
// versions, so that it costs no request.
func (d *joinTracker) compareCohorts(t *watchedPool, limits joinhealth.Limits, now time.Time) {
	if len(t.cohort.nodes) == 0 || now.Sub(t.cohort.at) < judgeInterval {
		return
	}
	t.cohort.at = now
	for id, sample := range t.cohort.pods {
		if now.Sub(sample.at) > sampleLife {
			delete(t.cohort.pods, id)
		}
	}
	all := make([]joinhealth.CohortNode, 0, len(t.cohort.nodes))
	reported := map[corev1.NodeConditionType]bool{} // by nodes of other versions, with each value
	d.eachOfCohort(t, func(_ [2]string, n joinhealth.CohortNode, node *corev1.Node) {
		for i := range node.Status.Conditions {
			if kind := node.Status.Conditions[i].Type; n.Version != t.version && !reported[kind] {
				reported[kind] = true
			}
		}
	})
	for kind := range reported {
		reported[kind] = kind != corev1.NodeMemoryPressure && nodestate.ReportsProblem(kind) // the pods press on the memory
	}
	d.eachOfCohort(t, func(id [2]string, n joinhealth.CohortNode, node *corev1.Node) {
		sample, seen := t.cohort.pods[id]
		n.PodsSeen, n.PodsFail, n.Problem = seen, sample.fails, problemOf(node, reported, now)
		all = append(all, n)
	})
	t.cohort.now = joinhealth.CohortsOf(now, t.version, all, limits)
}

// problemOf is a condition of a problem that has been True for ownInterval; empty without one.
func problemOf(node *corev1.Node, isProblem map[corev1.NodeConditionType]bool, now time.Time) string {
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if c.Status == corev1.ConditionTrue && isProblem[c.Type] && now.Sub(c.LastTransitionTime.Time) >= ownInterval {
			return string(c.Type)
		}
	}
	return ""
}

// eachOfCohort visits the nodes with a known version, by name. Nodes that a person or a controller takes out of service say nothing.
func (d *joinTracker) eachOfCohort(t *watchedPool, visit func(id [2]string, n joinhealth.CohortNode, node *corev1.Node)) {
	for _, node := range d.Nodes.Of(t.pool.ID) {
		id := [2]string{node.Name, string(node.UID)}
		n, known := t.cohort.nodes[id]
		if !known || node.Spec.Unschedulable || node.DeletionTimestamp != nil {
			continue
		}
		n.Changed, n.Ready = nodestate.ReadySince(node)
		visit(id, n, node)
	}
}

// samplePods looks at the pods of one pool: the pool with two cohorts whose sample is the oldest. The number of requests does not grow with the
// pools. An error ends the sample, and the next sample follows.
func (d *joinTracker) samplePods(ctx context.Context, now time.Time) {
	if d.NewNodes.Workloads == nil || now.Sub(d.sampled) < sampleInterval {
		return
	}
	var next *watchedPool
	for _, t := range d.watches {
		all := t.cohort.now.All
		isDue := t.version != "" && all.Version.Nodes >= joinhealth.LeastCompared && all.Others.Nodes >= joinhealth.LeastCompared &&
			now.Sub(t.cohort.sampled) >= ownInterval
		if isDue && (next == nil || t.cohort.sampled.Before(next.cohort.sampled)) {
			next = t
		}
	}
	if next == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	d.sampled, next.cohort.sampled = now, now
	if err := d.sample(ctx, next, now); err != nil {
		d.Log.Info("the pods of a pool's nodes could not be read", "pool", next.pool.Name, "why", err.Error())
	}
}

// sample looks at the pods of some Ready nodes of each cohort. The nodes take turns.
func (d *joinTracker) sample(ctx context.Context, t *watchedPool, now time.Time) error {
	ids := map[bool][][2]string{} // by whether the node is of the version
	d.eachOfCohort(t, func(id [2]string, n joinhealth.CohortNode, _ *corev1.Node) {
		if n.Ready && now.Sub(n.Changed) >= sampleLife {
			ids[n.Version == t.version] = append(ids[n.Version == t.version], id)
		}
	})
	var names []string
	byName := map[string][2]string{}
	for _, of := range ids {
		slices.SortFunc(of, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
		for i := range min(sampleSize, len(of)) {
			id := of[(t.cohort.samples*sampleSize+i)%len(of)]
			byName[id[0]], names = id, append(names, id[0])
		}
	}
	t.cohort.samples++
	slices.Sort(names)
	found, err := d.NewNodes.Workloads(ctx, names)
	if err != nil {
		return err
	}
	var nodes []joinhealth.NodePods
	for _, name := range names {
		nodes = append(nodes, joinhealth.NodePods{Node: name, Version: t.cohort.nodes[byName[name]].Version, Workloads: found[name]})
	}
	if t.cohort.pods == nil {
		t.cohort.pods = map[[2]string]sampledPods{}
	}
	for name, fails := range joinhealth.PodsFailing(t.version, nodes) {
		t.cohort.pods[byName[name]] = sampledPods{fails, now}
	}
	return nil
}
