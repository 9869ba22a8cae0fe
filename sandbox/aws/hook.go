package aws

import (
	"slices"
	"strconv"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// Transitions at which a lifecycle hook makes an instance wait. An instance that leaves standby does not wait: the reference of
// AWS names no hook there.
const (
	hookLaunching   = "autoscaling:EC2_INSTANCE_LAUNCHING"
	hookTerminating = "autoscaling:EC2_INSTANCE_TERMINATING"
)

// Results of a lifecycle action.
const (
	hookContinue = "CONTINUE"
	hookAbandon  = "ABANDON"
)

// lifecycleHook makes the instances of a group wait at a transition.
type lifecycleHook struct {
	Name       string `json:"name"`
	Transition string `json:"transition"`
	// Result applies after the timeout.
	Result  string        `json:"result"`
	Timeout time.Duration `json:"timeout"`
	// Settings are the notification target, the role and the metadata, as written.
	Settings map[string]string `json:"settings,omitempty"`
}

// hookSettings are stored and returned as written.
var hookSettings = []string{"NotificationMetadata", "NotificationTargetARN", "RoleARN"}

// hooks are the lifecycle hooks of groups. Source: Auto Scaling's reference, PutLifecycleHook and CompleteLifecycleAction.
type hooks struct {
	*backend
	groups groups
}

func (s hooks) actions() []*action {
	return []*action{
		{name: "PutLifecycleHook", noun: "group", handle: s.groups.on(s.put)},
		{name: "DeleteLifecycleHook", noun: "group", handle: s.groups.on(s.delete)},
		{name: "DescribeLifecycleHooks", noun: "group", reads: true, handle: s.groups.on(s.describe)},
		{name: "CompleteLifecycleAction", noun: "group", handle: s.groups.on(s.complete)},
	}
}

func (s hooks) turns() map[string]turn { return map[string]turn{"member.hook": s.timeout} }

// hookNamed returns the position of a group's hook; -1 without such a hook.
func (g *group) hookNamed(name string) int {
	return slices.IndexFunc(g.Hooks, func(h *lifecycleHook) bool { return h.Name == name })
}

// invalid returns why the hook cannot be stored; nil for a valid hook.
func (h *lifecycleHook) invalid() *problem {
	switch {
	case h.Name == "":
		return invalid("1 validation error detected: Value null at 'lifecycleHookName' failed to satisfy constraint: Member must not be null")
	case h.Transition != hookLaunching && h.Transition != hookTerminating:
		return invalid("Lifecycle Transition must be %s or %s", hookLaunching, hookTerminating)
	case h.Result != hookContinue && h.Result != hookAbandon:
		return invalid("Lifecycle Action Result must be %s or %s", hookContinue, hookAbandon)
	}
	return nil
}

// put creates a hook, or changes the given fields of a hook.
func (s hooks) put(c *call, _ *state, g *group) (query.Element, error) {
	h := lifecycleHook{Name: c.in.Get("LifecycleHookName"), Result: hookAbandon, Timeout: time.Hour, Settings: map[string]string{}}
	at := g.hookNamed(h.Name)
	if at >= 0 {
		h = *g.Hooks[at]
	}
	if c.in.Has("LifecycleTransition") {
		h.Transition = c.in.Get("LifecycleTransition")
	}
	if c.in.Has("DefaultResult") {
		h.Result = c.in.Get("DefaultResult")
	}
	if c.in.Has("HeartbeatTimeout") {
		n, err := strconv.Atoi(c.in.Get("HeartbeatTimeout"))
		if err != nil || n < 30 || n > 7200 {
			return query.Element{}, invalid("HeartbeatTimeout must be between 30 and 7200 seconds")
		}
		h.Timeout = time.Duration(n) * time.Second
	}
	if p := h.invalid(); p != nil {
		return query.Element{}, p
	}
	for _, name := range hookSettings {
		if c.in.Has(name) {
			h.Settings[name] = c.in.Get(name)
		}
	}
	if at >= 0 {
		g.Hooks[at] = &h
	} else {
		g.Hooks = append(g.Hooks, &h)
	}
	return query.Element{}, nil
}

// delete removes a hook. Waiting launches are abandoned, and waiting terminations continue.
func (s hooks) delete(c *call, st *state, g *group) (query.Element, error) {
	at := g.hookNamed(c.in.Get("LifecycleHookName"))
	if at < 0 {
		return query.Element{}, invalid("No Lifecycle Hook found for Auto Scaling group %s and lifecycle hook name %s", g.Name, c.in.Get("LifecycleHookName"))
	}
	h := g.Hooks[at]
	g.Hooks = slices.Delete(g.Hooks, at, at+1)
	result := hookContinue
	if h.Transition == hookLaunching {
		result = hookAbandon
	}
	for _, m := range membersOf(g) {
		s.groups.members.passHook(st, g, m, h.Name, result, st.moment)
	}
	return query.Element{}, nil
}

func (s hooks) describe(c *call, _ *state, g *group) (query.Element, error) {
	wanted := c.in.Texts("LifecycleHookNames")
	all := slices.DeleteFunc(slices.Clone(g.Hooks), func(h *lifecycleHook) bool { return len(wanted) > 0 && !slices.Contains(wanted, h.Name) })
	return query.Of("", query.List("LifecycleHooks", "member", all, func(h *lifecycleHook) query.Element {
		e := query.Of("", query.Text("AutoScalingGroupName", g.Name), query.Text("LifecycleHookName", h.Name), query.Text("LifecycleTransition", h.Transition),
			query.Text("DefaultResult", h.Result), query.Int("HeartbeatTimeout", int(h.Timeout.Seconds())),
			query.Int("GlobalTimeout", min(int(100*h.Timeout.Seconds()), 172800)))
		for _, name := range hookSettings {
			if value := h.Settings[name]; value != "" {
				e.Kids = append(e.Kids, query.Text(name, value))
			}
		}
		return e
	})), nil
}

// complete ends the wait of an instance for a hook.
func (s hooks) complete(c *call, st *state, g *group) (query.Element, error) {
	m, name, result := g.Members[c.in.Get("InstanceId")], c.in.Get("LifecycleHookName"), c.in.Get("LifecycleActionResult")
	switch {
	case result != hookContinue && result != hookAbandon:
		return query.Element{}, invalid("Lifecycle Action Result must be %s or %s", hookContinue, hookAbandon)
	case m == nil || !slices.Contains(m.Waits, name):
		return query.Element{}, invalid("No active Lifecycle Action found with instance ID %s", c.in.Get("InstanceId"))
	}
	s.groups.members.passHook(st, g, m, name, result, st.moment)
	return query.Element{}, nil
}

// timeout ends a wait with the default result of the hook.
func (s hooks) timeout(st *state, e event) *work {
	g, m := memberOf(st, e.Target)
	if g == nil {
		return nil
	}
	if at := g.hookNamed(e.Note); at >= 0 {
		s.groups.members.passHook(st, g, m, e.Note, g.Hooks[at].Result, e.At)
	}
	return nil
}

// waitAt makes an instance wait for the hooks of a transition, and reports whether the group has such hooks.
func (s members) waitAt(st *state, g *group, m *member, transition, lifecycle string, now time.Duration) bool {
	for _, h := range g.Hooks {
		if h.Transition == transition {
			m.Lifecycle, m.Waits = lifecycle, append(m.Waits, h.Name)
			st.plan(now+h.Timeout, "member.hook", m.ID, h.Name)
		}
	}
	return len(m.Waits) > 0
}

// passHook ends the wait of an instance for one hook. An abandoned launch terminates the instance without further hooks.
func (s members) passHook(st *state, g *group, m *member, name, result string, now time.Duration) {
	if !slices.Contains(m.Waits, name) {
		return
	}
	m.Waits = slices.DeleteFunc(m.Waits, func(wait string) bool { return wait == name || result == hookAbandon })
	switch {
	case len(m.Waits) > 0:
	case m.Lifecycle == lifeTerminatingWait:
		s.finishTermination(st, m, now)
	case result == hookAbandon:
		m.Activity = s.begin(g, "Terminating EC2 instance: "+m.ID, "the lifecycle action "+name+" of the launch was abandoned").ID
		s.finishTermination(st, m, now)
		st.rebalance(g, now)
	default:
		m.Lifecycle = lifeInService
		s.succeed(g, m.Activity)
	}
}
