package aws

import (
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// maxTemplateVersions is how many versions a launch template can have.
const maxTemplateVersions = 10000

// template is a launch template. Versions are never changed; the numbers of deleted ones are not used again.
type template struct {
	resource
	Name    string `json:"name"`
	By      string `json:"by"`
	Default int64  `json:"default"`
	Latest  int64  `json:"latest"`
	// Given is the highest version number ever used.
	Given   int64                      `json:"given"`
	Numbers map[int64]*templateVersion `json:"numbers"`
}

// templateVersion is a version; its data is stored as written.
type templateVersion struct {
	Number      int64        `json:"number"`
	Description string       `json:"description,omitempty"`
	By          string       `json:"by"`
	Created     time.Time    `json:"created"`
	Data        *query.Value `json:"data"`
}

// templates are launch templates.
type templates struct{ *backend }

func (s templates) actions() []*action {
	return []*action{
		{name: "CreateLaunchTemplate", noun: "template", handle: s.create},
		{name: "CreateLaunchTemplateVersion", noun: "template", handle: s.createVersion},
		{name: "ModifyLaunchTemplate", noun: "template", handle: s.modify},
		{name: "DeleteLaunchTemplate", noun: "template", handle: s.delete},
		{name: "DeleteLaunchTemplateVersions", noun: "template", handle: s.deleteVersions},
		{name: "DescribeLaunchTemplates", noun: "template", reads: true, handle: s.describe},
		{name: "DescribeLaunchTemplateVersions", noun: "template", reads: true, handle: s.describeVersions},
	}
}

func noTemplate(id string) *problem {
	return bad("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
}

// template finds a template by name or ID.
func (st *state) template(id, name string) (*template, *problem) {
	switch {
	case id != "" && name != "":
		return nil, bad("InvalidParameterCombination", "You cannot specify both the launch template ID and the launch template name")
	case id != "":
		if t := st.Templates[id]; t != nil {
			return t, nil
		}
		return nil, noTemplate(id)
	case name != "":
		for _, t := range st.Templates {
			if t.Name == name {
				return t, nil
			}
		}
		return nil, bad("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
	}
	return nil, bad("MissingParameter", "Either a launch template ID or a launch template name must be specified")
}

// version is the version that a text names: a number, $Default, $Latest; nothing is the default.
func (t *template) version(text string) (*templateVersion, *problem) {
	n := t.Default
	switch text {
	case "", "$Default":
	case "$Latest":
		n = t.Latest
	default:
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, bad("InvalidLaunchTemplateId.VersionNotFound",
				"Could not find the specified version %s for the launch template with ID %s.", text, t.ID)
		}
		n = number
	}
	if v := t.Numbers[n]; v != nil {
		return v, nil
	}
	return nil, bad("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %s for the launch template with ID %s.", text, t.ID)
}

var templateName = regexp.MustCompile(`^[a-zA-Z0-9().\-/_]{3,128}$`)

// checkData refuses unusable data.
func checkData(data *query.Value) *problem {
	if data == nil || len(data.Parts) == 0 {
		return missing("LaunchTemplateData")
	}
	if user := data.Get("UserData"); user != "" {
		if _, err := base64.StdEncoding.DecodeString(user); err != nil {
			return bad("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
		}
	}
	if id := data.Get("ImageId"); id != "" && !strings.HasPrefix(id, "ami-") && !strings.HasPrefix(id, "resolve:ssm:") {
		return bad("InvalidAMIID.Malformed", "Invalid id: \"%s\"", id)
	}
	for _, m := range data.List("BlockDeviceMapping") {
		if _, p := deviceOf(m, device{}); p != nil {
			return p
		}
	}
	return nil
}

func (s templates) create(c *call, st *state) (query.Element, error) {
	made, p := st.repeated(c)
	if p != nil {
		return query.Element{}, p
	}
	if len(made) > 0 && st.Templates[made[0]] != nil {
		return query.Of("", s.element("launchTemplate", st.Templates[made[0]])), nil
	}
	name, data := c.in.Get("LaunchTemplateName"), c.in.At("LaunchTemplateData")
	if !templateName.MatchString(name) {
		return query.Element{}, bad("InvalidLaunchTemplateName.MalformedException",
			"A launch template name must be between 3 and 128 characters, and may contain letters, numbers, and the following characters: - ( ) . / _.")
	}
	if t, _ := st.template("", name); t != nil {
		return query.Element{}, bad("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
	}
	if p := checkData(data); p != nil {
		return query.Element{}, p
	}
	t := &template{resource: s.fresh(st, "lt"), Name: name, By: c.who.arn, Numbers: map[int64]*templateVersion{}}
	if t.Tags, p = tagsOnly(c.in, "launch-template"); p != nil {
		return query.Element{}, p
	}
	t.Operator = c.in.Get("Operator.Principal")
	s.addVersion(c, t, data)
	t.Default = 1
	st.Templates[t.ID] = t
	st.remember(c, t.ID)
	return query.Of("", s.element("launchTemplate", t)), nil
}

func (s templates) addVersion(c *call, t *template, data *query.Value) *templateVersion {
	t.Given++
	t.Latest = t.Given
	v := &templateVersion{Number: t.Given, Description: c.in.Get("VersionDescription"), By: c.who.arn, Created: s.stamp(), Data: data.Copy()}
	t.Numbers[v.Number] = v
	return v
}

// named is the template of a call, if the caller may change the template.
func (s templates) named(c *call, st *state) (*template, *problem) {
	t, p := st.template(c.in.Get("LaunchTemplateId"), c.in.Get("LaunchTemplateName"))
	if p != nil {
		return nil, p
	}
	if !s.sees(t) {
		return nil, noTemplate(t.ID)
	}
	if c.action.reads {
		return t, nil
	}
	return t, s.changeable(c, t)
}

// createVersion makes a version from the data, over that of a source version. Of the source's block device mappings no
// snapshot is inherited.
func (s templates) createVersion(c *call, st *state) (query.Element, error) {
	made, p := st.repeated(c)
	if p != nil {
		return query.Element{}, p
	}
	t, p := s.named(c, st)
	if p != nil {
		return query.Element{}, p
	}
	if len(made) > 0 {
		if n, err := strconv.ParseInt(made[0], 10, 64); err == nil && t.Numbers[n] != nil {
			return query.Of("", s.versionElement("launchTemplateVersion", t, t.Numbers[n])), nil
		}
	}
	data := c.in.At("LaunchTemplateData")
	if data == nil || len(data.Parts) == 0 {
		return query.Element{}, missing("LaunchTemplateData")
	}
	if from := c.in.Get("SourceVersion"); from != "" {
		source, p := t.version(from)
		if p != nil {
			return query.Element{}, p
		}
		old := source.Data.Copy()
		for _, m := range old.List("BlockDeviceMapping") {
			if ebs := m.At("Ebs"); ebs != nil {
				delete(ebs.Parts, "SnapshotId")
			}
		}
		data = old.Over(data)
	}
	if p := checkData(data); p != nil {
		return query.Element{}, p
	}
	if len(t.Numbers) >= maxTemplateVersions {
		return query.Element{}, bad("VersionLimitExceeded", "You have reached the limit of %d versions of a launch template", maxTemplateVersions)
	}
	v := s.addVersion(c, t, data)
	st.remember(c, strconv.FormatInt(v.Number, 10))
	return query.Of("", s.versionElement("launchTemplateVersion", t, v)), nil
}

func (s templates) modify(c *call, st *state) (query.Element, error) {
	t, p := s.named(c, st)
	if p != nil {
		return query.Element{}, p
	}
	if text := c.in.Get("SetDefaultVersion"); text != "" {
		v, p := t.version(text)
		if p != nil {
			return query.Element{}, p
		}
		t.Default = v.Number
	}
	return query.Of("", s.element("launchTemplate", t)), nil
}

func (s templates) delete(c *call, st *state) (query.Element, error) {
	t, p := s.named(c, st)
	if p != nil {
		return query.Element{}, p
	}
	delete(st.Templates, t.ID)
	return query.Of("", s.element("launchTemplate", t)), nil
}

// deleteVersions deletes the possible versions and reports the others.
func (s templates) deleteVersions(c *call, st *state) (query.Element, error) {
	t, p := s.named(c, st)
	if p != nil {
		return query.Element{}, p
	}
	good, poor := query.Of("successfullyDeletedLaunchTemplateVersionSet"), query.Of("unsuccessfullyDeletedLaunchTemplateVersionSet")
	for _, text := range c.in.Texts("LaunchTemplateVersion") {
		item := query.Of("item", query.Text("launchTemplateId", t.ID), query.Text("launchTemplateName", t.Name), query.Text("versionNumber", text))
		v, p := t.version(text)
		switch {
		case p != nil:
			item.Kids = append(item.Kids, query.Of("responseError", query.Text("code", "launchTemplateVersionDoesNotExist"), query.Text("message", p.Text)))
			poor.Kids = append(poor.Kids, item)
		case v.Number == t.Default:
			item.Kids = append(item.Kids,
				query.Of("responseError", query.Text("code", "unexpectedError"),
					query.Text("message", "You cannot delete the default version of a launch template")))
			poor.Kids = append(poor.Kids, item)
		default:
			delete(t.Numbers, v.Number)
			good.Kids = append(good.Kids, item)
		}
	}
	for t.Numbers[t.Latest] == nil {
		t.Latest--
	}
	return query.Of("", good, poor), nil
}

func (s templates) describe(c *call, st *state) (query.Element, error) {
	all, p := byID(s.backend, st.Templates, c.in.Texts("LaunchTemplateId"), noTemplate)
	if p != nil {
		return query.Element{}, p
	}
	if names := c.in.Texts("LaunchTemplateName"); len(names) > 0 {
		all = nil
		for _, name := range names {
			t, p := st.template("", name)
			if p != nil {
				return query.Element{}, p
			}
			all = append(all, t)
		}
	}
	all, p = filtered(c, all, map[string]func(*template) []string{
		"launch-template-name": func(t *template) []string { return []string{t.Name} },
	}, func(t *template) map[string]string { return t.Tags })
	if p != nil {
		return query.Element{}, p
	}
	return listed(s.backend, c, "launchTemplates", all, 1, 200, func(t *template) query.Element { return s.element("", t) })
}

// wanted returns the versions in a call, newest first; without names, all versions. $Latest and $Default are single
// versions.
func (s templates) wanted(c *call, t *template) ([]*templateVersion, *problem) {
	if names := c.in.Texts("LaunchTemplateVersion"); len(names) > 0 {
		var out []*templateVersion
		for _, name := range names {
			if name == "" {
				return nil, bad("InvalidParameterValue", "Invalid launch template version: either '$Default', '$Latest', or a numeric version are allowed.")
			}
			v, p := t.version(name)
			if p != nil {
				return nil, p
			}
			out = append(out, v)
		}
		return out, nil
	}
	from, _ := strconv.ParseInt(c.in.Get("MinVersion"), 10, 64)
	to, err := strconv.ParseInt(c.in.Get("MaxVersion"), 10, 64)
	if err != nil {
		to = t.Latest
	}
	var out []*templateVersion
	for n := min(to, t.Latest); n >= max(from, 1); n-- {
		if v := t.Numbers[n]; v != nil {
			out = append(out, v)
		}
	}
	return out, nil
}

// describeVersions describes the versions of a template, or $Latest or $Default of all templates.
func (s templates) describeVersions(c *call, st *state) (query.Element, error) {
	type one struct {
		t *template
		v *templateVersion
	}
	var of []*template
	if c.in.Has("LaunchTemplateId") || c.in.Has("LaunchTemplateName") {
		t, p := s.named(c, st)
		if p != nil {
			return query.Element{}, p
		}
		of = []*template{t}
	} else if of = sorted(st.Templates); len(c.in.Texts("LaunchTemplateVersion")) == 0 {
		return query.Element{}, bad("MissingParameter", "Either a launch template or the versions $Latest or $Default must be specified")
	}
	var all []one
	for _, t := range of {
		versions, p := s.wanted(c, t)
		if p != nil {
			return query.Element{}, p
		}
		for _, v := range versions {
			all = append(all, one{t, v})
		}
	}
	return listed(s.backend, c, "launchTemplateVersionSet", all, 1, 200, func(o one) query.Element {
		return s.versionElement("", o.t, o.v)
	})
}

func (s templates) element(name string, t *template) query.Element {
	return query.Of(name, query.Text("launchTemplateId", t.ID), query.Text("launchTemplateName", t.Name), query.Date("createTime", t.Created),
		query.Text("createdBy", t.By), query.Int("defaultVersionNumber", t.Default), query.Int("latestVersionNumber", t.Latest), tagSet(t.Tags),
		operatorElement(t.Operator))
}

func (s templates) versionElement(name string, t *template, v *templateVersion) query.Element {
	data := dataElement("launchTemplateData", v.Data)
	return query.Of(name, query.Text("launchTemplateId", t.ID), query.Text("launchTemplateName", t.Name), query.Int("versionNumber", v.Number),
		query.Text("versionDescription", v.Description), query.Date("createTime", v.Created), query.Text("createdBy", v.By),
		query.Bool("defaultVersion", v.Number == t.Default), data, operatorElement(t.Operator))
}

// operatorElement names the service that manages a resource.
func operatorElement(by string) query.Element {
	if by == "" {
		return query.Element{}
	}
	return query.Of("operator", query.Bool("managed", true), query.Text("principal", by))
}

// answered maps names in requests to different names in answers.
var answered = map[string]string{
	"BlockDeviceMapping": "blockDeviceMappingSet", "NetworkInterface": "networkInterfaceSet", "TagSpecification": "tagSpecificationSet", "Tag": "tagSet",
	"SecurityGroupId": "securityGroupIdSet", "SecurityGroup": "securityGroupSet", "LicenseSpecification": "licenseSet",
	"ElasticGpuSpecification":     "elasticGpuSpecificationSet",
	"ElasticInferenceAccelerator": "elasticInferenceAcceleratorSet", "RamDiskId": "ramDiskId", "Ipv6Addresses": "ipv6AddressesSet",
	"PrivateIpAddresses": "privateIpAddressesSet",
}

// dataElement returns a value as written, with the names of answers.
func dataElement(name string, v *query.Value) query.Element {
	if v.IsList() {
		item := "item"
		if name == "groupSet" {
			item = "groupId"
		}
		e := query.Element{Name: name}
		for _, one := range (&query.Value{Parts: map[string]*query.Value{"all": v}}).List("all") {
			kid := dataElement(name, one)
			kid.Name = item
			e.Kids = append(e.Kids, kid)
		}
		return e
	}
	if v == nil || len(v.Parts) == 0 {
		return leaf(name, v)
	}
	e := query.Element{Name: name}
	for _, part := range v.Names() {
		to := answered[part]
		if name == "networkInterfaceSet" && part == "SecurityGroupId" {
			to = "groupSet"
		}
		if to == "" {
			to = strings.ToLower(part[:1]) + part[1:]
		}
		e.Kids = append(e.Kids, dataElement(to, v.Parts[part]))
	}
	return e
}

// leaf answers a text.
func leaf(name string, v *query.Value) query.Element {
	if v == nil {
		return query.Element{}
	}
	return query.Text(name, v.Text)
}
