package aws

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// policy is an IAM policy of a user. Source: "IAM JSON policy elements reference". The simulator knows the elements and the
// condition operators below, and refuses others.
type policy struct {
	Statement []statement
}

// statement of a policy.
type statement struct {
	Sid, Effect      string
	Action, Resource texts
	// Condition is by operator and key.
	Condition map[string]map[string]texts
}

// texts is a text or a list of texts.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if err := json.Unmarshal(data, &one); err == nil {
		*t = texts{one}
		return nil
	}
	var all []string
	err := json.Unmarshal(data, &all)
	*t = all
	return err
}

// operators compare the value of a key with the values of a condition.
var operators = map[string]func(wanted, value string) bool{
	"StringEquals": func(wanted, value string) bool { return wanted == value },
	"StringLike":   wild,
	"ArnLike":      wild,
}

func parsePolicy(text string) (*policy, error) {
	var p policy
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	for _, s := range p.Statement {
		for operator := range s.Condition {
			if operators[operator] == nil && operator != "Null" {
				return nil, fmt.Errorf("policy: statement %s has the unknown operator %s", s.Sid, operator)
			}
		}
	}
	return &p, nil
}

// target is a resource of a request with the values of its condition keys.
type target struct {
	arn    string
	values map[string]string
}

// verdict is the decision about an action on a resource. missing are the keys of conditions that have no value.
func (p *policy) verdict(action string, on target) (allowed bool, missing []string) {
	for _, s := range p.Statement {
		if !matches(s.Action, action) || !matches(s.Resource, on.arn) {
			continue
		}
		fits, lacks := s.fits(on.values)
		missing = append(missing, lacks...)
		switch {
		case fits && s.Effect == "Deny":
			return false, nil
		case fits:
			allowed = true
		}
	}
	return allowed, missing
}

func matches(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return wild(pattern, text) })
}

// fits reports whether all conditions of a statement are true, and which keys have no value.
func (s statement) fits(values map[string]string) (fits bool, missing []string) {
	fits = true
	for operator, keys := range s.Condition {
		for key, wanted := range keys {
			value, found := values[key]
			switch {
			case operator == "Null":
				fits = fits && slices.Contains(wanted, fmt.Sprint(!found))
			case !found:
				fits = false
			default:
				fits = fits && slices.ContainsFunc(wanted, func(w string) bool { return operators[operator](w, value) })
			}
			if !found {
				missing = append(missing, key)
			}
		}
	}
	return fits, missing
}

// groupOf is the group of a request; nil without one.
func groupOf(c *call, st *state) *group {
	if g := st.Groups[c.in.Get("AutoScalingGroupName")]; g != nil {
		return g
	}
	g, _ := memberOf(st, c.in.Get("InstanceId"))
	return g
}

// namedIDs are the IDs of resources in a request.
func namedIDs(c *call) (ids []string) {
	for _, name := range []string{"ResourceId", "InstanceId", "SnapshotId", "ImageId", "LaunchTemplateId", "VolumeId", "VpcId", "SubnetId"} {
		ids = append(ids, c.in.Texts(name)...)
		if one := c.in.Get(name); one != "" {
			ids = append(ids, one)
		}
	}
	return ids
}

// kindsByPrefix are the kinds of resources by the beginning of their IDs.
var kindsByPrefix = map[string]string{"snap": "snapshot", "ami": "image", "i": "instance", "vol": "volume", "lt": "launch-template"}

// createdKinds are the kinds of new resources by action.
var createdKinds = map[string]string{"CreateSnapshot": "snapshot", "RegisterImage": "image", "RunInstances": "instance",
	"CreateReplaceRootVolumeTask": "replace-root-volume-task", "CreateVolume": "volume", "CreateVpc": "vpc", "CreateSubnet": "subnet",
	"CreateLaunchTemplate": "launch-template"}

// sources name what a new resource is made from, by action.
var sources = map[string]string{"CreateSnapshot": "VolumeId", "RunInstances": "LaunchTemplate.LaunchTemplateId"}

// ofGroup adds the values of a group to a target: its tags, and the limits of its size that a request sets.
func ofGroup(c *call, on target, g *group) target {
	for _, t := range g.Tags {
		on.values["aws:ResourceTag/"+t.Key] = t.Value
	}
	for _, limit := range []string{"MinSize", "MaxSize"} {
		if n := c.in.Get(limit); n != "" {
			on.values["autoscaling:"+limit] = n
		}
	}
	return on
}

// given are the values of a request that are the same for all of its resources.
func (s permissions) given(c *call) map[string]string {
	given := map[string]string{"aws:RequestedRegion": s.config.Region}
	for _, spec := range c.in.List("TagSpecification") {
		for _, t := range spec.List("Tag") {
			given["aws:RequestTag/"+t.Get("Key")] = t.Get("Value")
		}
	}
	if c.action.name == "CreateAutoScalingGroup" {
		for _, t := range c.in.List("Tags") {
			given["aws:RequestTag/"+t.Get("Key")] = t.Get("Value")
		}
	}
	return given
}

// targets are the resources of a request. Actions without known resources have the resource "*".
func (s permissions) targets(c *call, st *state) []target {
	given := s.given(c)
	of := func(arn string, tags map[string]string) target {
		values := map[string]string{}
		for key, value := range given {
			values[key] = value
		}
		for key, value := range tags {
			values["aws:ResourceTag/"+key] = value
		}
		return target{arn, values}
	}
	fresh := func(kind string) target { return of(s.arn("ec2", kind+"/*"), nil) }
	known := func(id string) target {
		o, kind := st.owned(id)
		if o == nil { // IAM knows the kind of what is gone, but no tags
			prefix, _, _ := strings.Cut(id, "-")
			return of(s.arn("ec2", cmp.Or(kindsByPrefix[prefix], "*")+"/"+id), nil)
		}
		return of(s.arn("ec2", path.Join(kind, id)), o.base().Tags)
	}
	var out []target
	if c.service.name == "autoscaling" && !c.action.reads {
		if g := groupOf(c, st); g != nil {
			out = append(out, ofGroup(c, of(groups{backend: s.backend}.groupARN(g), nil), g))
		}
	}
	if kind := createdKinds[c.action.name]; kind != "" {
		out = append(out, fresh(kind))
	}
	switch c.action.name {
	case "GetParameter", "PutParameter":
		out = append(out, of(s.arn("ssm", "parameter"+c.in.Get("Name")), nil))
	case "SimulatePrincipalPolicy":
		out = append(out, of(c.in.Get("PolicySourceArn"), nil))
	case "CreateSnapshot", "RunInstances":
		out = append(out, known(c.in.Get(sources[c.action.name])))
	case "CreateReplaceRootVolumeTask", "CreateTags", "DeleteTags", "StopInstances", "StartInstances", "RebootInstances", "TerminateInstances", "DeleteSnapshot",
		"DeregisterImage", "DisableImage", "EnableImage", "CreateLaunchTemplateVersion", "DeleteLaunchTemplate", "CreateVolume", "AttachVolume",
		"DetachVolume", "DeleteVolume", "CreateSubnet", "DeleteSubnet", "DeleteVpc":
		for _, id := range namedIDs(c) {
			out = append(out, known(id))
		}
	}
	if len(out) == 0 {
		return []target{of("*", nil)}
	}
	return out
}

// question asks whether a user may do an action on a resource.
type question struct {
	action string
	target
}

// questions are all that a request needs. Tags of new resources need ec2:CreateTags for the creating action. A group that gets a
// launch template needs what a launch from the template needs. Source: "Launch template support", Amazon EC2 Auto Scaling.
func (s permissions) questions(c *call, st *state) (all []question) {
	for _, on := range s.targets(c, st) {
		all = append(all, question{c.resourceName(), on})
		if strings.HasSuffix(on.arn, "/*") && len(c.in.List("TagSpecification")) > 0 {
			on.values["ec2:CreateAction"] = c.action.name
			all = append(all, question{"ec2:CreateTags", on})
		}
	}
	from := c.in.At("LaunchTemplate")
	ofGroup := from != nil && (c.action.name == "UpdateAutoScalingGroup" || c.action.name == "CreateAutoScalingGroup")
	if c.action.name != "RunInstances" && !ofGroup {
		return all
	}
	data := &query.Value{}
	if t, p := st.template(from.Get("LaunchTemplateId"), from.Get("LaunchTemplateName")); p == nil {
		if v, p := t.version(from.Get("Version")); p == nil {
			data = v.Data
		}
	}
	if ofGroup { // a launch with the tags of the template
		tags, _ := tagsFor(data, "instance")
		values := map[string]string{}
		for key, value := range tags {
			values["aws:RequestTag/"+key] = value
		}
		all = append(all, question{"ec2:RunInstances", target{s.arn("ec2", "instance/*"), values}})
	}
	if name := data.Over(c.in).Get("IamInstanceProfile.Name"); name != "" {
		all = append(all, question{"iam:PassRole", target{s.roleARN(Role{Name: name}), nil}})
	}
	return all
}

// policyOf returns the policy of a user's ARN; nil without a policy.
func (s permissions) policyOf(source string) *policy {
	for _, u := range s.config.Users {
		if source == "arn:aws:iam::"+s.config.Account+":user/"+u.Name {
			return u.policy
		}
	}
	return nil
}
