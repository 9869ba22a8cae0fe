package azure

import (
	"crypto/subtle"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/requestlog"
	"github.com/kamino-dev/kamino/sandbox/simulator"
)

func (s logins) serveIdentity(w http.ResponseWriter, r *http.Request) {
	entry := requestlog.Request{Time: time.Now(), Method: r.Method, Path: r.URL.Path, Class: requestlog.Login, Noun: "token", Operation: fold(r.Method)}
	counted := simulator.Watch(w, r)
	defer func() {
		entry.Status, entry.Took, entry.Wire = counted.Status, time.Since(entry.Time), counted.Wire()
		s.book.Enter(entry, "")
	}()
	if f := s.faults.Strike(r.Method, r.URL.Path, "token", fold(r.Method)); f != nil {
		if err := s.faults.trouble(counted, &call{r: r, fault: f}, f.Phase); err != nil {
			p := asProblem(err)
			simulator.JSON(counted, p.Status, object{"statusCode": p.Status, "message": p.Message})
			return
		}
	}
	if !s.mayAskIdentity(r) {
		simulator.JSON(counted, http.StatusUnauthorized, object{"statusCode": http.StatusUnauthorized,
			"message": "The request is not authorized: the identity header is missing or wrong."})
		return
	}
	s.giveIdentity(counted, r, &entry)
}

// mayAskIdentity checks the header that proves a request from the machine.
func (s logins) mayAskIdentity(r *http.Request) bool {
	if s.config.IdentityHeader == "" {
		return false
	}
	if strings.HasPrefix(r.URL.Path, "/metadata/identity/") && r.Header.Get("Metadata") == "true" {
		return true
	}
	return subtle.ConstantTimeCompare([]byte(r.Header.Get("X-IDENTITY-HEADER")), []byte(s.config.IdentityHeader)) == 1
}

// giveIdentity answers with a token of the identity in the query, or of the system-assigned identity.
func (s logins) giveIdentity(w http.ResponseWriter, r *http.Request, entry *requestlog.Request) {
	q := r.URL.Query()
	if q.Get("resource") == "" || q.Get("api-version") == "" {
		simulator.JSON(w, http.StatusBadRequest, object{"statusCode": http.StatusBadRequest, "error": "invalid_request",
			"message": "The parameters 'resource' and 'api-version' are required."})
		return
	}
	id := s.identityFor(q.Get)
	if id == "" {
		simulator.JSON(w, http.StatusBadRequest, object{"statusCode": http.StatusBadRequest, "error": "invalid_request",
			"error_description": "Identity not found",
			"message":           "No User Assigned or Delegated Managed Identity found for specified ClientId/ResourceId/PrincipalId."})
		return
	}
	entry.Principal = id
	token, expires := s.issue(id, strings.TrimSuffix(q.Get("resource"), "/.default"), r.Host)
	simulator.JSON(w, http.StatusOK, object{"access_token": token, "expires_on": strconv.FormatInt(expires.Unix(), 10),
		"expires_in": strconv.Itoa(int(time.Until(expires).Seconds())), "resource": q.Get("resource"), "token_type": "Bearer", "client_id": id})
}

// identityFor is the client ID of the identity that is asked for; empty if there is none.
func (s logins) identityFor(query func(string) string) string {
	client, object := query("client_id"), query("object_id")+query("principal_id")
	resource := query("mi_res_id") + query("msi_res_id")
	if client+object+resource == "" {
		return s.config.SystemIdentity
	}
	for _, u := range s.config.UserIdentities {
		if client != "" && strings.EqualFold(client, u.ClientID) || object != "" && strings.EqualFold(object, u.ObjectID) ||
			resource != "" && strings.EqualFold(resource, u.ResourceID) {
			return u.ClientID
		}
	}
	return ""
}
