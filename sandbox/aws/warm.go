package aws

import (
	"strconv"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// warmPool holds instances that a group launches in advance.
type warmPool struct {
	Min      int    `json:"min"`
	Prepared int    `json:"prepared"` // -1: up to the group's maximum
	State    string `json:"state"`
	Deleting bool   `json:"deleting,omitempty"`
}

func (p *warmPool) element() query.Element {
	e := query.Of("WarmPoolConfiguration", query.Int("MinSize", p.Min), query.Text("PoolState", p.State))
	if p.Prepared >= 0 {
		e.Kids = append(e.Kids, query.Int("MaxGroupPreparedCapacity", p.Prepared))
	}
	if p.Deleting {
		e.Kids = append(e.Kids, query.Text("Status", "PendingDelete"))
	}
	return e
}

// warmPools are the groups' warm pools.
type warmPools struct {
	*backend
	groups groups
}

func (s warmPools) actions() []*action {
	return []*action{
		{name: "PutWarmPool", noun: "group", handle: s.groups.on(s.put)},
		{name: "DeleteWarmPool", noun: "group", handle: s.delete},
		{name: "DescribeWarmPool", noun: "group", reads: true, handle: s.groups.on(s.describe)},
	}
}

func (s warmPools) turns() map[string]turn { return map[string]turn{"warm.gone": s.gone} }

func (s warmPools) put(c *call, st *state, g *group) (query.Element, error) {
	if g.Mixed != nil {
		return query.Element{}, invalid("You can't add a warm pool to an Auto Scaling group that has a mixed instances policy.")
	}
	pool := &warmPool{Prepared: -1, State: "Stopped"}
	if v := c.in.Get("PoolState"); v != "" {
		pool.State = v
	}
	pool.Min, _ = strconv.Atoi(c.in.Get("MinSize"))
	if n, err := strconv.Atoi(c.in.Get("MaxGroupPreparedCapacity")); err == nil {
		pool.Prepared = n
	}
	g.Warm = pool
	st.rebalance(g, st.moment)
	return query.Element{}, nil
}

// fillWarm launches the missing instances of a warm pool.
func (s groups) fillWarm(st *state, g *group) {
	if g.Warm == nil || g.Warm.Deleting {
		return
	}
	prepared := g.Max
	if g.Warm.Prepared >= 0 {
		prepared = g.Warm.Prepared
	}
	for want := max(prepared-g.Desired, g.Warm.Min); len(g.warmed()) < want; {
		if p := s.members.launch(st, g, lifeWarmedPending, "an instance was started for the warm pool"); p != nil {
			return
		}
	}
}

// delete refuses a warm pool with instances, unless forced.
func (s warmPools) delete(c *call, st *state) (query.Element, error) {
	g, p := s.groups.named(c, st)
	switch {
	case p != nil:
		return query.Element{}, p
	case g.Warm == nil:
		return query.Element{}, invalid("There is no warm pool for Auto Scaling group %s", g.Name)
	case !c.in.True("ForceDelete") && len(g.warmed()) > 0:
		return query.Element{}, bad("ResourceInUse", "You cannot delete a warm pool while there are instances still in it.")
	}
	g.Warm.Deleting = true
	now := st.moment
	for _, m := range g.warmed() {
		s.groups.members.terminate(st, g, m, "the warm pool was deleted", now)
	}
	st.plan(now+s.config.Latencies.Terminate, "warm.gone", g.Name, "")
	return query.Element{}, nil
}

func (s warmPools) gone(st *state, e event) *work {
	if g := st.Groups[e.Target]; g != nil && g.Warm != nil && g.Warm.Deleting {
		g.Warm = nil
	}
	return nil
}

func (s warmPools) describe(c *call, st *state, g *group) (query.Element, error) {
	all := g.warmed()
	page, next, p := s.page(c, len(all), 0, 50)
	if p != nil {
		return query.Element{}, p
	}
	out := query.Of("", query.List("Instances", "member", all[page.from:page.to],
		func(m *member) query.Element { return s.groups.members.element(st, m) }), next)
	if g.Warm != nil {
		out.Kids = append(out.Kids, g.Warm.element())
	}
	return out, nil
}
