package aws

import (
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// configuration is a launch configuration, as groups of old have in place of a launch template.
type configuration struct {
	Name    string       `json:"name"`
	Created time.Time    `json:"created"`
	Data    *query.Value `json:"data"`
}

// configurations are launch configurations.
type configurations struct{ *backend }

func (s configurations) actions() []*action {
	return []*action{
		{name: "CreateLaunchConfiguration", noun: "configuration", handle: s.create},
		{name: "DeleteLaunchConfiguration", noun: "configuration", handle: s.delete},
		{name: "DescribeLaunchConfigurations", noun: "configuration", reads: true, handle: s.describe},
	}
}

func (s configurations) create(c *call, st *state) (query.Element, error) {
	name := c.in.Get("LaunchConfigurationName")
	if st.Configurations[name] != nil {
		return query.Element{}, bad("AlreadyExists",
			"Launch Configuration by this name already exists - A launch configuration already exists with the name %s", name)
	}
	if !c.in.Has("ImageId") || !c.in.Has("InstanceType") {
		return query.Element{}, invalid("Valid requests must contain either the InstanceID parameter or both the ImageId and InstanceType parameters.")
	}
	st.Configurations[name] = &configuration{name, s.stamp(), c.in.Rest("Action", "Version", "LaunchConfigurationName", "BlockDeviceMappings")}
	return query.Element{}, nil
}

func (s configurations) delete(c *call, st *state) (query.Element, error) {
	name := c.in.Get("LaunchConfigurationName")
	if st.Configurations[name] == nil {
		return query.Element{}, invalid("Launch configuration name not found - Launch configuration %s not found", name)
	}
	for _, g := range st.Groups {
		if g.Configuration == name {
			return query.Element{}, bad("ResourceInUse", "Cannot delete launch configuration %s because it is attached to AutoScalingGroup %s", name, g.Name)
		}
	}
	delete(st.Configurations, name)
	return query.Element{}, nil
}

func (s configurations) describe(c *call, st *state) (query.Element, error) {
	wanted := c.in.Texts("LaunchConfigurationNames")
	var all []*configuration
	for _, v := range st.Configurations {
		if len(wanted) == 0 || slices.Contains(wanted, v.Name) {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b *configuration) int { return strings.Compare(a.Name, b.Name) })
	return listed(s.backend, c, "LaunchConfigurations", all, 0, 100, func(v *configuration) query.Element {
		return query.Of("", query.Text("LaunchConfigurationName", v.Name), query.Text("ImageId", v.Data.Get("ImageId")),
			query.Text("InstanceType", v.Data.Get("InstanceType")),
			query.Date("CreatedTime", v.Created), query.Text("UserData", v.Data.Get("UserData")))
	})
}
