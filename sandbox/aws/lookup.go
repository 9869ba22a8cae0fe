package aws

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// lookups are reads that people make with the command line. Kamino needs none of them.
type lookups struct {
	*backend
	groups   groups
	profiles profiles
}

// ofGroups are lookups of Auto Scaling, ofMachines of EC2, and ofAccounts of IAM.
type (
	ofGroups   struct{ lookups }
	ofMachines struct{ lookups }
	ofAccounts struct{ lookups }
)

func (s ofGroups) actions() []*action {
	return []*action{
		{name: "DescribeLoadBalancerTargetGroups", noun: "group", reads: true, handle: s.groups.on(s.targetGroups)},
		{name: "DescribeTrafficSources", noun: "group", reads: true, handle: s.groups.on(s.trafficSources)},
		{name: "DescribeAccountLimits", noun: "group", reads: true, handle: s.limits},
	}
}

func (s ofMachines) actions() []*action {
	return []*action{
		{name: "DescribeSnapshotAttribute", noun: "snapshot", reads: true, handle: s.snapshotAttribute},
		{name: "GetLaunchTemplateData", noun: "instance", reads: true, handle: s.launchData},
	}
}

func (s ofAccounts) actions() []*action {
	return []*action{
		{name: "GetUser", noun: "permission", reads: true, handle: s.user},
		{name: "ListInstanceProfiles", noun: "profile", reads: true, handle: s.list},
	}
}

// targetGroups: all instances of a group are registered. No one checks their health, so no target group is InService.
func (s ofGroups) targetGroups(_ *call, _ *state, g *group) (query.Element, error) {
	return query.Of("", query.List("LoadBalancerTargetGroups", "member", g.Targets, func(arn string) query.Element {
		return query.Of("", query.Text("LoadBalancerTargetGroupARN", arn), query.Text("State", "Added"))
	})), nil
}

func (s ofGroups) trafficSources(c *call, _ *state, g *group) (query.Element, error) {
	targets := g.Targets
	if kind := c.in.Get("TrafficSourceType"); kind != "" && kind != "elbv2" {
		targets = nil
	}
	return query.Of("", query.List("TrafficSources", "member", targets, func(arn string) query.Element {
		return query.Of("", query.Text("Identifier", arn), query.Text("TrafficSource", arn), query.Text("Type", "elbv2"), query.Text("State", "Added"))
	})), nil
}

// limits are the default quotas of Amazon EC2 Auto Scaling.
func (s ofGroups) limits(_ *call, st *state) (query.Element, error) {
	return query.Of("", query.Int("MaxNumberOfAutoScalingGroups", 500), query.Int("MaxNumberOfLaunchConfigurations", 200),
		query.Int("NumberOfAutoScalingGroups", len(st.Groups)), query.Int("NumberOfLaunchConfigurations", len(st.Configurations))), nil
}

// snapshotAttribute: no other account may use a snapshot, and none has a product code of its own.
func (s ofMachines) snapshotAttribute(c *call, st *state) (query.Element, error) {
	id, name := c.in.Get("SnapshotId"), c.in.Get("Attribute")
	v := st.Snapshots[id]
	switch {
	case v == nil || v.Hidden || !s.sees(v):
		return query.Element{}, notFoundByID(id)
	case name != "createVolumePermission" && name != "productCodes":
		return query.Element{}, bad("InvalidParameterValue", "Value (%s) for parameter attribute is invalid. Unknown attribute.", name)
	}
	return query.Of("", query.Text("snapshotId", id), query.Element{Name: name}), nil
}

// launchData is the data of an instance as a launch template would have it.
func (s ofMachines) launchData(c *call, st *state) (query.Element, error) {
	i, p := s.instance(c, st, c.in.Get("InstanceId"))
	if p != nil {
		return query.Element{}, p
	}
	data := i.Data.Copy()
	data.Set("ImageId", i.Image)
	data.Set("InstanceType", i.Type)
	return query.Of("", dataElement("launchTemplateData", data)), nil
}

// user describes a user; without a name, the caller.
func (s ofAccounts) user(c *call, _ *state) (query.Element, error) {
	name, of := c.in.Get("UserName"), "arn:aws:iam::"+s.config.Account+":user/"
	if name == "" {
		var isUser bool
		if name, isUser = strings.CutPrefix(c.who.arn, of); !isUser {
			return query.Element{}, bad("ValidationError", "Must specify userName when calling with non-User credentials")
		}
	}
	for _, u := range s.config.Users {
		if u.Name == name {
			return query.Of("", query.Of("User", query.Text("UserName", name), query.Text("Path", "/"), query.Text("Arn", of+name),
				query.Text("UserId", "AIDA"+strings.ToUpper(hexOf(name))), query.Date("CreateDate", time.Unix(0, 0).UTC()))), nil
		}
	}
	return query.Element{}, refuse(http.StatusNotFound, "NoSuchEntity", "The user with name %s cannot be found.", name)
}

func (s ofAccounts) list(_ *call, st *state) (query.Element, error) {
	return query.Of("", query.List("InstanceProfiles", "member", slices.Sorted(maps.Keys(st.Profiles)), func(name string) query.Element {
		return query.Of("", s.profiles.element(st.Profiles[name]).Kids[0].Kids...)
	}), query.Bool("IsTruncated", false)), nil
}
