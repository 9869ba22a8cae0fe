package joinhealth

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A cohort is all nodes of one version of a pool, for as long as they live. Joins end after an hour; the cohort shows what comes later, such as
// a lease of an address or a credential that ends, and what only the pods of users need.

// The rule for cohorts: at least leastLost nodes of the version are in trouble, with at least LeastCompared nodes on each side. Fisher's exact
// test gives at most ifAll if all of the version's nodes are, and else at most ifSome. TestCohortFalseAlarms holds the figures.
const (
	leastLost     = 3
	LeastCompared = 3
	ifAll, ifSome = 0.005, 0.0001
)

// The rule for an age: at least leastLost nodes lost Ready at the same age, within ageWindow, and at times that are apart. A lease or a credential
// does that; an outage takes nodes of all ages at one time. chancePerDay is the share of nodes that lose Ready each day by chance, and agesTried
// the number of windows in which they may do so. TestCohortFalseAlarms holds the figures.
const (
	ageWindow, apart   = 10 * time.Minute, 15 * time.Minute
	chancePerDay       = 0.05
	agesTried, ifAtAge = 600, 0.00001
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
	// PodsSeen: someone looked at the pods within the last hour. PodsFail is a workload that fails on the node, as PodsFailing returned it.
	PodsSeen bool
	PodsFail string
	// Problem is a condition of a problem that has been True for a while, and that nodes of other versions have, too; empty without one.
	Problem string
}

// NodePods are the pods of a node: the workloads, and whether the pod runs well. A workload is one template of one owner, so that a rollout is
// another workload.
type NodePods struct {
	Node, Version string
	Workloads     map[string]bool
}

// Share is the number of good nodes among nodes.
type Share struct{ Good, Nodes int }

func (s Share) String() string { return fmt.Sprintf("%d of %d", s.Good, s.Nodes) }

// Comparison compares the nodes of a version with other nodes of the pool.
type Comparison struct{ Version, Others Share }

// Cohorts compares by three counts: Ready nodes, Ready nodes without a problem, and nodes where the pods run that run on nodes of the other
// cohort.
type Cohorts struct {
	// All counts the Ready nodes, and Comparable those that say something about the version.
	All, Comparable Comparison
	Healthy, Pods   Comparison
	// AtAge counts the nodes of the version that have reached Age, and as good those that did not lose Ready at that age.
	AtAge Share
	Age   time.Duration
	// Problem is one of the conditions, and Fails one of the failing workloads.
	Problem, Fails string
}

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

// CohortsOf counts the nodes. Nodes that are younger than the first node of the version that lost Ready have not come so far, and are not
// comparable; nor are those in a zone where most nodes of other versions are not Ready, because its outage may be the cause. A node that is not
// Ready for a short time counts as Ready.
func CohortsOf(now time.Time, version string, nodes []CohortNode, limits Limits) (c Cohorts) {
	limits = limits.Defaulted()
	c.AtAge, c.Age = lostAtAnAge(now, version, nodes, limits.Unready)
	isLost := func(n CohortNode) bool { return !n.Ready && now.Sub(n.Changed) >= limits.Unready }
	age := time.Duration(math.MaxInt64)
	zones := map[string]*Comparison{}
	for _, n := range nodes {
		isOf := n.Version == version
		if isOf && isLost(n) && n.Changed.After(n.Running) {
			age = min(age, n.Changed.Sub(n.Running))
		}
		if zones[n.Zone] == nil {
			zones[n.Zone] = &Comparison{}
		}
		zones[n.Zone].add(isOf, !isLost(n))
		c.All.add(isOf, !isLost(n))
		if n.Ready {
			c.addReady(isOf, n)
		}
	}
	for _, n := range nodes {
		if others := zones[n.Zone].Others; now.Sub(n.Running) >= age && (n.Version != version || others.Nodes == 0 || 2*others.Good > others.Nodes) {
			c.Comparable.add(n.Version == version, !isLost(n))
		}
	}
	return c
}

// addReady counts the problems and the pods of a Ready node.
func (c *Cohorts) addReady(isOfVersion bool, n CohortNode) {
	c.Healthy.add(isOfVersion, n.Problem == "")
	if n.PodsSeen {
		c.Pods.add(isOfVersion, n.PodsFail == "")
	}
	if isOfVersion {
		c.Problem, c.Fails = cmp.Or(n.Problem, c.Problem), cmp.Or(n.PodsFail, c.Fails)
	}
}

// lostAtAnAge returns the age at which most nodes of the version lost Ready, of those whose times are apart.
func lostAtAnAge(now time.Time, version string, nodes []CohortNode, unready time.Duration) (at Share, age time.Duration) {
	ageOf := func(n CohortNode) time.Duration { return n.Changed.Sub(n.Running) }
	var lost []CohortNode
	for _, n := range nodes {
		if n.Version == version && !n.Ready && now.Sub(n.Changed) >= unready && n.Changed.After(n.Running) {
			lost = append(lost, n)
		}
	}
	slices.SortFunc(lost, func(a, b CohortNode) int { return a.Changed.Compare(b.Changed) })
	most := 0
	for _, first := range lost {
		if count := countApart(lost, ageOf(first)); count > most {
			most, age = count, ageOf(first)
		}
	}
	if most < leastLost {
		return Share{}, 0
	}
	for _, n := range nodes {
		if n.Version == version && now.Sub(n.Running) >= age {
			at.Nodes++
		}
	}
	at.Good = at.Nodes - most
	return at, age
}

// countApart counts the nodes that lost Ready within ageWindow from an age on, each apart from the one before. The nodes are in the order of their
// loss.
func countApart(lost []CohortNode, age time.Duration) (count int) {
	last := time.Time{}
	for _, n := range lost {
		if since := n.Changed.Sub(n.Running) - age; since >= 0 && since <= ageWindow && n.Changed.Sub(last) >= apart {
			count, last = count+1, n.Changed
		}
	}
	return count
}

// byAge is the probability that so many nodes lose Ready at one age by chance.
func (c Cohorts) byAge() float64 {
	lost := c.AtAge.Nodes - c.AtAge.Good
	if lost < leastLost {
		return 1
	}
	chance := chancePerDay * ageWindow.Hours() / 24
	return min(1, agesTried*math.Exp(choose(c.AtAge.Nodes, lost)+float64(lost)*math.Log(chance)))
}

// PodsFailing returns for each node a workload that fails there and runs well on a node of the other cohort; empty if there is none. A workload
// that fails everywhere, or that only one cohort has, says nothing about the image.
func PodsFailing(version string, nodes []NodePods) map[string]string {
	wellIn := map[bool]map[string]bool{true: {}, false: {}} // of the version, and of others
	for _, n := range nodes {
		for workload, well := range n.Workloads {
			if well {
				wellIn[n.Version == version][workload] = true
			}
		}
	}
	failing := make(map[string]string, len(nodes))
	for _, n := range nodes {
		failing[n.Node] = ""
		for workload, well := range n.Workloads {
			if was := failing[n.Node]; !well && wellIn[n.Version != version][workload] && (was == "" || workload < was) {
				failing[n.Node] = workload
			}
		}
	}
	return failing
}

// Line is the row of a version, such as "3 of 14 Ready, before: 40 of 41"; empty without two cohorts of some
// nodes.
func (c Cohorts) Line() string {
	if c.All.Version.Nodes < LeastCompared || c.All.Others.Nodes < LeastCompared {
		return ""
	}
	line := fmt.Sprintf("%s Ready, before: %s", c.All.Version, c.All.Others)
	if c.Problem != "" {
		line += fmt.Sprintf("; without a problem: %s, before: %s", c.Healthy.Version, c.Healthy.Others)
	}
	if c.Pods.Version.Nodes > 0 && c.Pods.Others.Nodes > 0 {
		line += fmt.Sprintf("; pods run on %s, before: %s", c.Pods.Version, c.Pods.Others)
	}
	return line
}

// worse returns how the version's nodes are worse than others; empty if they are not clearly worse.
func (c Cohorts) worse(version string) string {
	if p, is := c.Comparable.worse(); is {
		return fmt.Sprintf("version %s: %s nodes of an age are Ready; other nodes of the pool of that age: %s (p = %.2g)",
			version, c.Comparable.Version, c.Comparable.Others, p)
	}
	if p := c.byAge(); p <= ifAtAge {
		return fmt.Sprintf("version %s: %d of %d nodes lost Ready at the age of %s, one after the other (p = %.2g); look for a lease or a credential that ends",
			version, c.AtAge.Nodes-c.AtAge.Good, c.AtAge.Nodes, c.Age.Round(time.Minute), p)
	}
	if p, is := c.Healthy.worse(); is {
		return fmt.Sprintf("version %s: %s Ready nodes report no problem; other Ready nodes of the pool: %s (p = %.2g), for example condition %s",
			version, c.Healthy.Version, c.Healthy.Others, p, c.Problem)
	}
	if p, is := c.Pods.worse(); is {
		workload, _, _ := strings.Cut(c.Fails, "@")
		return fmt.Sprintf("version %s: on %s nodes the pods run that run on other nodes of the pool; on the other nodes: %s (p = %.2g), for example %s",
			version, c.Pods.Version, c.Pods.Others, p, workload)
	}
	return ""
}

// worse reports whether the version's nodes are clearly worse, with the probability of the difference by chance.
func (c Comparison) worse() (p float64, is bool) {
	lost := c.Version.Nodes - c.Version.Good
	if lost < leastLost || c.Version.Nodes < LeastCompared || c.Others.Nodes < LeastCompared ||
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
