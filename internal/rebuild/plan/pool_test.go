package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// failed is the refusal of an earlier rebuild.
var failed = cloud.Refuse(NotDrained, "was not drained", "see to that")

// members returns all states of one node of a pool.
func members(name string) []Member {
	var all []Member
	for bits := range 1 << 8 {
		on := func(n int) bool { return bits>>n&1 == 1 }
		m := Member{Name: name, Old: on(0), Taken: on(1), Ready: on(2), Cordoned: on(3), Own: on(4)}
		if on(5) {
			m.Held = "prototype p"
		}
		if on(6) {
			m.Failed = &failed
		}
		if on(7) {
			m.Stays = "it asks to stay"
		}
		if m.Taken && m.Held != "" {
			continue
		}
		all = append(all, m)
	}
	return all
}

// pools returns all pools of two such nodes, for each limit and each rule.
func pools() []PoolFacts {
	var all []PoolFacts
	for _, a := range members("a") {
		for _, b := range members("b") {
			if b.Own || b.Stays != "" {
				continue // the first node covers these states
			}
			for rules := range 1 << 3 {
				p := PoolFacts{Name: "pool1", Limit: 1 + rules&1, Careful: rules&2 != 0, Members: []Member{a, b}}
				if rules&4 != 0 {
					p.Kured, p.KuredHolder = "b", "kured has node b"
				}
				all = append(all, p)
			}
		}
	}
	return all
}

func (p PoolFacts) member(name string) Member {
	return p.Members[slices.IndexFunc(p.Members, func(m Member) bool { return m.Name == name })]
}

// TestTheRulesOfTaking: a node is taken only if the node is old, free and may be disrupted, and the limit allows the
// rebuild.
func TestTheRulesOfTaking(t *testing.T) {
	took := 0
	for _, p := range pools() {
		c := Choose(p)
		if c.Take == "" {
			continue
		}
		took++
		m, out, taken := p.member(c.Take), 0, 0
		other := p.Members[0]
		if other.Name == m.Name {
			other = p.Members[1]
		}
		for _, each := range p.Members {
			if each.Taken {
				taken++
			}
			if each.Taken || !each.Ready || p.Careful && each.Cordoned {
				out++
			}
		}
		serves := m.Ready && (!p.Careful || !m.Cordoned)
		switch {
		case !m.Old, m.Taken, m.Held != "", m.Own, m.Failed != nil, m.Stays != "":
			t.Errorf("%+v: takes %s", p, c.Take)
		case taken >= p.Limit, serves && out >= p.Limit:
			t.Errorf("%+v: takes %s, where %d are out of service", p, c.Take, out)
		case p.Kured != "" && p.Kured != c.Take:
			t.Errorf("%+v: takes %s while kured reboots another", p, c.Take)
		case p.Careful && m.Ready && (!other.Ready || other.Cordoned || other.Taken):
			t.Errorf("%+v: takes the only node that takes pods", p)
		}
	}
	if took == 0 {
		t.Fatal("no pool lets a node be taken")
	}
}

// TestEachThatMustGoIsAccountedFor: each old node is taken, waits with a reason, or is left alone with a reason and a
// remedy. No other node is in the result.
func TestEachThatMustGoIsAccountedFor(t *testing.T) {
	for _, p := range pools() {
		c, must := Choose(p), 0
		for _, m := range p.Members {
			if m.Old && !m.Taken {
				must++
			}
			if r, alone := c.Alone[m.Name]; alone && (!m.Old || m.Taken || r.Reason == "" || r.Remedy == "") {
				t.Errorf("%+v: %s is left alone: %+v", p, m.Name, r)
			}
		}
		got := c.Left + len(c.Alone)
		if c.Take != "" {
			got++
		}
		if got != must {
			t.Errorf("%+v: %d must go, and of %d something is said: %+v", p, must, got, c)
		}
		if c.Left > 0 && c.Take == "" && c.Waiting == "" {
			t.Errorf("%+v: nothing says what is waited for: %+v", p, c)
		}
	}
}

// TestAllAtOnceWaitsForNothing except for the holder of a node.
func TestAllAtOnceWaitsForNothing(t *testing.T) {
	for _, p := range pools() {
		p.AtOnce, p.Careful = true, false
		c, free := Choose(p), 0
		for _, m := range p.Members {
			if m.Old && !m.Taken && m.Held == "" && !m.Own && m.Failed == nil && m.Stays == "" {
				free++
			}
		}
		if (c.Take != "") != (free > 0) {
			t.Errorf("%+v: takes %q of %d", p, c.Take, free)
		}
	}
}

func TestChoose(t *testing.T) {
	old := Member{Old: true, Ready: true}
	many := func(changes ...func(m *Member)) []Member {
		all := []Member{}
		for i, change := range changes {
			m := old
			m.Name = fmt.Sprintf("n%d", i)
			if change == nil {
				m.Old = false
			} else {
				change(&m)
			}
			all = append(all, m)
		}
		return all
	}
	as := func(*Member) {}
	taken := func(m *Member) { m.Taken = true }
	down := func(m *Member) { m.Ready = false }
	cordoned := func(m *Member) { m.Cordoned = true }
	held := func(m *Member) { m.Held = "prototype p" }
	stays := func(m *Member) { m.Stays = "it asks to stay" }
	own := func(m *Member) { m.Own = true }
	fails := func(m *Member) { m.Failed = &failed }
	for _, test := range []struct {
		name    string
		p       PoolFacts
		take    string
		left    int
		waiting string
		alone   string
	}{
		{"the first by name", PoolFacts{Limit: 1, Members: many(nil, as, as)}, "n1", 1, "", ""},
		{"one that is down goes first", PoolFacts{Limit: 1, Members: many(nil, as, down)}, "n2", 1,
			"1 node of pool pool1 out of service, and 1 may be: n2 (not Ready)", ""},
		{"one that is down and good holds the others up", PoolFacts{Limit: 1, Members: many(as, func(m *Member) { m.Old, m.Ready = false, false })}, "", 1,
			"1 node of pool pool1 out of service, and 1 may be: n1 (not Ready); run `kubectl get nodes`, and repair, uncordon or delete these nodes", ""},
		{"one at a time", PoolFacts{Limit: 1, Members: many(taken, as)}, "", 1, "1 node of pool pool1 out of service, and 1 may be: n0 (being rebuilt)", ""},
		{"never more under way than may be, even of those that are down", PoolFacts{Limit: 1, Members: many(taken, down)}, "", 1,
			"2 nodes of pool pool1 out of service, and 1 may be: n0 (being rebuilt), n1 (not Ready)", ""},
		{"two at a time", PoolFacts{Limit: 2, Members: many(taken, as, as)}, "n1", 1, "", ""},
		{"many are away", PoolFacts{Limit: 2, Members: many(taken, taken, taken, taken, as)}, "", 1,
			"4 nodes of pool pool1 out of service, and 2 may be: n0 (being rebuilt), n1 (being rebuilt), n2 (being rebuilt), and 1 more", ""},
		{"kured", PoolFacts{Limit: 1, Kured: "n0", KuredHolder: "kured has node n0", Members: many(nil, as)}, "", 1, "kured has node n0", ""},
		{"kured's own", PoolFacts{Limit: 1, Kured: "n1", KuredHolder: "kured has node n1", Members: many(nil, as, as)}, "n1", 1, "kured has node n1", ""},
		{"a capture's", PoolFacts{Limit: 1, Members: many(held, as)}, "n1", 1,
			"node n0 is held by prototype p: `kamino reservations` shows whether the holder will release the node", ""},
		{"its own", PoolFacts{Limit: 1, Members: many(own, nil)}, "", 0, "", "is left alone, because this process runs on the node: run the command elsewhere"},
		{"one that asks to stay", PoolFacts{Limit: 1, Members: many(stays, nil)}, "", 0, "",
			"is left alone: it asks to stay; wait until the annotation is gone, or pass --disrupt (settings.drain.disrupt)"},
		{"one that failed", PoolFacts{Limit: 1, Members: many(fails, nil)}, "", 0, "", "was not drained: see to that"},
		{"one that is cordoned is in service for a person", PoolFacts{Limit: 1, Members: many(as, cordoned)}, "n0", 1, "", ""},
		{"and not for a policy", PoolFacts{Limit: 1, Careful: true, Members: many(as, nil, cordoned)}, "n2", 1,
			"1 node of pool pool1 out of service, and 1 may be: n2 (cordoned); run `kubectl get nodes`, and repair, uncordon or delete these nodes", ""},
		{"the only one, for a person", PoolFacts{Limit: 1, Members: many(as)}, "n0", 0, "", ""},
		{"the only one, for a policy", PoolFacts{Limit: 1, Careful: true, Members: many(as)}, "", 1,
			"node n0 is the only node of pool pool1 that accepts pods: add a node to the pool", ""},
		{"nothing must go", PoolFacts{Limit: 1, Members: many(nil, nil)}, "", 0, "", ""},
	} {
		test.p.Name = "pool1"
		c := Choose(test.p)
		var alone []string
		for _, r := range c.Alone {
			alone = append(alone, r.Message)
		}
		if c.Take != test.take || c.Left != test.left || c.Waiting != test.waiting || strings.Join(alone, "; ") != test.alone {
			t.Errorf("%s: %+v", test.name, c)
		}
	}
}

// TestTheOrderOfTheListDoesNotMatter, and a larger limit never prevents a rebuild.
func TestTheOrderOfTheListDoesNotMatter(t *testing.T) {
	for _, p := range pools() {
		c := Choose(p)
		turned := p
		turned.Members = []Member{p.Members[1], p.Members[0]}
		if other := Choose(turned); other.Take != c.Take || other.Left != c.Left || len(other.Alone) != len(c.Alone) {
			t.Errorf("%+v: %+v, and turned round %+v", p, c, other)
		}
		wider := p
		wider.Limit++
		if c.Take != "" && Choose(wider).Take == "" {
			t.Errorf("%+v: takes %s, and none with a limit of %d", p, c.Take, wider.Limit)
		}
	}
}
