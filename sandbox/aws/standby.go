package aws

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// standbys are instances in standby, and instances with scale-in protection.
type standbys struct {
	*backend
	groups groups
}

func (s standbys) actions() []*action {
	return []*action{
		{name: "EnterStandby", noun: "group", handle: s.enter},
		{name: "ExitStandby", noun: "group", handle: s.exit},
		{name: "SetInstanceProtection", noun: "group", handle: s.protect},
		{name: "SetInstanceHealth", noun: "group", handle: s.health},
		{name: "TerminateInstanceInAutoScalingGroup", noun: "group", handle: s.terminate},
	}
}

// named are the group and the instances of a call, all in one of the given states.
func (s standbys) named(c *call, st *state, states ...string) (*group, []*member, *problem) {
	g, p := s.groups.named(c, st)
	if p != nil {
		return nil, nil, p
	}
	ids := c.in.Texts("InstanceIds")
	if len(ids) == 0 {
		return nil, nil, invalid("1 validation error detected: Value null at 'instanceIds' failed to satisfy constraint: Member must not be null")
	}
	var out []*member
	for _, id := range ids {
		m := g.Members[id]
		if m == nil {
			return nil, nil, invalid("The instance %s is not part of Auto Scaling group %s.", id, g.Name)
		}
		if len(states) > 0 && !slices.Contains(states, m.Lifecycle) {
			return nil, nil, invalid("The instance %s is not in %s.", id, oneOf(states))
		}
		out = append(out, m)
	}
	return g, out, nil
}

func oneOf(states []string) string {
	out := states[0]
	for _, state := range states[1:] {
		out += " or " + state
	}
	return out
}

// decrement reads whether the group's size decreases with the removed instances. The minimum may forbid the decrease.
func decrement(c *call, g *group, n int, doing string) (int, *problem) {
	text := c.in.Get("ShouldDecrementDesiredCapacity")
	smaller, err := strconv.ParseBool(text)
	switch {
	case err != nil:
		return 0, invalid("1 validation error detected: Value null at 'shouldDecrementDesiredCapacity' failed to satisfy constraint: Member must not be null")
	case !smaller:
		return 0, nil
	case g.Desired-n < g.Min:
		return 0, invalid("AutoScalingGroup %s has min-size=%d, max-size=%d, and desired-size=%d. To %s %d instance, "+
			"please update the AutoScalingGroup sizes appropriately.",
			g.Name, g.Min, g.Max, g.Desired, doing, n)
	}
	return n, nil
}

// enter puts instances into standby. Without the decrement the group launches replacements.
func (s standbys) enter(c *call, st *state) (query.Element, error) {
	g, all, p := s.named(c, st, lifeInService)
	if p != nil {
		return query.Element{}, p
	}
	n, p := decrement(c, g, len(all), "place into standby")
	if p != nil {
		return query.Element{}, p
	}
	var out []*activity
	for _, m := range all {
		a := s.begin(g, "Moving EC2 instance to Standby: "+m.ID,
			fmt.Sprintf("instance %s was moved to standby in response to a user request, shrinking the capacity from %d to %d", m.ID, g.Desired, g.Desired-n))
		m.Lifecycle, m.Activity = lifeEntering, a.ID
		st.plan(st.moment+s.config.Latencies.Standby, "member.settle", m.ID, lifeStandby)
		out = append(out, a)
	}
	g.Desired -= n
	st.rebalance(g, st.moment)
	return activitiesElement(g, out), nil
}

// exit takes instances back into service, which makes the group larger by as many.
func (s standbys) exit(c *call, st *state) (query.Element, error) {
	g, all, p := s.named(c, st, lifeStandby)
	if p != nil {
		return query.Element{}, p
	}
	// Not verified on AWS, standby: `ExitStandby` returns `ValidationError` if the group is at the maximum size.
	if g.Desired+len(all) > g.Max {
		return query.Element{}, invalid(
			"AutoScalingGroup %s has min-size=%d, max-size=%d, and desired-size=%d. To move %d instance out of standby, "+
				"please update the AutoScalingGroup sizes appropriately.",
			g.Name, g.Min, g.Max, g.Desired, len(all))
	}
	var out []*activity
	for _, m := range all {
		a := s.begin(g, "Moving EC2 instance out of Standby: "+m.ID,
			fmt.Sprintf("instance %s was moved out of standby in response to a user request, increasing the capacity from %d to %d",
				m.ID, g.Desired, g.Desired+1))
		// Not verified on AWS, standby: no lifecycle hook runs when an instance leaves standby.
		m.Lifecycle, m.Activity = lifePending, a.ID
		st.plan(st.moment+s.config.Latencies.Standby, "member.settle", m.ID, lifeInService)
		out = append(out, a)
		g.Desired++
	}
	return activitiesElement(g, out), nil
}

// protect has a scale-in spare instances, or not any more.
func (s standbys) protect(c *call, st *state) (query.Element, error) {
	// Not verified on AWS, standby: an instance in standby keeps its scale-in protection.
	g, all, p := s.named(c, st, lifeInService, lifeEntering, lifeStandby)
	if p != nil {
		return query.Element{}, p
	}
	value, err := strconv.ParseBool(c.in.Get("ProtectedFromScaleIn"))
	if err != nil {
		return query.Element{}, invalid(
			"1 validation error detected: Value null at 'protectedFromScaleIn' failed to satisfy constraint: Member must not be null")
	}
	for _, m := range all {
		m.Protected = value
	}
	st.rebalance(g, st.moment)
	return query.Element{}, nil
}

// health sets the health of an instance.
func (s standbys) health(c *call, st *state) (query.Element, error) {
	g, m := memberOf(st, c.in.Get("InstanceId"))
	if g == nil {
		return query.Element{}, invalid("Instance Id not found - No managed instance found for instance ID %s", c.in.Get("InstanceId"))
	}
	m.Unhealthy = c.in.Get("HealthStatus") == "Unhealthy"
	st.plan(st.moment, "member.health", m.ID, "")
	return query.Element{}, nil
}

// terminate terminates an instance of a group. An instance in standby is not part of the size, so the size is not
// decreased.
func (s standbys) terminate(c *call, st *state) (query.Element, error) {
	// Not verified on AWS, standby: the termination of an instance in standby does not lower the desired capacity.
	id := c.in.Get("InstanceId")
	g, m := memberOf(st, id)
	if g == nil {
		return query.Element{}, invalid("Instance Id not found - No managed instance found for instance ID: %s", id)
	}
	if m.warmed() {
		return query.Element{}, invalid("The instance %s is in a warm pool", id)
	}
	if m.terminating() {
		return query.Element{}, invalid("The instance %s is already terminating", id)
	}
	n, p := decrement(c, g, 1, "terminate")
	if !m.counts() {
		n = 0
	} else if p != nil {
		p.Text = fmt.Sprintf("Currently, desiredSize equals minSize (%d). Terminating instance without replacement will violate group's min size constraint. "+
			"Either set shouldDecrementDesiredCapacity flag to false or lower group's min size.", g.Min)
		return query.Element{}, p
	}
	a := s.groups.members.terminate(st, g, m,
		fmt.Sprintf("instance %s was taken out of service in response to a user request, shrinking the capacity from %d to %d",
			id, g.Desired, g.Desired-n), st.moment)
	g.Desired -= n
	st.rebalance(g, st.moment)
	e := a.element(g.Name)
	e.Name = "Activity"
	return query.Of("", e), nil
}
