package aws

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/query"
)

// permissions grants everything that no fault denies.
type permissions struct{ *backend }

func (s permissions) actions() []*action {
	return []*action{
		{name: "SimulatePrincipalPolicy", noun: "permission", reads: true, handle: s.simulate},
		{name: "SimulateCustomPolicy", noun: "permission", reads: true, handle: s.simulateCustom},
		{name: "GetRole", noun: "permission", reads: true, handle: s.role},
	}
}

// role describes a role by its name.
func (s permissions) role(c *call, _ *state) (query.Element, error) {
	for _, r := range s.config.Roles {
		if name := c.in.Get("RoleName"); r.Name == name {
			return query.Of("", query.Of("Role", query.Text("RoleName", r.Name), query.Text("Path", cmp.Or(r.Path, "/")), query.Text("Arn", s.roleARN(r)),
				query.Text("RoleId", "AROA"+hexOf(r.Name)), query.Date("CreateDate", time.Unix(0, 0).UTC()),
				query.Text("AssumeRolePolicyDocument", "%7B%7D"))), nil
		}
	}
	return query.Element{}, refuse(http.StatusNotFound, "NoSuchEntity", "The role with name %s cannot be found.", c.in.Get("RoleName"))
}

// authorize refuses a call if a fault, or the policy of the user, denies what the call needs.
func (s permissions) authorize(c *call) (refused *problem) {
	if c.action.open {
		return nil
	}
	s.store.Read(func(st *state) {
		for _, q := range s.questions(c, st) {
			f := st.Faults.Denying(q.action)
			denied := f != nil && f.Code != byCondition && f.Code != bySimulation
			if !denied {
				f = &fault.Counted{}
				if p := s.policyOf(c.who.source); p != nil && c.service.name != "sts" { // GetCallerIdentity needs no permission
					allowed, _ := p.verdict(q.action, q.target)
					denied = !allowed
				}
			}
			if denied && refused == nil {
				refused = unauthorized(c, q, why(f.Fault, q.action))
			}
		}
	})
	return refused
}

// unauthorized is the refusal of an action on a resource.
func unauthorized(c *call, q question, reason string) *problem {
	text := fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s %s", c.who.arn, q.action, q.arn, reason)
	if c.service.name != "ec2" {
		return refuse(http.StatusForbidden, "AccessDenied", "%s", text)
	}
	return refuse(http.StatusForbidden, "UnauthorizedOperation",
		"You are not authorized to perform this operation. %s. Encoded authorization failure message: %s", text, encoded(q.action))
}

// why names the denying policy.
func why(f fault.Fault, name string) string {
	switch f.Code {
	case "scp":
		return "with an explicit deny in a service control policy"
	case "boundary":
		return "with an explicit deny in a permissions boundary"
	}
	return "because no identity-based policy allows the " + name + " action"
}

// encoded is a message for sts:DecodeAuthorizationMessage.
func encoded(action string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"allowed":false,"context":{"action":%q}}`, action))
}

// Codes of denials that only a simulation of policies shows. byCondition is an allowing statement with a condition on the key in
// the fault's message: real calls satisfy the condition, a simulation needs the key. bySimulation is a wrong answer of IAM.
const byCondition, bySimulation = "condition", "simulated"

// isPrincipal reports whether the ARN is of a user or a role.
func (s permissions) isPrincipal(arn string) bool {
	return slices.ContainsFunc(s.config.Users, func(u User) bool { return arn == "arn:aws:iam::"+s.config.Account+":user/"+u.Name }) ||
		slices.ContainsFunc(s.config.Roles, func(r Role) bool { return arn == s.roleARN(r) })
}

// simulate returns the permissions of a principal. Organization and boundary are shown separately, too.
func (s permissions) simulate(c *call, st *state) (query.Element, error) {
	source := c.in.Get("PolicySourceArn")
	if !s.isPrincipal(source) {
		return query.Element{}, refuse(http.StatusNotFound, "NoSuchEntity", "The entity with ARN %s cannot be found.", source)
	}
	resources := c.in.Texts("ResourceArns")
	if len(resources) == 0 {
		resources = []string{"*"}
	}
	type result struct {
		action, resource string
		verdict
	}
	context := map[string]string{}
	for _, entry := range c.in.List("ContextEntries") {
		if values := entry.Texts("ContextKeyValues"); len(values) > 0 {
			context[entry.Get("ContextKeyName")] = values[0]
		}
	}
	var all []result
	for _, name := range c.in.Texts("ActionNames") {
		for _, resource := range resources {
			is := s.decide(st, name, context)
			if p := s.policyOf(source); p != nil && is.decision == "allowed" {
				if allowed, missing := p.verdict(name, target{resource, context}); !allowed {
					is = verdict{decision: "implicitDeny", missing: missing}
				}
			}
			all = append(all, result{name, resource, is})
		}
	}
	page, next, p := s.page(c, len(all), 0, 1000)
	if p != nil {
		return query.Element{}, p
	}
	return query.Of("", query.Bool("IsTruncated", next.Name != ""), next,
		query.List("EvaluationResults", "member", all[page.from:page.to], func(r result) query.Element {
			e := query.Of("", query.Text("EvalActionName", r.action), query.Text("EvalResourceName", r.resource), query.Text("EvalDecision", r.decision),
				query.Of("MatchedStatements"), query.Texts("MissingContextValues", "member", r.missing))
			switch r.by {
			case "scp":
				e.Kids = append(e.Kids, query.Of("OrganizationsDecisionDetail", query.Bool("AllowedByOrganizations", false)))
			case "boundary":
				e.Kids = append(e.Kids, query.Of("PermissionsBoundaryDecisionDetail", query.Bool("AllowedByPermissionsBoundary", false)))
			}
			return e
		})), nil
}

// verdict is the result of a simulation: the decision, the denying policy, and the keys of conditions without a value.
type verdict struct {
	decision, by string
	missing      []string
}

// decide evaluates an action. A condition on the region compares the value; other conditions need any value.
func (s permissions) decide(st *state, name string, context map[string]string) verdict {
	f := st.Faults.Denying(name)
	if f == nil {
		return verdict{decision: "allowed"}
	}
	switch f.Code {
	case "scp", "boundary":
		return verdict{decision: "explicitDeny", by: f.Code}
	case byCondition:
		value, given := context[f.Message]
		switch {
		case !given:
			return verdict{decision: "implicitDeny", missing: []string{f.Message}}
		case f.Message != "aws:RequestedRegion" || value == s.config.Region:
			return verdict{decision: "allowed"}
		}
	}
	return verdict{decision: "implicitDeny"}
}

// changeable refuses changes of resources with an operator.
func (w *backend) changeable(_ *call, o owned) *problem {
	if by := o.base().Operator; by != "" {
		return bad("OperationNotPermitted", "The resource '%s' is managed by the service provider '%s' and can be changed by it only.", o.base().ID, by)
	}
	return nil
}

// simulateCustom evaluates policies of the request.
func (s permissions) simulateCustom(c *call, _ *state) (query.Element, error) {
	all := policy{}
	for _, text := range c.in.Texts("PolicyInputList") {
		p, err := parsePolicy(text)
		if err != nil {
			return query.Element{}, bad("InvalidInput", "%v", err)
		}
		all.Statement = append(all.Statement, p.Statement...)
	}
	context := map[string]string{}
	for _, entry := range c.in.List("ContextEntries") {
		if values := entry.Texts("ContextKeyValues"); len(values) > 0 {
			context[entry.Get("ContextKeyName")] = values[0]
		}
	}
	return query.Of("", query.Bool("IsTruncated", false), query.List("EvaluationResults", "member", c.in.Texts("ActionNames"), func(name string) query.Element {
		decision := "implicitDeny"
		allowed, lacks := all.verdict(name, target{"*", context})
		if allowed {
			decision = "allowed"
		}
		return query.Of("", query.Text("EvalActionName", name), query.Text("EvalResourceName", "*"), query.Text("EvalDecision", decision),
			query.Texts("MissingContextValues", "member", lacks))
	})), nil
}
