package joinhealth

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A cohort is all nodes of one version of a pool, for as long as they live. Joins end after an hour; the cohort shows what comes later, such as
// a lease of an address or a credential that ends, and what only the pods of users need.

// The rule for cohorts: at least leastLost nodes of the version are in trouble, with at least leastCompared nodes on each side. Fisher's exact
// test gives at most ifAll if all of the version's nodes are, and else at most ifSome. TestCohortFalseAlarms holds the figures.
const (
	leastLost     = 3
	leastCompared = 3
	ifAll, ifSome = 0.005, 0.0005
)

// CohortNode is a node of any age.
type CohortNode struct {
	// Version is the version that the instance was built from; empty for another image.
	Version string
	// Zone of the instance; empty if unknown.
	Zone string
	// Running is when the instance started, Ready the condition of the Node, and Changed its last change.
	Running time.Time
	Ready   bool
	Changed time.Time
	// Pods are the workloads with a pod on the node, and whether the pod runs well; nil if nobody looked. A workload is one template of one
	// owner, so that a rollout is another workload.
	Pods map[string]bool
}

// Share is the number of good nodes among nodes.
type Share struct{ Good, Nodes int }

func (s Share) String() string { return fmt.Sprintf("%d of %d", s.Good, s.Nodes) }

// Comparison compares the nodes of a version with other nodes of the pool.
type Comparison struct{ Version, Others Share }

// Cohorts compares by two counts: the nodes that are Ready, of at least the same age, and the nodes where all pods run that run on nodes of the
// other cohort.
type Cohorts struct{ Ready, Pods Comparison }

// add counts a node.
func (c *Comparison) add(isOfVersion, isGood bool) {
	share := &c.Others
	if isOfVersion {
		share = &c.Version
	}
	if share.Nodes++; isGood {
		share.Good++
	}
}

// CohortsOf counts the nodes. Nodes that are younger than the first node of the version that lost Ready have not come so far, and do not count
// for Ready; nor does a zone without enough Ready nodes of other versions, because its outage may be the cause. A node that is not Ready for a
// short time counts as Ready.
func CohortsOf(now time.Time, version string, nodes []CohortNode, limits Limits) (c Cohorts) {
	limits = limits.Defaulted()
	isLost := func(n CohortNode) bool { return !n.Ready && now.Sub(n.Changed) >= limits.Unready }
	age := time.Duration(math.MaxInt64)
	zones := map[string]*Comparison{}
	for _, n := range nodes {
		if n.Version == version && isLost(n) && n.Changed.After(n.Running) {
			age = min(age, n.Changed.Sub(n.Running))
		}
		if zones[n.Zone] == nil {
			zones[n.Zone] = &Comparison{}
		}
		zones[n.Zone].add(n.Version == version, !isLost(n))
	}
	for _, n := range nodes {
		if others := zones[n.Zone].Others; now.Sub(n.Running) >= age && (n.Version != version || 2*others.Good > others.Nodes) {
			c.Ready.add(n.Version == version, !isLost(n))
		}
	}
	c.Pods = podsOf(version, nodes)
	return c
}

// podsOf counts the nodes where each pod runs well whose workload runs well on a node of the other cohort: a workload that fails everywhere, or
// that only one cohort has, says nothing about the image.
func podsOf(version string, nodes []CohortNode) (c Comparison) {
	wellIn := [2]map[string]bool{{}, {}} // of the version, and of others
	side := func(n CohortNode) int {
		if n.Version == version {
			return 0
		}
		return 1
	}
	for _, n := range nodes {
		for workload, well := range n.Pods {
			if well {
				wellIn[side(n)][workload] = true
			}
		}
	}
	for _, n := range nodes {
		if n.Pods == nil {
			continue
		}
		good := true
		for workload, well := range n.Pods {
			good = good && (well || !wellIn[1-side(n)][workload])
		}
		c.add(n.Version == version, good)
	}
	return c
}

// Line describes the counts for a table, such as "Ready 3 of 14, before 40 of 41"; empty without two cohorts.
func (c Cohorts) Line() string {
	var counts []string
	for _, count := range []struct {
		name string
		Comparison
	}{{"Ready", c.Ready}, {"pods run", c.Pods}} {
		if count.Version.Nodes > 0 && count.Others.Nodes > 0 {
			counts = append(counts, fmt.Sprintf("%s %s, before: %s", count.name, count.Version, count.Others))
		}
	}
	return strings.Join(counts, "; ")
}

// worse returns how the version's nodes are worse than others; empty if they are not clearly worse.
func (c Cohorts) worse(version string) string {
	if p, is := c.Ready.worse(); is {
		return fmt.Sprintf("version %s: %s nodes of an age are Ready; other nodes of the pool of that age: %s (p = %.2g)",
			version, c.Ready.Version, c.Ready.Others, p)
	}
	if p, is := c.Pods.worse(); is {
		return fmt.Sprintf("version %s: on %s nodes all pods run that run on other nodes of the pool; of the other nodes: %s (p = %.2g)",
			version, c.Pods.Version, c.Pods.Others, p)
	}
	return ""
}

// worse reports whether the version's nodes are clearly worse, with the probability of the difference by chance.
func (c Comparison) worse() (p float64, is bool) {
	lost := c.Version.Nodes - c.Version.Good
	if lost < leastLost || c.Version.Nodes < leastCompared || c.Others.Nodes < leastCompared ||
		c.Version.Good*c.Others.Nodes >= c.Others.Good*c.Version.Nodes {
		return 1, false
	}
	p = fisher(c.Version, c.Others)
	return p, p <= ifSome || p <= ifAll && c.Version.Good == 0
}

// fisher returns the probability that of all nodes in trouble, at least as many are in a by chance: Fisher's exact test, one-sided.
func fisher(a, b Share) (p float64) {
	lost := a.Nodes - a.Good + b.Nodes - b.Good
	for k := a.Nodes - a.Good; k <= min(a.Nodes, lost); k++ {
		if lost-k <= b.Nodes {
			p += math.Exp(choose(a.Nodes, k) + choose(b.Nodes, lost-k) - choose(a.Nodes+b.Nodes, lost))
		}
	}
	return min(p, 1)
}

// choose is the logarithm of a binomial coefficient.
func choose(n, k int) float64 {
	log := func(n int) float64 {
		value, _ := math.Lgamma(float64(n + 1))
		return value
	}
	return log(n) - log(k) - log(n-k)
}
