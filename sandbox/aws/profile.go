package aws

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// profile is an instance profile with at most one role.
type profile struct {
	Name string            `json:"name"`
	Path string            `json:"path"`
	Role string            `json:"role,omitempty"`
	Tags map[string]string `json:"tags"`
	Made time.Time         `json:"made"`
}

// profiles are instance profiles, which Karpenter makes for its classes.
type profiles struct{ permissions }

func (s profiles) actions() []*action {
	return []*action{
		{name: "GetInstanceProfile", noun: "profile", reads: true, handle: s.get},
		{name: "CreateInstanceProfile", noun: "profile", handle: s.create},
		{name: "AddRoleToInstanceProfile", noun: "profile", handle: s.add},
		{name: "RemoveRoleFromInstanceProfile", noun: "profile", handle: s.remove},
		{name: "DeleteInstanceProfile", noun: "profile", handle: s.delete},
	}
}

// named finds the profile of a call.
func (s profiles) named(c *call, st *state) (*profile, *problem) {
	name := c.in.Get("InstanceProfileName")
	if p := st.Profiles[name]; p != nil {
		return p, nil
	}
	return nil, refuse(http.StatusNotFound, "NoSuchEntity", "Instance Profile %s cannot be found.", name)
}

func (s profiles) get(c *call, st *state) (query.Element, error) {
	p, wrong := s.named(c, st)
	if wrong != nil {
		return query.Element{}, wrong
	}
	return s.element(p), nil
}

func (s profiles) element(p *profile) query.Element {
	var roles []string
	if p.Role != "" {
		roles = []string{p.Role}
	}
	keys := make([]string, 0, len(p.Tags))
	for key := range p.Tags {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return query.Of("", query.Of("InstanceProfile", query.Text("InstanceProfileName", p.Name), query.Text("Path", p.Path),
		query.Text("InstanceProfileId", "AIPA"+strings.ToUpper(hexOf(p.Name))),
		query.Text("Arn", "arn:aws:iam::"+s.config.Account+":instance-profile"+p.Path+p.Name), query.Date("CreateDate", p.Made),
		query.List("Roles", "member", roles, func(name string) query.Element {
			return query.Of("", query.Text("RoleName", name), query.Text("Path", "/"), query.Text("Arn", s.roleARN(Role{Name: name})),
				query.Text("RoleId", "AROA"+hexOf(name)), query.Date("CreateDate", time.Unix(0, 0).UTC()))
		}),
		query.List("Tags", "member", keys, func(key string) query.Element {
			return query.Of("", query.Text("Key", key), query.Text("Value", p.Tags[key]))
		})))
}

func (s profiles) create(c *call, st *state) (query.Element, error) {
	p := &profile{Name: c.in.Get("InstanceProfileName"), Path: cmp.Or(c.in.Get("Path"), "/"), Tags: map[string]string{}, Made: s.stamp()}
	switch {
	case p.Name == "":
		return query.Element{}, missing("InstanceProfileName")
	case st.Profiles[p.Name] != nil:
		return query.Element{}, refuse(http.StatusConflict, "EntityAlreadyExists", "Instance Profile %s already exists.", p.Name)
	}
	for _, t := range c.in.List("Tags") {
		p.Tags[t.Get("Key")] = t.Get("Value")
	}
	st.Profiles[p.Name] = p
	return s.element(p), nil
}

func (s profiles) add(c *call, st *state) (query.Element, error) {
	p, wrong := s.named(c, st)
	role := c.in.Get("RoleName")
	switch {
	case wrong != nil:
		return query.Element{}, wrong
	case !slices.ContainsFunc(s.config.Roles, func(r Role) bool { return r.Name == role }):
		return query.Element{}, refuse(http.StatusNotFound, "NoSuchEntity", "The role with name %s cannot be found.", role)
	case p.Role != "":
		return query.Element{}, refuse(http.StatusConflict, "LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1")
	}
	p.Role = role
	return query.Element{}, nil
}

func (s profiles) remove(c *call, st *state) (query.Element, error) {
	p, wrong := s.named(c, st)
	if wrong == nil && p.Role != c.in.Get("RoleName") {
		wrong = refuse(http.StatusNotFound, "NoSuchEntity", "The role with name %s is not in the instance profile.", c.in.Get("RoleName"))
	}
	if wrong != nil {
		return query.Element{}, wrong
	}
	p.Role = ""
	return query.Element{}, nil
}

func (s profiles) delete(c *call, st *state) (query.Element, error) {
	p, wrong := s.named(c, st)
	if wrong == nil && p.Role != "" {
		wrong = refuse(http.StatusConflict, "DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
	}
	if wrong != nil {
		return query.Element{}, wrong
	}
	delete(st.Profiles, p.Name)
	return query.Element{}, nil
}

// clusters are clusters of EKS: the one that the machines join. Its addresses of Services are those of the sandbox.
type clusters struct{ *backend }

func (s clusters) actions() []*action {
	return []*action{{name: "DescribeCluster", noun: "cluster", reads: true, handle: s.describe}}
}

func (s clusters) describe(c *call, _ *state) (query.Element, error) {
	return query.Of("", query.Of("cluster", query.Text("name", c.in.Get("name")), query.Text("status", "ACTIVE"),
		query.Text("arn", s.arn("eks", "cluster/"+c.in.Get("name"))),
		query.Of("kubernetesNetworkConfig", query.Text("serviceIpv4Cidr", "10.0.0.0/24"), query.Text("ipFamily", "ipv4")))), nil
}
