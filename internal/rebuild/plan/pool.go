package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Reasons why a node is left alone.
const (
	// OwnNode: the rebuilding process runs on the node.
	OwnNode = "OwnNode"
	// DoNotDisrupt: the node or a pod has an annotation against disruption.
	DoNotDisrupt = "DoNotDisrupt"
)

// PoolFacts has the facts about the nodes of a pool.
type PoolFacts struct {
	Name string
	// Limit is how many nodes may be out of service at once, for any reason.
	Limit int
	// AtOnce removes the limit.
	AtOnce bool
	// Careful counts cordoned nodes as out of service, and never takes the last node that accepts pods.
	Careful bool
	// Kured is the node that kured is rebooting; empty if there is none.
	Kured string
	// KuredHolder is a sentence about the lock of kured.
	KuredHolder string
	Members     []Member
}

// Member is a node of the pool.
type Member struct {
	Name string
	// Old is true if the node was built from the image to be replaced.
	Old bool
	// Taken is true if this replacement reserved the node. Otherwise Held names the holder; empty without a holder.
	Taken bool
	Held  string
	// Ready and Cordoned are the state of the Node.
	Ready, Cordoned bool
	// Own is true if this process runs on the node.
	Own bool
	// Failed is why the node is not tried again now; nil if it may be tried.
	Failed *cloud.Refusal
	// Stays names the annotation against disruption; empty if there is none, or before the check.
	Stays string
}

// Choice is the next node, with the state of the other old nodes.
type Choice struct {
	// Take is the node to reserve; empty if none can be reserved now.
	Take string
	// Left is the number of nodes for later. Waiting is what delays the first of these; empty without delay.
	Left    int
	Waiting string
	// Alone are the nodes left alone, each with its refusal.
	Alone map[string]cloud.Refusal
}

// Choose picks the next old node: a node that is already out of service first, because nothing is lost, then by name.
func Choose(p PoolFacts) Choice {
	c := Choice{Alone: map[string]cloud.Refusal{}}
	for _, m := range p.candidates(&c) {
		switch {
		case !p.AtOnce && p.full(m):
			c.wait(fmt.Sprintf("%s of pool %s out of service, and %d may be: %s", wording.Count(p.out(), "node"), p.Name, p.Limit, p.absent()) + p.repair(c))
		case !p.AtOnce && p.Kured != "" && p.Kured != m.Name:
			c.wait(p.KuredHolder)
		case p.Careful && m.Ready && p.alone(m):
			c.wait(fmt.Sprintf("node %s is the only node of pool %s that accepts pods: add a node to the pool", m.Name, p.Name))
		case m.Stays != "":
			c.Alone[m.Name] = cloud.Refuse(DoNotDisrupt, "is left alone: "+m.Stays,
				"wait until the annotation is gone, or pass --disrupt (settings.drain.disrupt)")
		case c.Take == "":
			c.Take = m.Name
		default:
			c.wait("")
		}
	}
	return c
}

// candidates returns the old nodes that may be reserved as far as each node alone matters, in order.
func (p PoolFacts) candidates(c *Choice) []Member {
	var all []Member
	for _, m := range p.Members {
		switch {
		case !m.Old || m.Taken:
		case m.Failed != nil:
			c.Alone[m.Name] = *m.Failed
		case m.Own:
			c.Alone[m.Name] = cloud.Refuse(OwnNode, "is left alone, because this process runs on the node", "run the command elsewhere")
		case m.Held != "":
			c.wait(fmt.Sprintf("node %s is held by %s: `kamino reservations` shows whether the holder will release the node", m.Name, m.Held))
		default:
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b Member) int {
		if a.Ready != b.Ready {
			return cmp.Compare(rank(a), rank(b))
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return all
}

func rank(m Member) int {
	if m.Ready {
		return 1
	}
	return 0
}

// full reports whether no further node may be reserved. A node already out of service needs no room, but the nodes in
// progress never exceed the limit.
func (p PoolFacts) full(m Member) bool {
	taken := 0
	for _, other := range p.Members {
		if other.Taken {
			taken++
		}
	}
	return taken >= p.Limit || !p.absentee(m) && p.out() >= p.Limit
}

// absentee reports whether a node is out of service.
func (p PoolFacts) absentee(m Member) bool { return m.Taken || !m.Ready || p.Careful && m.Cordoned }

func (p PoolFacts) out() (n int) {
	for _, m := range p.Members {
		if p.absentee(m) {
			n++
		}
	}
	return n
}

// alone reports whether no other node of the pool accepts pods.
func (p PoolFacts) alone(m Member) bool {
	return !slices.ContainsFunc(p.Members, func(other Member) bool {
		return other.Name != m.Name && other.Ready && !other.Cordoned && !other.Taken
	})
}

// absent lists a few nodes that are out of service.
func (p PoolFacts) absent() string {
	var names []string
	for _, m := range p.Members {
		switch {
		case m.Taken:
			names = append(names, m.Name+" (being rebuilt)")
		case !m.Ready:
			names = append(names, m.Name+" (not Ready)")
		case p.absentee(m):
			names = append(names, m.Name+" (cordoned)")
		}
	}
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("and %d more", len(names)-3))
	}
	return strings.Join(names, ", ")
}

// repair is the remedy if nodes are out of service for another cause than this rebuild: the wait then has no end of its own.
func (p PoolFacts) repair(c Choice) string {
	if c.Take != "" || slices.ContainsFunc(p.Members, func(m Member) bool { return m.Taken }) {
		return ""
	}
	return "; run `kubectl get nodes`, and repair, uncordon or delete these nodes"
}

// wait counts a node that is not reserved now. The first reason is kept.
func (c *Choice) wait(what string) {
	c.Left++
	if c.Waiting == "" {
		c.Waiting = what
	}
}
