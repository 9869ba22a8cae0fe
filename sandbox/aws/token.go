package aws

import (
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/kamino-dev/kamino/sandbox/assertion"
	"github.com/kamino-dev/kamino/sandbox/query"
)

// Federation is a trusted issuer and subject. The default audience is "sts.amazonaws.com".
type Federation = assertion.Federation

const stsAudience = "sts.amazonaws.com"

// tokens are the session tokens of STS.
type tokens struct {
	*backend
	sessions sessions
}

func (s tokens) actions() []*action {
	return []*action{
		{name: "GetCallerIdentity", noun: "token", reads: true, handle: s.identity},
		{name: "DecodeAuthorizationMessage", noun: "token", reads: true, handle: s.decode},
		{name: "AssumeRole", noun: "token", handle: s.assume},
		{name: "AssumeRoleWithWebIdentity", noun: "token", open: true, handle: s.web},
	}
}

func (s tokens) identity(c *call, _ *state) (query.Element, error) {
	return query.Of("", query.Text("Arn", c.who.arn), query.Text("UserId", c.who.id), query.Text("Account", s.config.Account)), nil
}

var sessionName = regexp.MustCompile(`^[\w+=,.@-]{2,64}$`)

// terms reads the common parameters of both calls for a role.
func (s tokens) terms(c *call) (name string, lifetime time.Duration, p *problem) {
	name = c.in.Get("RoleSessionName")
	if !sessionName.MatchString(name) {
		return "", 0, invalid("1 validation error detected: Value '%s' at 'roleSessionName' failed to satisfy constraint: "+
			"Member must satisfy regular expression pattern: [\\w+=,.@-]*", name)
	}
	lifetime = time.Hour
	if text := c.in.Get("DurationSeconds"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 900 || n > 43200 {
			return "", 0, invalid(
				"1 validation error detected: Value '%s' at 'durationSeconds' failed to satisfy constraint: Member must have value between 900 and 43200", text)
		}
		lifetime = time.Duration(n) * time.Second
	}
	return name, lifetime, nil
}

func (s tokens) assume(c *call, st *state) (query.Element, error) {
	name, lifetime, p := s.terms(c)
	if p != nil {
		return query.Element{}, p
	}
	role := s.sessions.role(c.in.Get("RoleArn"))
	if role == nil {
		return query.Element{}, refuse(http.StatusForbidden, "AccessDenied", "User: %s is not authorized to perform: sts:AssumeRole on resource: %s",
			c.who.arn, c.in.Get("RoleArn"))
	}
	return query.Of("", s.sessions.issue(st, role.Name, name, lifetime).element(), s.assumed(role.Name, name)), nil
}

func (s tokens) assumed(role, name string) query.Element {
	return query.Of("AssumedRoleUser", query.Text("Arn", "arn:aws:sts::"+s.config.Account+":assumed-role/"+role+"/"+name),
		query.Text("AssumedRoleId", "AROA"+hexOf(role)+":"+name))
}

// web creates a session for the holder of a trusted token.
func (s tokens) web(c *call, st *state) (query.Element, error) {
	name, lifetime, p := s.terms(c)
	if p != nil {
		return query.Element{}, p
	}
	role := s.sessions.role(c.in.Get("RoleArn"))
	if role == nil {
		return query.Element{}, refuse(http.StatusForbidden, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
	}
	claims, refused := assertion.Check(c.in.Get("WebIdentityToken"), role.Federated, stsAudience, time.Now())
	if refused != nil {
		return query.Element{}, webRefusal(refused)
	}
	return query.Of("", query.Text("SubjectFromWebIdentityToken", claims.Subject), query.Text("Audience", stsAudience), query.Text("Provider", claims.Issuer),
		s.sessions.issue(st, role.Name, name, lifetime).element(), s.assumed(role.Name, name)), nil
}

// webRefusal is STS's answer to a token that a role does not trust.
func webRefusal(refused *assertion.Refusal) *problem {
	switch refused.Reason {
	case assertion.Expired:
		return bad("ExpiredTokenException", "Token expired: current date/time must be before the expiration date/time")
	case assertion.Untrusted:
		return refuse(http.StatusForbidden, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
	case assertion.Malformed, assertion.Audience, assertion.Signature, assertion.Keys:
	}
	return bad("InvalidIdentityToken", "%s", refused.Text)
}
