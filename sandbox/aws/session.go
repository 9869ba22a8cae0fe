package aws

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
	"github.com/kamino-dev/kamino/sandbox/sigv4"
)

// principal is the caller.
type principal struct {
	// name is for the request log, arn for messages, source the ARN of the user or role with the policies.
	name, arn, source, id string
}

// session holds credentials from STS or the metadata service.
type session struct {
	Secret  string    `json:"secret"`
	Token   string    `json:"token"`
	Role    string    `json:"role"`
	Name    string    `json:"name"`
	Expires time.Time `json:"expires"`
}

// sessions are the known credentials: users' keys, and credentials of roles. Their expiry uses real time, because
// clients use real time.
type sessions struct{ *backend }

// authenticate finds the signer of a request.
func (s sessions) authenticate(c *call, body []byte) (principal, error) {
	scope, err := sigv4.Read(c.r)
	if err != nil {
		return principal{}, refusal(c, err)
	}
	who, secret, p := s.holder(c, scope)
	if p != nil {
		return principal{}, p
	}
	if scope.Region != s.config.Region && scope.Region != "us-east-1" {
		return principal{}, refusal(c, &sigv4.Error{Reason: sigv4.Mismatch, Text: "Credential should be scoped to a valid region."})
	}
	if err := scope.Verify(c.r, body, secret, time.Now()); err != nil {
		return principal{}, refusal(c, err)
	}
	return who, nil
}

// holder finds the owner of a request's key.
func (s sessions) holder(c *call, scope sigv4.Scope) (who principal, secret string, p *problem) {
	for _, u := range s.config.Users {
		if u.KeyID == scope.KeyID && scope.Token == "" {
			arn := "arn:aws:iam::" + s.config.Account + ":user/" + u.Name
			return principal{name: u.Name, arn: arn, source: arn, id: "AIDA" + strings.ToUpper(hexOf(u.Name))}, u.Secret, nil
		}
	}
	unknown := refuse(http.StatusForbidden, "InvalidClientTokenId", "The security token included in the request is invalid.")
	expired := refuse(http.StatusForbidden, "ExpiredToken", "The security token included in the request is expired")
	if c.service.name == "ec2" {
		unknown = refuse(http.StatusUnauthorized, "AuthFailure", "AWS was not able to validate the provided access credentials")
		expired = bad("RequestExpired", "Request has expired.")
	}
	p = unknown
	s.store.Read(func(st *state) {
		found := st.Sessions[scope.KeyID]
		switch {
		case found == nil || found.Token != scope.Token:
		case !time.Now().Before(found.Expires):
			p = expired
		default:
			p, secret = nil, found.Secret
			who = principal{
				name: found.Role + "/" + found.Name, source: s.nameARN(found.Role), id: "AROA" + strings.ToUpper(hexOf(found.Role)) + ":" + found.Name,
				arn: "arn:aws:sts::" + s.config.Account + ":assumed-role/" + found.Role + "/" + found.Name,
			}
		}
	})
	return who, secret, p
}

// hexOf derives a part of an ID from a name.
func hexOf(name string) string { return (hex.EncodeToString([]byte(name)) + "00000000000000000")[:17] }

func (s sessions) nameARN(role string) string {
	return "arn:aws:iam::" + s.config.Account + ":role/" + role
}

// roleARN is the ARN of a role with its path.
func (w *backend) roleARN(r Role) string {
	return "arn:aws:iam::" + w.config.Account + ":role" + cmp.Or(r.Path, "/") + r.Name
}

// role is a role by its name or ARN; nil if there is none.
func (s sessions) role(name string) *Role {
	name = name[strings.LastIndex(name, "/")+1:]
	for i, r := range s.config.Roles {
		if r.Name == name {
			return &s.config.Roles[i]
		}
	}
	return nil
}

// given is a session with its key ID.
type given struct {
	*session
	key string
}

// issue makes a session.
func (s sessions) issue(st *state, role, name string, lifetime time.Duration) given {
	var b [48]byte
	_, _ = rand.Read(b[:]) // never fails
	if s.config.SessionLifetime > 0 {
		lifetime = s.config.SessionLifetime
	}
	key := "ASIA" + strings.ToUpper(hex.EncodeToString(b[:8]))
	made := &session{Secret: base64.RawStdEncoding.EncodeToString(b[8:38]), Token: base64.StdEncoding.EncodeToString(b[20:]), Role: role, Name: name,
		Expires: time.Now().Add(lifetime).UTC().Truncate(time.Second)}
	st.Sessions[key] = made
	return given{made, key}
}

// expire ends all existing sessions.
func (s sessions) expire() error {
	return s.store.Write(func(st *state) error {
		for _, found := range st.Sessions {
			found.Expires = time.Time{}
		}
		return nil
	})
}

func (g given) element() query.Element {
	return query.Of("Credentials", query.Text("AccessKeyId", g.key), query.Text("SecretAccessKey", g.Secret),
		query.Text("SessionToken", g.Token), query.Text("Expiration", g.Expires.Format(time.RFC3339)))
}
