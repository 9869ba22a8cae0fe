package aws

import (
	"slices"
	"strconv"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// Statuses of instance refreshes.
const (
	refreshPending    = "Pending"
	refreshInProgress = "InProgress"
	refreshCancelling = "Cancelling"
	refreshRollback   = "RollbackInProgress"
	refreshBaking     = "Baking"
)

// refresh replaces the instances of a group one after the other.
type refresh struct {
	ID          string        `json:"id"`
	Status      string        `json:"status"`
	Reason      string        `json:"reason,omitempty"`
	Start       time.Time     `json:"start"`
	End         time.Time     `json:"end"`
	Began       time.Duration `json:"began"`
	Desired     *spec         `json:"desired,omitempty"`
	Preferences *query.Value  `json:"preferences,omitempty"`
	Total       int           `json:"total"`
}

func (r *refresh) going() bool {
	return slices.Contains([]string{refreshPending, refreshInProgress, refreshCancelling, refreshRollback, refreshBaking}, r.Status)
}

// refreshing is the refresh that a group is in; nil if there is none.
func (g *group) refreshing() *refresh {
	if n := len(g.Refreshes); n > 0 && g.Refreshes[n-1].going() {
		return g.Refreshes[n-1]
	}
	return nil
}

// refreshes are replacements of all of a group's instances.
type refreshes struct {
	*backend
	groups groups
}

func (s refreshes) actions() []*action {
	return []*action{
		{name: "StartInstanceRefresh", noun: "group", handle: s.groups.on(s.start)},
		{name: "CancelInstanceRefresh", noun: "group", handle: s.cancel},
		{name: "RollbackInstanceRefresh", noun: "group", handle: s.rollback},
		{name: "DescribeInstanceRefreshes", noun: "group", reads: true, handle: s.groups.on(s.describe)},
	}
}

func (s refreshes) turns() map[string]turn { return map[string]turn{"refresh.step": s.step} }

func (s refreshes) start(c *call, st *state, g *group) (query.Element, error) {
	if g.refreshing() != nil {
		return query.Element{}, bad("InstanceRefreshInProgress",
			"An Instance Refresh is already in progress and blocks the execution of this Instance Refresh.")
	}
	if strategy := c.in.Get("Strategy"); strategy != "" && strategy != "Rolling" {
		return query.Element{}, invalid("The simulation has no strategy %s of instance refreshes, only Rolling", strategy)
	}
	r := &refresh{ID: newUUID(), Status: refreshPending, Start: s.stamp(), Began: st.moment, Preferences: c.in.At("Preferences").Copy()}
	if c.in.Has("DesiredConfiguration.LaunchTemplate") {
		var p *problem
		if r.Desired, p = s.groups.template(st, c.in.At("DesiredConfiguration.LaunchTemplate")); p != nil {
			return query.Element{}, p
		}
	}
	r.Total = len(s.left(st, g, r))
	g.Refreshes = append(g.Refreshes, r)
	st.plan(st.moment, "refresh.step", g.Name, r.ID)
	return query.Of("", query.Text("InstanceRefreshId", r.ID)), nil
}

// left returns the instances that a refresh must still replace.
func (s refreshes) left(st *state, g *group, r *refresh) []*member {
	want := r.Desired
	if want == nil {
		want = g.Template
	}
	version := ""
	if want != nil && st.Templates[want.ID] != nil {
		if v, p := st.Templates[want.ID].version(want.Version); p == nil {
			version = strconv.FormatInt(v.Number, 10)
		}
	}
	var out []*member
	for _, m := range shown(g) {
		matches := want != nil && m.Template.ID == want.ID && m.Template.Version == version
		switch {
		case m.Joined >= r.Began && matches:
		case r.Preferences.True("SkipMatching") && matches:
		case m.Lifecycle == lifeStandby && r.Preferences.Get("StandbyInstances") == "Ignore":
		case m.Protected && r.Preferences.Get("ScaleInProtectedInstances") == "Ignore":
		default:
			out = append(out, m)
		}
	}
	return out
}

// step replaces the next instance when all other instances are in service.
func (s refreshes) step(st *state, e event) *work {
	g := st.Groups[e.Target]
	if g == nil {
		return nil
	}
	r := g.refreshing()
	if r == nil || r.ID != e.Note {
		return nil
	}
	if r.Status == refreshCancelling {
		r.Status, r.End, r.Reason = "Cancelled", s.stamp(), "Cancelled due to user request."
		return nil
	}
	if r.Status == refreshPending {
		r.Status = refreshInProgress
	}
	again := func(after time.Duration) *work {
		st.plan(e.At+after, "refresh.step", g.Name, r.ID)
		return nil
	}
	if slices.Contains(g.Suspended, "InstanceRefresh") {
		return again(s.config.Latencies.Warmup)
	}
	if slices.ContainsFunc(membersOf(g), func(m *member) bool { return m.launching() || m.terminating() }) {
		return again(s.config.Latencies.Launch)
	}
	left := s.left(st, g, r)
	if len(left) == 0 {
		return s.finish(st, g, r, e)
	}
	for _, m := range left {
		if r.waitsFor(m) {
			continue
		}
		s.groups.members.terminate(st, g, m, "an instance was taken out of service in response to an instance refresh", e.At)
		st.Rolled = append(st.Rolled, m.ID)
		st.rebalance(g, e.At)
		return again(s.config.Latencies.Warmup)
	}
	r.Reason = "Waiting for instances in standby or protected from scale in."
	return again(s.config.Latencies.Warmup)
}

// waitsFor: the refresh waits until a user changes the instance.
func (r *refresh) waitsFor(m *member) bool {
	switch {
	case m.Protected && r.Preferences.Get("ScaleInProtectedInstances") != "Refresh":
		return true
	case m.Lifecycle == lifeStandby:
		return r.Preferences.Get("StandbyInstances") != "Terminate"
	}
	return m.Lifecycle != lifeInService
}

// finish ends a refresh, after an optional bake time.
func (s refreshes) finish(st *state, g *group, r *refresh, e event) *work {
	if bake, err := strconv.Atoi(r.Preferences.Get("BakeTime")); err == nil && bake > 0 && r.Status == refreshInProgress {
		r.Status, r.Reason = refreshBaking, ""
		st.plan(e.At+time.Duration(bake)*time.Second, "refresh.step", g.Name, r.ID)
		return nil
	}
	if r.Desired != nil && r.Status != refreshRollback {
		g.Template, g.Mixed, g.Configuration = r.Desired, nil, ""
	}
	r.Status = map[bool]string{true: "RollbackSuccessful", false: "Successful"}[r.Status == refreshRollback]
	r.End, r.Reason = s.stamp(), ""
	return nil
}

// active is the group of a call with its running refresh.
func (s refreshes) active(c *call, st *state) (*group, *refresh, *problem) {
	g, p := s.groups.named(c, st)
	if p != nil {
		return nil, nil, p
	}
	r := g.refreshing()
	if r == nil {
		return nil, nil, bad("ActiveInstanceRefreshNotFound", "No in progress or pending Instance Refresh found for Auto Scaling group %s", g.Name)
	}
	return g, r, nil
}

func (s refreshes) cancel(c *call, st *state) (query.Element, error) {
	_, r, p := s.active(c, st)
	if p != nil {
		return query.Element{}, p
	}
	r.Status = refreshCancelling
	return query.Of("", query.Text("InstanceRefreshId", r.ID)), nil
}

// rollback replaces the new instances by instances of the group's own template.
func (s refreshes) rollback(c *call, st *state) (query.Element, error) {
	g, r, p := s.active(c, st)
	if p != nil {
		return query.Element{}, p
	}
	if r.Desired == nil || g.Template == nil || slices.Contains([]string{"", "$Latest", "$Default"}, g.Template.Version) {
		return query.Element{}, bad("IrreversibleInstanceRefresh",
			"The instance refresh has no desired configuration to go back from, or the group names no version by its number")
	}
	r.Status, r.Desired, r.Began = refreshRollback, g.Template, st.moment
	return query.Of("", query.Text("InstanceRefreshId", r.ID)), nil
}

func (s refreshes) describe(c *call, st *state, g *group) (query.Element, error) {
	ids := c.in.Texts("InstanceRefreshIds")
	var all []*refresh
	for _, r := range slices.Backward(g.Refreshes) {
		if len(ids) == 0 || slices.Contains(ids, r.ID) {
			all = append(all, r)
		}
	}
	return listed(s.backend, c, "InstanceRefreshes", all, 0, 100, func(r *refresh) query.Element {
		left := len(s.left(st, g, r))
		percent := 100
		if r.Total > 0 && r.going() {
			percent = max(0, 100*(r.Total-left)/r.Total)
		}
		return query.Of("", query.Text("InstanceRefreshId", r.ID), query.Text("AutoScalingGroupName", g.Name), query.Text("Status", r.Status),
			query.Text("StatusReason", r.Reason),
			query.Date("StartTime", r.Start), query.Date("EndTime", r.End), query.Int("PercentageComplete", percent), query.Int("InstancesToUpdate", left),
			asWritten("Preferences", r.Preferences))
	})
}
