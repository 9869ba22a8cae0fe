package aws

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// Lifecycle states of a group's instances.
const (
	lifePending       = "Pending"
	lifeInService     = "InService"
	lifeTerminating   = "Terminating"
	lifeDetaching     = "Detaching"
	lifeEntering      = "EnteringStandby"
	lifeStandby       = "Standby"
	lifeWarmedPending = "Warmed:Pending"
	lifeWarmedStopped = "Warmed:Stopped"
	lifeWarmedRunning = "Warmed:Running"
	lifeWarmedAsleep  = "Warmed:Hibernated"
	lifeWarmedEnding  = "Warmed:Terminating"
	// An instance in these states waits for lifecycle hooks.
	lifePendingWait     = "Pending:Wait"
	lifeTerminatingWait = "Terminating:Wait"
)

// member is an instance of a group.
type member struct {
	ID        string `json:"id"`
	Lifecycle string `json:"lifecycle"`
	Unhealthy bool   `json:"unhealthy,omitempty"`
	Protected bool   `json:"protected,omitempty"`
	// Template is the version of the launch template, by number.
	Template      spec          `json:"template"`
	Configuration string        `json:"configuration,omitempty"`
	Type          string        `json:"type"`
	Joined        time.Duration `json:"joined"`
	Activity      string        `json:"activity"`
	// Waits are the lifecycle hooks that the instance waits for.
	Waits []string `json:"waits,omitempty"`
}

// counts: the instance is part of the group's size.
func (m *member) counts() bool { return m.launching() || m.Lifecycle == lifeInService }

// launching: the instance is not in service yet.
func (m *member) launching() bool {
	return m.Lifecycle == lifePending || m.Lifecycle == lifePendingWait
}

// terminating: the instance leaves the group for good.
func (m *member) terminating() bool {
	return m.Lifecycle == lifeTerminating || m.Lifecycle == lifeTerminatingWait || m.Lifecycle == lifeWarmedEnding
}

// isWarm: the instance waits in the warm pool.
func (m *member) isWarm() bool {
	return m.Lifecycle == lifeWarmedStopped || m.Lifecycle == lifeWarmedRunning || m.Lifecycle == lifeWarmedAsleep
}

func (m *member) warmed() bool { return strings.HasPrefix(m.Lifecycle, "Warmed:") }

// members are instances of groups.
type members struct {
	*backend
	runs runs
}

func (s members) turns() map[string]turn {
	return map[string]turn{"member.launched": s.launched, "member.health": s.health, "member.settle": s.settle, "member.gone": s.gone}
}

// memberOf is the group of an instance; nil for none.
func memberOf(st *state, id string) (*group, *member) {
	for _, g := range st.Groups {
		if m := g.Members[id]; m != nil {
			return g, m
		}
	}
	return nil, nil
}

// membersOf returns the instances of a group, oldest member first.
func membersOf(g *group) []*member {
	var out []*member
	for _, m := range g.Members {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *member) int {
		if a.Joined != b.Joined {
			return int(a.Joined - b.Joined)
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

// shown returns the visible members. The warm pool is listed separately.
func shown(g *group) []*member {
	return slices.DeleteFunc(membersOf(g), (*member).warmed)
}

func (g *group) warmed() []*member {
	return slices.DeleteFunc(membersOf(g), func(m *member) bool { return !m.warmed() })
}

// size is how many instances the group counts.
func (g *group) size() int {
	n := 0
	for _, m := range g.Members {
		if m.counts() {
			n++
		}
	}
	return n
}

// settle ends a transition. The event's note is the new lifecycle state, or empty if the instance leaves.
func (s members) settle(st *state, e event) *work {
	g, m := memberOf(st, e.Target)
	if g == nil || m.terminating() {
		return nil
	}
	s.succeed(g, m.Activity)
	m.Lifecycle = e.Note
	if e.Note == "" {
		delete(g.Members, m.ID)
		delete(st.Instances[m.ID].Tags, "aws:autoscaling:groupName")
		st.plan(e.At, "group.gone", g.Name, "")
	}
	if e.Note == lifeInService { // the instance may have been stopped meanwhile
		st.plan(e.At+s.config.Latencies.Health, "member.health", m.ID, "")
	}
	return nil
}

// launched puts a running instance into service.
func (s members) launched(st *state, e event) *work {
	g, m := memberOf(st, e.Target)
	if g == nil {
		return nil
	}
	switch m.Lifecycle {
	case lifePending:
		if s.waitAt(st, g, m, hookLaunching, lifePendingWait, e.At) {
			return nil
		}
		m.Lifecycle = lifeInService
	case lifeWarmedPending:
		i := st.Instances[m.ID]
		if m.Lifecycle = lifeWarmedRunning; g.Warm != nil && g.Warm.State != "Running" {
			m.Lifecycle = lifeWarmedPending
			powers{backend: s.backend}.halt(st, i, "Server.AutoScaling: stopped for the warm pool", false, e.At)
		}
	}
	s.succeed(g, m.Activity)
	return nil
}

// health checks an instance in service, and replaces a stopped or terminated instance. Suspended processes repeat the
// check when they resume.
func (s members) health(st *state, e event) *work {
	g, m := memberOf(st, e.Target)
	if g == nil || m.terminating() {
		return nil
	}
	i := st.Instances[m.ID]
	there := i != nil && (i.State == running || i.State == pending)
	gone := i == nil || i.State == terminated || i.State == shuttingDown
	switch {
	case slices.Contains(g.Suspended, "HealthCheck"):
		return nil
	case gone: // in standby, too: there is nothing left to hold
	case m.Lifecycle != lifeInService || there && !m.Unhealthy:
		return nil
	}
	m.Unhealthy = true
	if slices.Contains(g.Suspended, "ReplaceUnhealthy") || slices.Contains(g.Suspended, "Terminate") {
		return nil
	}
	if !gone && !there {
		st.Rolled = append(st.Rolled, m.ID) // the instance was only stopped
	}
	cause := "an instance was taken out of service in response to an EC2 health check indicating it has been terminated or stopped"
	s.terminate(st, g, m, cause, e.At)
	st.rebalance(g, e.At)
	return nil
}

// terminate removes an instance from the group and terminates the instance, after the hooks of the termination. A forced deletion
// of the group waits for no hook.
func (s members) terminate(st *state, g *group, m *member, cause string, now time.Duration) *activity {
	a := s.begin(g, "Terminating EC2 instance: "+m.ID, cause)
	m.Activity, m.Waits = a.ID, nil
	if g.Deleting || !s.waitAt(st, g, m, hookTerminating, lifeTerminatingWait, now) {
		s.finishTermination(st, m, now)
	}
	return a
}

// finishTermination terminates an instance that has no hook to wait for.
func (s members) finishTermination(st *state, m *member, now time.Duration) {
	m.Lifecycle = map[bool]string{false: lifeTerminating, true: lifeWarmedEnding}[m.warmed()]
	if i := st.Instances[m.ID]; i != nil {
		s.end(st, i, "Server.AutoScaling: terminated by its group", now)
	}
	st.plan(now+s.config.Latencies.Terminate, "member.gone", m.ID, "")
}

func (s members) gone(st *state, e event) *work {
	g, m := memberOf(st, e.Target)
	if g == nil || m.Lifecycle != lifeTerminating && m.Lifecycle != lifeWarmedEnding {
		return nil
	}
	s.succeed(g, m.Activity)
	delete(g.Members, m.ID)
	st.plan(e.At, "group.gone", g.Name, "")
	return nil
}

// launch makes an instance for a group, or says why it cannot be made.
func (s members) launch(st *state, g *group, lifecycle, cause string) *problem {
	a := s.begin(g, "Launching a new EC2 instance", cause)
	o, from, p := s.order(st, g)
	if p == nil {
		p = s.runs.check(st, o)
	}
	if p != nil {
		a.Status, a.Progress, a.End = "Failed", 100, s.stamp()
		a.Message = p.Text + " Launching EC2 instance failed."
		return p
	}
	i := s.runs.make(st, o, newID("r"), 0)
	i.Token = newUUID()
	a.Description += ": " + i.ID
	g.Members[i.ID] = &member{ID: i.ID, Lifecycle: lifecycle, Protected: g.Protect && lifecycle == lifePending, Template: from, Configuration: g.Configuration,
		Type: i.Type, Joined: st.moment, Activity: a.ID}
	return nil
}

// order describes the next instance of a group.
func (s members) order(st *state, g *group) (order, spec, *problem) {
	o := order{subnet: s.emptiest(st, g)}
	from := spec{}
	switch {
	case g.Configuration != "":
		o.data = st.Configurations[g.Configuration].Data
	default:
		wanted, over := s.choice(g)
		if wanted.ID == "" {
			return o, from, invalid("the group has no launch template")
		}
		t := st.Templates[wanted.ID]
		if t == nil {
			return o, from, noTemplate(wanted.ID)
		}
		v, p := t.version(wanted.Version)
		if p != nil {
			return o, from, p
		}
		o.template, o.version, o.data = t, v.Number, v.Data
		from = spec{t.ID, t.Name, strconv.FormatInt(v.Number, 10)}
		for _, name := range []string{"InstanceType", "ImageId"} {
			if text := over.Get(name); text != "" {
				o.data = o.data.Over(&query.Value{Parts: map[string]*query.Value{name: {Text: text}}})
			}
		}
		o.spot = s.spot(g)
	}
	if p := s.runs.tag(&o); p != nil {
		return o, from, p
	}
	for _, t := range g.Tags {
		if t.Propagate {
			o.tags[t.Key] = t.Value
		}
	}
	o.tags["aws:autoscaling:groupName"] = g.Name
	return o, from, nil
}

// choice is the template's version that the next instance is made from, and the override: by turns.
func (s members) choice(g *group) (spec, *query.Value) {
	if d := g.refreshing(); d != nil && d.Desired != nil {
		return *d.Desired, nil
	}
	if g.Template != nil {
		return *g.Template, nil
	}
	at := g.Mixed.At("LaunchTemplate.LaunchTemplateSpecification")
	overrides := g.Mixed.List("LaunchTemplate.Overrides")
	if len(overrides) == 0 {
		return specOf(at), nil
	}
	over := overrides[len(g.Members)%len(overrides)]
	if over.Has("LaunchTemplateSpecification") {
		at = over.At("LaunchTemplateSpecification")
	}
	return specOf(at), over
}

func specOf(in *query.Value) spec {
	out := spec{in.Get("LaunchTemplateId"), in.Get("LaunchTemplateName"), in.Get("Version")}
	return out
}

// spot: the next instance of a mixed group is a spot instance.
func (s members) spot(g *group) bool {
	if g.Mixed == nil {
		return false
	}
	base, _ := strconv.Atoi(g.Mixed.Get("InstancesDistribution.OnDemandBaseCapacity"))
	share, err := strconv.Atoi(g.Mixed.Get("InstancesDistribution.OnDemandPercentageAboveBaseCapacity"))
	if err != nil {
		share = 100
	}
	above := g.size() - base
	return above >= 0 && (above+1)*share/100 == above*share/100
}

// emptiest is the subnet with the fewest of a group's instances.
func (s members) emptiest(st *state, g *group) string {
	n := map[string]int{}
	for id := range g.Members {
		if i := st.Instances[id]; i != nil {
			n[i.Subnet]++
		}
	}
	best := ""
	for _, id := range g.Subnets {
		if best == "" || n[id] < n[best] {
			best = id
		}
	}
	return best
}

func (s members) element(st *state, m *member) query.Element {
	health, zone, image := "Healthy", "", ""
	if m.Unhealthy {
		health = "Unhealthy"
	}
	if i := st.Instances[m.ID]; i != nil {
		zone, image = i.Zone, i.Image
	}
	e := query.Of("", query.Text("InstanceId", m.ID), query.Text("InstanceType", m.Type), query.Text("AvailabilityZone", zone),
		query.Text("LifecycleState", m.Lifecycle),
		query.Text("HealthStatus", health), query.Bool("ProtectedFromScaleIn", m.Protected), query.Text("ImageId", image))
	if m.Template.ID != "" {
		e.Kids = append(e.Kids, specElement("LaunchTemplate", m.Template))
	} else {
		e.Kids = append(e.Kids, query.Text("LaunchConfigurationName", m.Configuration))
	}
	return e
}
