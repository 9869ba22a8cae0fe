package aws

import (
	"slices"
	"strconv"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// warmPool holds instances that a group launches in advance.
type warmPool struct {
	Min      int    `json:"min"`
	Prepared int    `json:"prepared"` // -1: up to the group's maximum
	State    string `json:"state"`
	Deleting bool   `json:"deleting,omitempty"`
	// Reuses: an instance that leaves the group at a scale-in returns to the warm pool.
	Reuses bool `json:"reuses,omitempty"`
}

func (p *warmPool) element() query.Element {
	e := query.Of("WarmPoolConfiguration", query.Int("MinSize", p.Min), query.Text("PoolState", p.State))
	if p.Prepared >= 0 {
		e.Kids = append(e.Kids, query.Int("MaxGroupPreparedCapacity", p.Prepared))
	}
	if p.Reuses {
		e.Kids = append(e.Kids, query.Of("InstanceReusePolicy", query.Bool("ReuseOnScaleIn", true)))
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
	if g.Warm != nil && g.Warm.Deleting {
		return query.Element{}, bad("ScalingActivityInProgress", "The warm pool of %s is being deleted", g.Name)
	}
	pool := &warmPool{Prepared: -1, State: "Stopped", Reuses: c.in.True("InstanceReusePolicy.ReuseOnScaleIn")}
	if g.Warm != nil { // what the request omits stays
		pool.Prepared = g.Warm.Prepared
	}
	if v := c.in.Get("PoolState"); v != "" {
		pool.State = v
	}
	pool.Min, _ = strconv.Atoi(c.in.Get("MinSize"))
	if n, err := strconv.Atoi(c.in.Get("MaxGroupPreparedCapacity")); err == nil {
		if n < -1 {
			return query.Element{}, invalid("MaxGroupPreparedCapacity must be at least -1")
		}
		pool.Prepared = n
	}
	g.Warm = pool
	st.rebalance(g, st.moment)
	return query.Element{}, nil
}

// fillWarm launches the missing instances of a warm pool, and ends surplus ones.
func (s groups) fillWarm(st *state, g *group) {
	if g.Warm == nil || g.Warm.Deleting {
		return
	}
	prepared := g.Max
	if g.Warm.Prepared >= 0 {
		prepared = g.Warm.Prepared
	}
	size := func() int {
		return len(slices.DeleteFunc(g.warmed(), (*member).terminating))
	}
	want := max(prepared-g.Desired, g.Warm.Min)
	for size() < want && !slices.Contains(g.Suspended, "Launch") {
		if p := s.members.launch(st, g, lifeWarmedPending, "an instance was started for the warm pool"); p != nil {
			return
		}
	}
	// Not verified on AWS, pools: a warm pool that becomes smaller ends instances that wait in it, and no instance that is leaving it.
	for _, m := range g.warmed() {
		if size() > want && m.isWarm() && !slices.Contains(g.Suspended, "Terminate") {
			s.members.terminate(st, g, m, "the warm pool became smaller", st.moment)
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
