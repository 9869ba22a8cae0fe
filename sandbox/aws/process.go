package aws

import (
	"slices"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// everyProcess lists the automatic processes of a group.
var everyProcess = []string{"Launch", "Terminate", "AddToLoadBalancer", "AlarmNotification", "AZRebalance", "HealthCheck", "InstanceRefresh",
	"ReplaceUnhealthy", "ScheduledActions"}

// processes can be suspended.
type processes struct {
	*backend
	groups groups
}

func (s processes) actions() []*action {
	return []*action{
		{name: "SuspendProcesses", noun: "group", handle: s.groups.on(s.suspend)},
		{name: "ResumeProcesses", noun: "group", handle: s.groups.on(s.resume)},
	}
}

func (s processes) wanted(c *call) ([]string, *problem) {
	names := c.in.Texts("ScalingProcesses")
	for _, name := range names {
		if !slices.Contains(everyProcess, name) {
			return nil, invalid("1 validation error detected: the process name %s is not valid", name)
		}
	}
	if len(names) == 0 {
		return everyProcess, nil
	}
	return names, nil
}

func (s processes) suspend(c *call, _ *state, g *group) (query.Element, error) {
	names, p := s.wanted(c)
	if p != nil {
		return query.Element{}, p
	}
	for _, name := range names {
		if !slices.Contains(g.Suspended, name) {
			g.Suspended = append(g.Suspended, name)
			if g.SuspendedAt == nil {
				g.SuspendedAt = map[string]time.Time{}
			}
			g.SuspendedAt[name] = s.stamp()
		}
	}
	slices.Sort(g.Suspended)
	return query.Element{}, nil
}

func (s processes) resume(c *call, st *state, g *group) (query.Element, error) {
	names, p := s.wanted(c)
	if p != nil {
		return query.Element{}, p
	}
	g.Suspended = slices.DeleteFunc(g.Suspended, func(name string) bool { return slices.Contains(names, name) })
	st.rebalance(g, st.moment)
	for _, m := range membersOf(g) {
		st.plan(st.moment+s.config.Latencies.Health, "member.health", m.ID, "")
	}
	return query.Element{}, nil
}
