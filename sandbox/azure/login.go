package azure

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/requestlog"
	"github.com/kamino-dev/kamino/sandbox/simulator"
)

// logins are Entra ID and managed identities: principals and their tokens.
type logins struct {
	*backend
	faults faults
	signer *signer
	book   *requestlog.Log
}

// serve answers requests to Entra ID: discovery and tokens, for tenants and for ADFS. serve reports whether the
// request was such a request.
func (s logins) serve(w http.ResponseWriter, r *http.Request, entry *requestlog.Request) bool {
	p := split(fold(r.URL.Path))
	last := p[len(p)-1]
	discovery := last == "openid-configuration"
	token := last == "token" && len(p) >= 3 && (p[1] == "oauth2")
	instances := strings.HasSuffix(fold(r.URL.Path), "/discovery/instance")
	if !discovery && !token && !instances {
		return false
	}
	entry.Class, entry.Noun, entry.Operation = requestlog.Login, "token", fold(r.Method)
	fault := s.faults.Strike(r.Method, r.URL.Path, "token", fold(r.Method))
	if f := fault; f != nil {
		c := &call{r: r, fault: f}
		if err := s.faults.trouble(w, c, f.Phase); err != nil {
			p := asProblem(err)
			writeLogin(w, p.Status, loginError(p.Code, p.Message, 0))
			return true
		}
	}
	tenant := p[0]
	if tenant != "adfs" && tenant != "common" && tenant != "organizations" && tenant != fold(s.config.TenantID) {
		writeLogin(w, http.StatusBadRequest, loginError("invalid_tenant", fmt.Sprintf("AADSTS90002: Tenant '%s' not found. "+
			"Check to make sure you have the correct tenant ID and are signing into the correct cloud.", tenant), 90002))
		return true
	}
	switch {
	case instances:
		writeLogin(w, http.StatusOK, s.instanceDiscovery(r))
	case discovery:
		writeLogin(w, http.StatusOK, s.openIDConfiguration(r, tenant))
	default:
		s.serveToken(w, r, entry)
	}
	return true
}

func writeLogin(w http.ResponseWriter, status int, body object) {
	w.Header().Set("Cache-Control", "no-store, no-cache")
	simulator.JSON(w, status, body)
}

func (s logins) instanceDiscovery(r *http.Request) object {
	return object{
		"tenant_discovery_endpoint": fmt.Sprintf("https://%s/%s/v2.0/.well-known/openid-configuration", r.Host, s.config.TenantID),
		"api-version":               "1.1",
		"metadata":                  []any{object{"preferred_network": r.Host, "preferred_cache": r.Host, "aliases": []any{r.Host}}},
	}
}

func (s logins) openIDConfiguration(r *http.Request, tenant string) object {
	base := "https://" + r.Host + "/" + tenant
	path, issuer := "/oauth2/v2.0/", base+"/v2.0"
	if tenant == "adfs" {
		path, issuer = "/oauth2/", base
	}
	return object{
		"issuer": issuer, "token_endpoint": base + path + "token", "authorization_endpoint": base + path + "authorize",
		"device_authorization_endpoint": base + path + "devicecode", "jwks_uri": base + "/discovery/keys",
		"token_endpoint_auth_methods_supported": []any{"client_secret_post", "private_key_jwt"},
		"response_types_supported":              []any{"code", "id_token"}, "scopes_supported": []any{"openid"},
		"subject_types_supported": []any{"pairwise"}, "id_token_signing_alg_values_supported": []any{"RS256"},
	}
}

// loginError is an error in Entra's form.
func loginError(kind, description string, code int) object {
	now := time.Now().UTC().Format("2006-01-02 15:04:05Z")
	trace, correlation := newUUID(), newUUID()
	return object{
		"error": kind, "error_codes": []any{code}, "timestamp": now, "trace_id": trace, "correlation_id": correlation,
		"error_uri":         fmt.Sprintf("https://login.microsoftonline.com/error?code=%d", code),
		"error_description": fmt.Sprintf("%s Trace ID: %s Correlation ID: %s Timestamp: %s", description, trace, correlation, now),
	}
}

func (s logins) isServicePrincipal(id string) bool {
	_, known := s.config.Roles[id]
	return known || strings.EqualFold(id, s.config.ClientID)
}

// serveToken gives an access token for a client secret or a federated assertion.
func (s logins) serveToken(w http.ResponseWriter, r *http.Request, entry *requestlog.Request) {
	if err := r.ParseForm(); err != nil || r.Method != http.MethodPost {
		writeLogin(w, http.StatusBadRequest, loginError("invalid_request", "AADSTS900144: The request body must be a form.", 900144))
		return
	}
	form := r.PostForm
	id := form.Get("client_id")
	switch {
	case form.Get("grant_type") != "client_credentials":
		writeLogin(w, http.StatusBadRequest, loginError("unsupported_grant_type",
			fmt.Sprintf("AADSTS70003: The app requested an unsupported grant type '%s'.", form.Get("grant_type")), 70003))
		return
	case !s.isServicePrincipal(id):
		writeLogin(w, http.StatusBadRequest, loginError("unauthorized_client", fmt.Sprintf(
			"AADSTS700016: Application with identifier '%s' was not found in the directory '%s'. "+
				"This can happen if the application has not been installed by the administrator of the tenant or consented to by any user in the tenant. "+
				"You may have sent your authentication request to the wrong tenant.", id, s.config.TenantID), 700016))
		return
	}
	entry.Principal = id
	if assertion := form.Get("client_assertion"); assertion != "" {
		if bad := s.checkAssertion(assertion); bad != nil {
			writeLogin(w, http.StatusUnauthorized, loginError("invalid_client", bad.description(), bad.code))
			return
		}
	} else if subtle.ConstantTimeCompare([]byte(form.Get("client_secret")), []byte(s.config.ClientSecret)) != 1 {
		writeLogin(w, http.StatusUnauthorized, loginError("invalid_client", fmt.Sprintf(
			"AADSTS7000215: Invalid client secret provided. Ensure the secret being sent in the request is the client secret value, "+
				"not the client secret ID, for a secret added to app '%s'.", id), 7000215))
		return
	}
	audience := form.Get("resource")
	for _, scope := range strings.Fields(form.Get("scope")) {
		if rest, found := strings.CutSuffix(scope, "/.default"); found {
			audience = rest
		}
	}
	if audience == "" {
		writeLogin(w, http.StatusBadRequest, loginError("invalid_scope",
			fmt.Sprintf("AADSTS1002012: The provided value for scope %s is not valid. "+
				"Client credential flows must have a scope value with /.default suffixed to the resource identifier.",
				form.Get("scope")), 1002012))
		return
	}
	token, expires := s.issue(id, audience, r.Host)
	seconds := int(time.Until(expires).Seconds())
	writeLogin(w, http.StatusOK, object{"token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds,
		"expires_on": strconv.FormatInt(expires.Unix(), 10), "resource": audience, "access_token": token})
}
