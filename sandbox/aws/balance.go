package aws

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// balance brings a group to its size: launches missing instances, and terminates surplus instances.
func (s groups) balance(st *state, e event) *work {
	g := st.Groups[e.Target]
	if g == nil || g.Deleting {
		return nil
	}
	for g.size() < g.Desired && !slices.Contains(g.Suspended, "Launch") {
		cause := fmt.Sprintf("an instance was started in response to a difference between desired and actual capacity, "+
			"increasing the capacity from %d to %d", g.size(), g.size()+1)
		if s.thaw(st, g, cause) {
			continue
		}
		if p := s.members.launch(st, g, lifePending, cause); p != nil {
			st.unplan("group.balance", g.Name)
			st.plan(e.At+s.config.Latencies.Retry, "group.balance", g.Name, "")
			break
		}
	}
	for g.size() > g.Desired && !slices.Contains(g.Suspended, "Terminate") {
		m := surplus(st, g)
		if m == nil {
			break
		}
		if g.Warm != nil && g.Warm.Reuses && !g.Warm.Deleting {
			// The instance keeps its disk.
			m.Lifecycle = lifeWarmedPending
			st.plan(e.At, "member.launched", m.ID, "")
			continue
		}
		s.members.terminate(st, g, m,
			fmt.Sprintf("an instance was taken out of service in response to a difference between desired and actual capacity, "+
				"shrinking the capacity from %d to %d", g.size(), g.size()-1), e.At)
	}
	s.rebalanceZones(st, g, e)
	s.fillWarm(st, g)
	return nil
}

// rebalanceZones replaces an instance of the fullest zone by an instance in the emptiest zone, if the zones differ by more than
// one. AWS does so after an instance has entered standby, and drains no node.
func (s groups) rebalanceZones(st *state, g *group, e event) {
	// Not verified on AWS, standby: AWS rebalances zones after `EnterStandby`, and launches an instance before the termination.
	suspends := func(process string) bool { return slices.Contains(g.Suspended, process) }
	zones, changing := s.zonesOf(st, g)
	if changing || suspends("AZRebalance") || suspends("Launch") || suspends("Terminate") {
		return
	}
	least, most := "", ""
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		if least == "" || zones[zone] < zones[least] {
			least = zone
		}
		if most == "" || zones[zone] > zones[most] {
			most = zone
		}
	}
	if g.size() != g.Desired || zones[most]-zones[least] <= 1 {
		return
	}
	cause := fmt.Sprintf("invocations of the AZRebalance process: an instance was launched to aid in balancing the group's zones (%s: %d, %s: %d)",
		most, zones[most], least, zones[least])
	if p := s.members.launch(st, g, lifePending, cause); p != nil {
		return
	}
	if m := surplus(st, g); m != nil {
		s.members.terminate(st, g, m, "an instance was taken out of service to balance the group's zones", e.At)
	}
}

// zonesOf counts the group's instances by zone. changing is true while an instance is pending.
func (s groups) zonesOf(st *state, g *group) (zones map[string]int, changing bool) {
	zones = map[string]int{}
	for _, n := range s.subnets(st) {
		if slices.Contains(g.Subnets, n.ID) {
			zones[n.Zone] = 0
		}
	}
	for _, m := range g.Members {
		if i := st.Instances[m.ID]; i != nil && m.counts() {
			changing = changing || m.launching()
			zones[i.Zone]++
		}
	}
	return zones, changing
}

// thaw takes an instance from the warm pool; false if there is none that could be taken.
func (s groups) thaw(st *state, g *group, cause string) bool {
	for _, m := range g.warmed() {
		i := st.Instances[m.ID]
		if i == nil || !m.isWarm() {
			continue
		}
		a := s.members.begin(g, "Launching a new EC2 instance from warm pool: "+m.ID, cause)
		m.Activity, m.Protected = a.ID, g.Protect
		now := st.moment
		if m.Lifecycle != lifeWarmedRunning {
			m.Lifecycle = lifePending
			i.State, i.Reason, i.Launched = pending, "", s.stamp()
			st.plan(now+s.config.Latencies.Start, "instance.start", m.ID, "")
		} else {
			m.Lifecycle = lifePending
			st.plan(now, "member.launched", m.ID, "")
		}
		return true
	}
	return false
}

// surplus is the next instance to terminate: in the zone with most instances, of the oldest template version, the
// oldest. Protected instances stay.
func surplus(st *state, g *group) *member {
	zones := map[string]int{}
	for _, m := range g.Members {
		if i := st.Instances[m.ID]; i != nil && m.counts() {
			zones[i.Zone]++
		}
	}
	var best *member
	rank := func(m *member) (int, int, int64) {
		version, _ := strconv.Atoi(m.Template.Version)
		zone := 0
		if i := st.Instances[m.ID]; i != nil {
			zone = zones[i.Zone]
		}
		return zone, version, int64(m.Joined)
	}
	for _, m := range membersOf(g) {
		if m.Protected || !m.counts() {
			continue
		}
		if best == nil {
			best = m
			continue
		}
		zone, version, joined := rank(m)
		bestZone, bestVersion, bestJoined := rank(best)
		if zone > bestZone || zone == bestZone && (version < bestVersion || version == bestVersion && joined < bestJoined) {
			best = m
		}
	}
	return best
}
