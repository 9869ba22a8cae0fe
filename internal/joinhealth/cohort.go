package joinhealth

import (
	"fmt"
	"math"
	"time"
)

// A cohort is all nodes of one version of a pool, for as long as they live. Joins end after an hour; the cohort shows what comes later, such as
// a lease of an address or a credential that ends.

// The rule for cohorts: at least leastLost nodes of the version are not Ready, with at least leastCompared nodes on each side. Fisher's exact
// test gives at most ifAll if none of the version's nodes is Ready, and else at most ifSome. TestCohortFalseAlarms holds the figures.
const (
	leastLost     = 3
	leastCompared = 3
	ifAll, ifSome = 0.005, 0.0005
)

// CohortNode is a node of any age.
type CohortNode struct {
	// Version is the version that the instance was built from; empty for another image.
	Version string
	// Running is when the instance started, Ready the condition of the Node, and Changed its last change.
	Running time.Time
	Ready   bool
	Changed time.Time
}

// Share is the number of Ready nodes among nodes.
type Share struct{ Ready, Nodes int }

func (s Share) String() string { return fmt.Sprintf("%d of %d", s.Ready, s.Nodes) }

// Cohorts compares the nodes of a version with other nodes of at least the same age.
type Cohorts struct{ Version, Others Share }

// CohortsOf counts the nodes that are at least as old as the first node of the version that lost Ready and is still not Ready. Younger nodes
// have not come so far. A node that is not Ready for a short time counts as Ready.
func CohortsOf(now time.Time, version string, nodes []CohortNode, limits Limits) (c Cohorts) {
	limits = limits.Defaulted()
	isLost := func(n CohortNode) bool { return !n.Ready && now.Sub(n.Changed) >= limits.Unready }
	age := time.Duration(math.MaxInt64)
	for _, n := range nodes {
		if n.Version == version && isLost(n) && n.Changed.After(n.Running) {
			age = min(age, n.Changed.Sub(n.Running))
		}
	}
	for _, n := range nodes {
		share := &c.Others
		if n.Version == version {
			share = &c.Version
		}
		if now.Sub(n.Running) < age {
			continue
		}
		if share.Nodes++; !isLost(n) {
			share.Ready++
		}
	}
	return c
}

// worse returns how the version's nodes are worse than others; empty if they are not clearly worse.
func (c Cohorts) worse(version string) string {
	lost := c.Version.Nodes - c.Version.Ready
	if lost < leastLost || c.Version.Nodes < leastCompared || c.Others.Nodes < leastCompared ||
		c.Version.Ready*c.Others.Nodes >= c.Others.Ready*c.Version.Nodes {
		return ""
	}
	p := fisher(c.Version, c.Others)
	if p > ifAll || p > ifSome && c.Version.Ready > 0 {
		return ""
	}
	return fmt.Sprintf("version %s: %s nodes of an age are Ready; other nodes of the pool of that age: %s (p = %.2g)", version, c.Version, c.Others, p)
}

// fisher returns the probability that of all nodes that are not Ready, at least as many are in a by chance: Fisher's exact test, one-sided.
func fisher(a, b Share) (p float64) {
	lost := a.Nodes - a.Ready + b.Nodes - b.Ready
	for k := a.Nodes - a.Ready; k <= min(a.Nodes, lost); k++ {
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
