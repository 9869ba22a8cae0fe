package policy

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
)

// lacksCohort reports whether the versions of the pool's nodes are unknown after a start of this process, while a node is not Ready.
func (t *watchedPool) lacksCohort(sum nodecache.Summary) bool {
	return t.cohort == nil && sum.Ready < sum.Nodes
}

// cohorts compares the nodes of the pool's version with its other nodes, as the last list of instances named their versions. It costs no
// request. Nodes that a person or a controller takes out of service say nothing.
func (d *joinTracker) cohorts(t *watchedPool, limits joinhealth.Limits, now time.Time) joinhealth.Cohorts {
	nodes := d.Nodes.Of(t.pool.ID)
	if !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return !nodestate.Ready(n) }) {
		return joinhealth.Cohorts{}
	}
	var all []joinhealth.CohortNode
	for _, node := range nodes {
		one, known := t.cohort[[2]string{node.Name, string(node.UID)}]
		if !known || node.Spec.Unschedulable || node.DeletionTimestamp != nil {
			continue
		}
		one.Changed, one.Ready = nodestate.ReadySince(node)
		all = append(all, one)
	}
	return joinhealth.CohortsOf(now, t.version, all, limits)
}
