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
	// OwnNode: the process that rebuilds runs on it.
	OwnNode = "OwnNode"
	// AsksToStay: it, or a pod of it, asks not to be disrupted.
	AsksToStay = "AsksToStay"
)

// Pool is what is known of the nodes of a pool some of which must go.
type Pool struct {
	Name string
	// Limit is how many of its nodes may be out of service at once, those that are so anyway included.
	Limit int
	// AtOnce: there is no limit.
	AtOnce bool
	// Careful: nodes that are cordoned count as out of service, too, and the only one that takes pods is left.
	Careful bool
	// Kured is the node that kured reboots; empty if it reboots none.
	Kured string
	// KuredHolder says so in a sentence.
	KuredHolder string
	Members     []Member
}

// Member is a node of the pool.
type Member struct {
	Name string
	// Old: it was built from what must go.
	Old bool
	// Taken by this replacement; else Held names who has it, and is empty if nobody does.
	Taken bool
	Held  string
	// Ready and Cordoned are what it says of itself.
	Ready, Cordoned bool
	// Own: this process runs on it.
	Own bool
	// Failed is why it is not tried again now; nil if it is.
	Failed *cloud.Refusal
	// Stays is what of it asks not to be disrupted; empty if nothing does, or if nobody has looked.
	Stays string
}

// Choice is which node to take, and what becomes of those that must go and are not taken.
type Choice struct {
	// Take is the node to take; empty if there is none now.
	Take string
	// Left counts those that may be taken later, and Waiting is what keeps the first of them; empty if nothing does.
	Left    int
	Waiting string
	// Alone are those that are left alone, each with the reason.
	Alone map[string]cloud.Refusal
}

// Choose picks the next node: of those that must go one that is out of service anyway, because it costs nothing, then the
// first by name.
func Choose(p Pool) Choice {
	c := Choice{Alone: map[string]cloud.Refusal{}}
	for _, m := range p.candidates(&c) {
		switch {
		case !p.AtOnce && p.full(m):
			c.wait(fmt.Sprintf("%s of pool %s out of service, and %d may be: %s", wording.Count(p.out(), "node"), p.Name, p.Limit, p.absent()))
		case !p.AtOnce && p.Kured != "" && p.Kured != m.Name:
			c.wait(p.KuredHolder)
		case p.Careful && m.Ready && p.alone(m):
			c.wait(fmt.Sprintf("node %s is the only one of pool %s that takes pods: let the pool have one more", m.Name, p.Name))
		case m.Stays != "":
			c.Alone[m.Name] = cloud.Refuse(AsksToStay, "is left alone, because "+m.Stays, "wait until that is over, or allow it with --disrupt (settings.drain.disrupt)")
		case c.Take == "":
			c.Take = m.Name
		default:
			c.wait("")
		}
	}
	return c
}

// candidates are the nodes that must go and may be taken as far as they alone are concerned, in the order of their turn.
func (p Pool) candidates(c *Choice) []Member {
	var all []Member
	for _, m := range p.Members {
		switch {
		case !m.Old || m.Taken:
		case m.Failed != nil:
			c.Alone[m.Name] = *m.Failed
		case m.Own:
			c.Alone[m.Name] = cloud.Refuse(OwnNode, "is left alone, because this process runs on it", "run the command elsewhere")
		case m.Held != "":
			c.wait(fmt.Sprintf("node %s is held by %s", m.Name, m.Held))
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

// full tells whether there is no room to take a node. One that is out of service anyway takes none, but there are never more
// than the limit under way.
func (p Pool) full(m Member) bool {
	taken := 0
	for _, other := range p.Members {
		if other.Taken {
			taken++
		}
	}
	return taken >= p.Limit || !p.absentee(m) && p.out() >= p.Limit
}

// absentee tells whether a node is out of service.
func (p Pool) absentee(m Member) bool { return m.Taken || !m.Ready || p.Careful && m.Cordoned }

func (p Pool) out() (n int) {
	for _, m := range p.Members {
		if p.absentee(m) {
			n++
		}
	}
	return n
}

// alone tells whether no other node of the pool takes pods.
func (p Pool) alone(m Member) bool {
	return !slices.ContainsFunc(p.Members, func(other Member) bool {
		return other.Name != m.Name && other.Ready && !other.Cordoned && !other.Taken
	})
}

// absent names who is out of service, a few of them.
func (p Pool) absent() string {
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

// wait counts a node that is not taken now, and keeps what it waits for if it is the first.
func (c *Choice) wait(what string) {
	c.Left++
	if c.Waiting == "" {
		c.Waiting = what
	}
}
