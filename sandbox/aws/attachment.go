package aws

import (
	"fmt"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// attachments attaches instances to groups and detaches instances.
type attachments struct {
	*backend
	groups groups
}

func (s attachments) actions() []*action {
	return []*action{
		{name: "AttachInstances", noun: "group", handle: s.groups.on(s.attach)},
		{name: "DetachInstances", noun: "group", handle: s.detach},
	}
}

// attach takes running instances into a group, which becomes larger by as many.
func (s attachments) attach(c *call, st *state, g *group) (query.Element, error) {
	ids := c.in.Texts("InstanceIds")
	for _, id := range ids {
		i := st.Instances[id]
		other, _ := memberOf(st, id)
		switch {
		case i == nil || !s.sees(i):
			return query.Element{}, invalid("Invalid Instance IDs: [%s] - The instance ID '%s' does not exist", id, id)
		case i.State != running:
			return query.Element{}, invalid("Invalid Instance IDs: [%s] - The instance is not in the correct state: %s", id, i.State)
		case other != nil:
			return query.Element{}, invalid("Instance %s is already part of AutoScalingGroup:%s", id, other.Name)
		case st.Images[i.Image] == nil || st.Images[i.Image].State == imageGone:
			return query.Element{}, invalid("The image %s of instance %s does not exist any more", i.Image, id)
		}
	}
	if g.Desired+len(ids) > g.Max {
		return query.Element{}, invalid(
			"AutoScalingGroup %s has min-size=%d, max-size=%d, and desired-size=%d. To attach %d more instance, "+
				"please update the AutoScalingGroup sizes appropriately.",
			g.Name, g.Min, g.Max, g.Desired, len(ids))
	}
	for _, id := range ids {
		i := st.Instances[id]
		a := s.begin(g, "Attaching an existing EC2 instance: "+id,
			fmt.Sprintf("an instance was added in response to user request, increasing the capacity from %d to %d", g.Desired, g.Desired+1))
		m := &member{ID: id, Lifecycle: lifePending, Protected: g.Protect, Type: i.Type, Joined: st.moment, Activity: a.ID}
		if t := i.Tags["aws:ec2launchtemplate:id"]; st.Templates[t] != nil {
			m.Template = spec{t, st.Templates[t].Name, i.Tags["aws:ec2launchtemplate:version"]}
		}
		g.Members[id] = m
		i.Tags["aws:autoscaling:groupName"] = g.Name
		g.Desired++
		st.plan(st.moment+s.config.Latencies.Standby, "member.settle", id, lifeInService)
	}
	return query.Element{}, nil
}

// detach removes instances from a group; the instances keep running.
func (s attachments) detach(c *call, st *state) (query.Element, error) {
	g, all, p := standbys(s).named(c, st, lifeInService, lifeStandby)
	if p != nil {
		return query.Element{}, p
	}
	counted := 0
	for _, m := range all {
		if m.counts() {
			counted++
		}
	}
	n, p := decrement(c, g, counted, "detach")
	if p != nil {
		return query.Element{}, p
	}
	var out []*activity
	for _, m := range all {
		a := s.begin(g, "Detaching EC2 instance: "+m.ID, fmt.Sprintf("instance %s was detached in response to a user request", m.ID))
		m.Lifecycle, m.Activity = lifeDetaching, a.ID
		st.plan(st.moment+s.config.Latencies.Standby, "member.settle", m.ID, "")
		out = append(out, a)
	}
	g.Desired -= n
	st.rebalance(g, st.moment)
	return activitiesElement(g, out), nil
}
