package aws

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// group is an Auto Scaling group.
type group struct {
	Name string `json:"name"`
	// Unique differs from a later group with the same name.
	Unique   string    `json:"unique"`
	Created  time.Time `json:"created"`
	Min      int       `json:"min"`
	Max      int       `json:"max"`
	Desired  int       `json:"desired"`
	Template *spec     `json:"template,omitempty"`
	// Mixed is the mixed instances policy as it was written; Configuration the launch configuration's name.
	Mixed         *query.Value       `json:"mixed,omitempty"`
	Configuration string             `json:"configuration,omitempty"`
	Subnets       []string           `json:"subnets"`
	Settings      map[string]string  `json:"settings"`
	Protect       bool               `json:"protect,omitempty"`
	Policies      []string           `json:"policies,omitempty"`
	Targets       []string           `json:"targets,omitempty"`
	Tags          []groupTag         `json:"tags,omitempty"`
	Members       map[string]*member `json:"members"`
	Suspended     []string           `json:"suspended,omitempty"`
	// SuspendedAt is by process.
	SuspendedAt map[string]time.Time `json:"suspendedAt,omitempty"`
	Activities  []*activity          `json:"activities,omitempty"` // oldest first
	Refreshes   []*refresh           `json:"refreshes,omitempty"`  // oldest first
	Warm        *warmPool            `json:"warm,omitempty"`
	// Nested are the parameters of this name.
	Nested   map[string]*query.Value `json:"nested,omitempty"`
	Hooks    []*lifecycleHook        `json:"hooks,omitempty"`
	Deleting bool                    `json:"deleting,omitempty"`
	Operator string                  `json:"operator,omitempty"`
}

// spec names a launch template's version as a group does.
type spec struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Version is empty if the group names no version. AWS then omits the field and means $Default.
	Version string `json:"version"`
}

// groupTag is a tag of a group, optionally for its instances, too.
type groupTag struct {
	Key, Value string
	Propagate  bool
}

// groups are Auto Scaling groups.
type groups struct {
	*backend
	members members
}

func (s groups) actions() []*action {
	return []*action{
		{name: "CreateAutoScalingGroup", noun: "group", handle: s.create},
		{name: "UpdateAutoScalingGroup", noun: "group", handle: s.on(s.update)},
		{name: "DeleteAutoScalingGroup", noun: "group", handle: s.on(s.delete)},
		{name: "SetDesiredCapacity", noun: "group", handle: s.on(s.desire)},
		{name: "DescribeAutoScalingGroups", noun: "group", reads: true, handle: s.describe},
		{name: "DescribeAutoScalingInstances", noun: "group", reads: true, handle: s.instances},
	}
}

func (s groups) turns() map[string]turn {
	return map[string]turn{"group.balance": s.balance, "group.gone": s.gone}
}

// named is the group of a call.
func (s groups) named(c *call, st *state) (*group, *problem) {
	name := c.in.Get("AutoScalingGroupName")
	g := st.Groups[name]
	switch {
	case g == nil:
		return nil, invalid("AutoScalingGroup name not found - AutoScalingGroup %s not found", name)
	case c.action.reads:
	case g.Deleting:
		return nil, invalid("AutoScalingGroup name not found - AutoScalingGroup %s is pending delete", name)
	case g.Operator != "":
		return nil, invalid("The Auto Scaling group %s is managed by %s and can be changed by it only", name, g.Operator)
	}
	return g, nil
}

// on passes the group of a call to the handler of an action.
func (s groups) on(handle func(*call, *state, *group) (query.Element, error)) func(*call, *state) (query.Element, error) {
	return func(c *call, st *state) (query.Element, error) {
		g, p := s.named(c, st)
		if p != nil {
			return query.Element{}, p
		}
		return handle(c, st, g)
	}
}

// rebalance plans a check of the group's size.
func (st *state) rebalance(g *group, at time.Duration) { st.plan(at, "group.balance", g.Name, "") }

// settings are stored and returned as written, with defaults.
var settings = []struct{ name, value string }{
	{"DefaultCooldown", "300"}, {"HealthCheckType", "EC2"}, {"HealthCheckGracePeriod", "0"}, {"MaxInstanceLifetime", ""}, {"PlacementGroup", ""},
	{"CapacityRebalance", ""}, {"DefaultInstanceWarmup", ""}, {"Context", ""}, {"DesiredCapacityType", ""}, {"ServiceLinkedRoleARN", ""},
}

func (s groups) create(c *call, st *state) (query.Element, error) {
	name := c.in.Get("AutoScalingGroupName")
	switch {
	case name == "" || len(name) > 255 || strings.Contains(name, ":"):
		return query.Element{}, invalid(
			"1 validation error detected: Value at 'autoScalingGroupName' failed to satisfy constraint: " +
				"Member must have length between 1 and 255, without a colon")
	case st.Groups[name] != nil:
		return query.Element{}, bad("AlreadyExists", "AutoScalingGroup by this name already exists - A group with the name %s already exists", name)
	}
	g := &group{Name: name, Unique: newUUID(), Created: s.stamp(), Settings: map[string]string{}, Members: map[string]*member{}, Operator: c.in.Get("Operator")}
	for _, d := range settings {
		g.Settings[d.name] = d.value
	}
	for _, path := range []string{"MinSize", "MaxSize"} {
		if !c.in.Has(path) {
			return query.Element{}, invalid("1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", path)
		}
	}
	if p := s.write(c, st, g); p != nil {
		return query.Element{}, p
	}
	if g.Template == nil && g.Mixed == nil && g.Configuration == "" {
		return query.Element{}, invalid(
			"Valid requests must contain either LaunchTemplate, LaunchConfigurationName, InstanceId or MixedInstancesPolicy parameter.")
	}
	if len(g.Subnets) == 0 {
		return query.Element{}, invalid("At least one Availability Zone or VPC Subnet is required.")
	}
	all, p := groupTagsIn(c.in)
	if p != nil {
		return query.Element{}, p
	}
	for _, t := range all {
		g.Tags = append(g.Tags, t.groupTag)
	}
	g.Targets = c.in.Texts("TargetGroupARNs")
	st.Groups[name] = g
	st.rebalance(g, st.moment)
	return query.Element{}, nil
}

// groupParameters are parameters of groups besides settings. Unknown parameters are refused, because a group would lose them.
var groupParameters = []string{
	"Action", "Version", "AutoScalingGroupName", "MinSize", "MaxSize", "DesiredCapacity", "LaunchTemplate", "MixedInstancesPolicy", "LaunchConfigurationName",
	"VPCZoneIdentifier", "AvailabilityZones", "NewInstancesProtectedFromScaleIn", "TerminationPolicies", "Tags", "TargetGroupARNs", "Operator",
	"InstanceMaintenancePolicy", "AvailabilityZoneDistribution",
}

// write reads the common parameters of create and update into a group; on an error the group is unchanged.
func (s groups) write(c *call, st *state, g *group) *problem {
	for _, name := range c.in.Names() {
		if !slices.Contains(groupParameters, name) && !slices.ContainsFunc(settings, func(d struct{ name, value string }) bool { return d.name == name }) {
			return invalid("The simulation does not have the parameter %s of groups", name)
		}
	}
	changed := *g
	if p := s.sizes(c.in, &changed); p != nil {
		return p
	}
	if p := s.source(c.in, st, &changed); p != nil {
		return p
	}
	if c.in.Has("VPCZoneIdentifier") {
		changed.Subnets = strings.Fields(strings.ReplaceAll(c.in.Get("VPCZoneIdentifier"), ",", " ")) // Cluster API sends blanks after the commas
	} else if zones := c.in.Texts("AvailabilityZones"); len(zones) > 0 {
		changed.Subnets = nil
		for _, n := range s.config.Subnets {
			if slices.Contains(zones, n.Zone) {
				changed.Subnets = append(changed.Subnets, n.ID)
			}
		}
	}
	for _, id := range changed.Subnets {
		if !slices.ContainsFunc(s.subnets(st), func(n Subnet) bool { return n.ID == id }) {
			return invalid("The subnet ID '%s' does not exist", id)
		}
	}
	changed.Settings = map[string]string{}
	for name, value := range g.Settings {
		if changed.Settings[name] = value; c.in.Has(name) {
			changed.Settings[name] = c.in.Get(name)
		}
	}
	changed.Nested = nestedIn(c.in, g.Nested)
	if c.in.Has("NewInstancesProtectedFromScaleIn") {
		changed.Protect = c.in.True("NewInstancesProtectedFromScaleIn")
	}
	if all := c.in.Texts("TerminationPolicies"); len(all) > 0 {
		changed.Policies = all
	}
	*g = changed
	return nil
}

// sizes reads minimum, maximum and desired capacity. A bound beyond the desired capacity changes the desired
// capacity, too.
func (s groups) sizes(in *query.Value, g *group) *problem {
	for path, field := range map[string]*int{"MinSize": &g.Min, "MaxSize": &g.Max} {
		if in.Has(path) {
			n, err := strconv.Atoi(in.Get(path))
			if err != nil || n < 0 {
				return invalid("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must be a number of at least 0",
					in.Get(path), path)
			}
			*field = n
		}
	}
	if g.Min > g.Max {
		return invalid("Max bound, %d, must be greater than or equal to min bound, %d", g.Max, g.Min)
	}
	if !in.Has("DesiredCapacity") {
		g.Desired = min(max(g.Desired, g.Min), g.Max)
		return nil
	}
	n, err := strconv.Atoi(in.Get("DesiredCapacity"))
	if err != nil || n < g.Min || n > g.Max {
		return invalid("Desired capacity:%s must be between the specified min size:%d and max size:%d", in.Get("DesiredCapacity"), g.Min, g.Max)
	}
	g.Desired = n
	return nil
}

// source reads the source of a group's instances. Each of the three kinds replaces the others.
func (s groups) source(in *query.Value, st *state, g *group) *problem {
	ways := 0
	for _, path := range []string{"LaunchTemplate", "MixedInstancesPolicy", "LaunchConfigurationName"} {
		if in.Has(path) {
			ways++
		}
	}
	switch {
	case ways > 1:
		return invalid("Valid requests must contain only one of LaunchTemplate, LaunchConfigurationName, InstanceId or MixedInstancesPolicy parameter.")
	case in.Has("LaunchTemplate"):
		t, p := s.template(st, in.At("LaunchTemplate"))
		if p != nil {
			return p
		}
		g.Template, g.Mixed, g.Configuration = t, nil, ""
	case in.Has("MixedInstancesPolicy"):
		return s.mixed(in.At("MixedInstancesPolicy"), st, g)
	case in.Has("LaunchConfigurationName"):
		name := in.Get("LaunchConfigurationName")
		if st.Configurations[name] == nil {
			return invalid("Launch configuration name not found - Launch configuration %s not found", name)
		}
		g.Template, g.Mixed, g.Configuration = nil, nil, name
	}
	return nil
}

// mixed reads a mixed instances policy. The distribution stays where none is given; the template goes with its overrides.
func (s groups) mixed(in *query.Value, st *state, g *group) *problem {
	policy := in.Copy()
	if g.Mixed != nil {
		policy = g.Mixed.Over(in)
	}
	t, p := s.template(st, policy.At("LaunchTemplate.LaunchTemplateSpecification"))
	if p != nil {
		return p
	}
	for _, o := range policy.List("LaunchTemplate.Overrides") {
		if o.Has("LaunchTemplateSpecification") {
			if _, p := s.template(st, o.At("LaunchTemplateSpecification")); p != nil {
				return p
			}
		}
	}
	policy.Set("LaunchTemplate.LaunchTemplateSpecification.LaunchTemplateId", t.ID)
	policy.Set("LaunchTemplate.LaunchTemplateSpecification.LaunchTemplateName", t.Name)
	if t.Version != "" {
		policy.Set("LaunchTemplate.LaunchTemplateSpecification.Version", t.Version)
	}
	g.Template, g.Mixed, g.Configuration = nil, policy, ""
	return nil
}

// template reads and checks the version of the launch template.
func (s groups) template(st *state, in *query.Value) (*spec, *problem) {
	t, p := st.template(in.Get("LaunchTemplateId"), in.Get("LaunchTemplateName"))
	if p != nil {
		return nil, invalid("You must use a valid fully-formed launch template. %s", p.Text)
	}
	out := &spec{t.ID, t.Name, in.Get("Version")}
	if _, p := t.version(out.Version); p != nil {
		return nil, invalid("You must use a valid fully-formed launch template. %s", p.Text)
	}
	return out, nil
}

func (s groups) update(c *call, st *state, g *group) (query.Element, error) {
	if p := s.write(c, st, g); p != nil {
		return query.Element{}, p
	}
	st.rebalance(g, st.moment)
	return query.Element{}, nil
}

func (s groups) desire(c *call, st *state, g *group) (query.Element, error) {
	n, err := strconv.Atoi(c.in.Get("DesiredCapacity"))
	switch {
	case err != nil || n < g.Min:
		return query.Element{}, invalid("New SetDesiredCapacity value %s is below min value %d for the AutoScalingGroup.", c.in.Get("DesiredCapacity"), g.Min)
	case n > g.Max:
		return query.Element{}, invalid("New SetDesiredCapacity value %d is above max value %d for the AutoScalingGroup.", n, g.Max)
	case c.in.True("HonorCooldown") && busyGroup(g):
		return query.Element{}, bad("ScalingActivityInProgress", "Scaling activity %s is in progress and blocks this action",
			g.Activities[len(g.Activities)-1].ID)
	}
	g.Desired = n
	st.rebalance(g, st.moment)
	return query.Element{}, nil
}

func busyGroup(g *group) bool {
	return slices.ContainsFunc(g.Activities, func(a *activity) bool { return a.End.IsZero() })
}

// delete refuses a group with instances. A forced deletion terminates the instances first.
func (s groups) delete(c *call, st *state, g *group) (query.Element, error) {
	if !c.in.True("ForceDelete") && len(g.Members) > 0 {
		return query.Element{}, bad("ResourceInUse",
			"You cannot delete an AutoScalingGroup while there are instances or pending Spot instance request(s) still in the group.")
	}
	g.Deleting, g.Min, g.Desired, g.Suspended = true, 0, 0, nil
	now := st.moment
	for _, m := range membersOf(g) {
		s.members.terminate(st, g, m, "a user force deleted the AutoScalingGroup", now)
	}
	st.plan(now, "group.gone", g.Name, "")
	return query.Element{}, nil
}

// gone deletes a group without instances.
func (s groups) gone(st *state, e event) *work {
	g := st.Groups[e.Target]
	if g != nil && g.Deleting && len(g.Members) == 0 {
		delete(st.Groups, g.Name)
	}
	return nil
}

func (s groups) describe(c *call, st *state) (query.Element, error) {
	wanted := c.in.Texts("AutoScalingGroupNames")
	filters := map[string][]string{}
	for _, f := range c.in.List("Filters") {
		filters[f.Get("Name")] = f.Texts("Values")
	}
	var all []*group
	for _, g := range sortedGroups(st) {
		if (len(wanted) == 0 || slices.Contains(wanted, g.Name)) && groupFits(filters, g) {
			all = append(all, g)
		}
	}
	element := func(g *group) query.Element { return s.element(st, g) }
	if c.in.Has("IncludeInstances") && !c.in.True("IncludeInstances") {
		element = func(g *group) query.Element { return withoutInstances(s.element(st, g)) }
	}
	return listed(s.backend, c, "AutoScalingGroups", all, 0, 100, element)
}

// groupFits compares a group with the filters. Only filters on tags exist.
func groupFits(filters map[string][]string, g *group) bool {
	for name, values := range filters {
		key, byKey := strings.CutPrefix(name, "tag:")
		if !slices.ContainsFunc(g.Tags, func(t groupTag) bool {
			switch {
			case byKey:
				return t.Key == key && slices.Contains(values, t.Value)
			case name == "tag-key":
				return slices.Contains(values, t.Key)
			case name == "tag-value":
				return slices.Contains(values, t.Value)
			}
			return false
		}) {
			return false
		}
	}
	return true
}

func sortedGroups(st *state) []*group {
	var out []*group
	for _, g := range st.Groups {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b *group) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// instances lists instances in groups, without other instances.
func (s groups) instances(c *call, st *state) (query.Element, error) {
	wanted := c.in.Texts("InstanceIds")
	type one struct {
		g *group
		m *member
	}
	var all []one
	for _, g := range sortedGroups(st) {
		for _, m := range membersOf(g) {
			if len(wanted) == 0 || slices.Contains(wanted, m.ID) {
				all = append(all, one{g, m})
			}
		}
	}
	return listed(s.backend, c, "AutoScalingInstances", all, 0, 50, func(o one) query.Element {
		e := s.members.element(st, o.m)
		for n, kid := range e.Kids {
			if kid.Name == "HealthStatus" {
				e.Kids[n].Text = strings.ToUpper(kid.Text)
			}
		}
		e.Kids = append(e.Kids, query.Text("AutoScalingGroupName", o.g.Name))
		return e
	})
}

func (s groups) groupARN(g *group) string {
	return s.arn("autoscaling", fmt.Sprintf("autoScalingGroup:%s:autoScalingGroupName/%s", g.Unique, g.Name))
}

func (s groups) element(st *state, g *group) query.Element {
	var zones []string
	for _, n := range s.subnets(st) {
		if slices.Contains(g.Subnets, n.ID) {
			zones = append(zones, n.Zone)
		}
	}
	policies := g.Policies
	if len(policies) == 0 {
		policies = []string{"Default"}
	}
	e := query.Of("", query.Text("AutoScalingGroupName", g.Name), query.Text("AutoScalingGroupARN", s.groupARN(g)), query.Int("MinSize", g.Min),
		query.Int("MaxSize", g.Max), query.Int("DesiredCapacity", g.Desired), query.Texts("AvailabilityZones", "member", slices.Compact(zones)),
		query.Text("VPCZoneIdentifier", strings.Join(g.Subnets, ",")), query.Date("CreatedTime", g.Created),
		query.List("Instances", "member", shown(g), func(m *member) query.Element { return s.members.element(st, m) }),
		query.List("SuspendedProcesses", "member", g.Suspended, func(name string) query.Element {
			return query.Of("", query.Text("ProcessName", name), query.Text("SuspensionReason", "User suspended at "+g.SuspendedAt[name].Format(time.RFC3339)))
		}), query.Bool("NewInstancesProtectedFromScaleIn", g.Protect), query.Texts("TerminationPolicies", "member", policies),
		query.Texts("TargetGroupARNs", "member", g.Targets), query.Texts("LoadBalancerNames", "member", nil), query.Texts("EnabledMetrics", "member", nil),
		query.List("Tags", "member", g.Tags, func(t groupTag) query.Element { return tagElement(g, t) }))
	for _, d := range settings {
		e.Kids = append(e.Kids, query.Text(d.name, g.Settings[d.name]))
	}
	e.Kids = append(e.Kids, nestedElements(g.Nested)...)
	switch {
	case g.Template != nil:
		e.Kids = append(e.Kids, specElement("LaunchTemplate", *g.Template))
	case g.Mixed != nil:
		e.Kids = append(e.Kids, asWritten("MixedInstancesPolicy", g.Mixed))
	default:
		e.Kids = append(e.Kids, query.Text("LaunchConfigurationName", g.Configuration))
	}
	if g.Warm != nil {
		e.Kids = append(e.Kids, g.Warm.element(), query.Int("WarmPoolSize", len(g.warmed())))
	}
	if g.Deleting {
		e.Kids = append(e.Kids, query.Text("Status", "Delete in progress"))
	}
	e.Kids = append(e.Kids, operatorElementOf(g.Operator))
	return e
}

func operatorElementOf(by string) query.Element {
	if by == "" {
		return query.Element{}
	}
	return query.Of("Operator", query.Bool("Managed", true), query.Text("Principal", by))
}

func specElement(name string, t spec) query.Element {
	return query.Of(name, query.Text("LaunchTemplateId", t.ID), query.Text("LaunchTemplateName", t.Name), query.Text("Version", t.Version))
}
