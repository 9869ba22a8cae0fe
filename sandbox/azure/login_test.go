package azure

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

func TestWrongSecret(t *testing.T) {
	c := newCloud(t, nil)
	_, err := c.clients(t, "wrong").NewGalleriesClient().Get(t.Context(), testGroup, testGallery, nil)
	if err == nil || !strings.Contains(err.Error(), "AADSTS7000215: Invalid client secret provided") {
		t.Errorf("error is %v", err)
	}
}

func TestADFSAndTenantEndpointsForAz(t *testing.T) {
	c := newCloud(t, nil)
	for _, path := range []string{"/adfs", "/" + testTenant + "/v2.0"} {
		resp, doc := c.raw(t, "", "GET", path+"/.well-known/openid-configuration", "")
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("discovery of %s answered %d", path, resp.StatusCode)
		}
		endpoint, err := url.Parse(text(doc, "token_endpoint"))
		if err != nil {
			t.Fatal(err)
		}
		form := url.Values{"grant_type": {"client_credentials"}, "client_id": {testClient}, "client_secret": {c.config.ClientSecret}, "resource": {c.web.URL}}
		answer, err := c.web.Client().PostForm(c.web.URL+endpoint.Path, form)
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s answered %d, want a token", endpoint.Path, answer.StatusCode)
		}
		_ = answer.Body.Close()
	}
	resp, doc := c.raw(t, "", "GET", "/metadata/endpoints?api-version=2015-01-01", "")
	if resp.StatusCode != http.StatusOK || !strings.HasSuffix(text(doc, "authentication", "loginEndpoint"), "/adfs") {
		t.Errorf("endpoints are %d %v", resp.StatusCode, doc)
	}
	resp, doc = c.raw(t, "", "GET", "/elsewhere/v2.0/.well-known/openid-configuration", "")
	if resp.StatusCode != http.StatusBadRequest || text(doc, "error") != "invalid_tenant" {
		t.Errorf("an unknown tenant gets %d %v", resp.StatusCode, doc)
	}
}

func TestBearerIsChecked(t *testing.T) {
	c := newCloud(t, func(c *Config) { c.TokenLifetime = time.Nanosecond })
	path := "/subscriptions/" + testSubscription + "/resourcegroups/" + testGroup + "?api-version=2024-11-01"
	expired := c.token(t)
	other := newCloud(t, nil).token(t)
	for _, refused := range []struct{ why, token, code string }{
		{"no token", "", "AuthenticationFailed"}, {"no JWT", "x", "InvalidAuthenticationToken"},
		{"another key", other, "InvalidAuthenticationToken"}, {"expired", expired, "ExpiredAuthenticationToken"},
	} {
		resp, doc := c.raw(t, refused.token, "GET", path, "")
		if resp.StatusCode != http.StatusUnauthorized || text(doc, "error", "code") != refused.code {
			t.Errorf("%s: %d %v, want 401 %s", refused.why, resp.StatusCode, doc, refused.code)
		}
		if resp.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: there is no challenge", refused.why)
		}
	}
}

// jwt signs claims with either kind of key.
func jwt(t *testing.T, key crypto.Signer, claims object) string {
	t.Helper()
	alg := "RS256"
	if _, isEC := key.(*ecdsa.PrivateKey); isEC {
		alg = "ES256"
	}
	data, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	body := b64.EncodeToString([]byte(`{"alg":"`+alg+`"}`)) + "." + b64.EncodeToString(data)
	sum := sha256.Sum256([]byte(body))
	var signature []byte
	if ec, isEC := key.(*ecdsa.PrivateKey); isEC {
		r, s, err := ecdsa.Sign(rand.Reader, ec, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		signature = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	} else if signature, err = key.Sign(rand.Reader, sum[:], crypto.SHA256); err != nil {
		t.Fatal(err)
	}
	return body + "." + b64.EncodeToString(signature)
}

func TestWorkloadIdentity(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "issuer.pem")
	var keys []byte
	for _, key := range []crypto.Signer{rsaKey, ecKey} {
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)
	}
	if err := os.WriteFile(file, keys, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCloud(t, func(c *Config) {
		c.Federated = []Federation{{Issuer: "https://issuer", Subject: "system:serviceaccount:kamino-system:kamino", KeyFile: file}}
	})
	good := object{"iss": "https://issuer", "sub": "system:serviceaccount:kamino-system:kamino", "aud": []any{"api://AzureADTokenExchange"},
		"exp": time.Now().Unix() + 600}
	for _, try := range []struct {
		why   string
		key   crypto.Signer
		patch object
		says  string
	}{
		{"RSA", rsaKey, nil, ""}, {"ECDSA", ecKey, nil, ""}, {"a stranger's key", stranger, nil, "AADSTS700027"},
		{"another subject", rsaKey, object{"sub": "x"}, "AADSTS700211"}, {"another audience", rsaKey, object{"aud": "x"}, "AADSTS700212"},
		{"expired", rsaKey, object{"exp": 1.0}, "AADSTS700024"},
	} {
		tokenFile := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(tokenFile, []byte(jwt(t, try.key, mergePatch(good, try.patch))), 0o600); err != nil {
			t.Fatal(err)
		}
		credential, err := azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: c.options(),
			ClientID: testClient, TenantID: testTenant, TokenFilePath: tokenFile, DisableInstanceDiscovery: true})
		if err != nil {
			t.Fatal(err)
		}
		_, err = credential.GetToken(t.Context(), scopeOf(c.web.URL))
		if try.says == "" && err != nil || try.says != "" && (err == nil || !strings.Contains(err.Error(), try.says)) {
			t.Errorf("%s: error is %v, want %q", try.why, err, try.says)
		}
	}
}

func scopeOf(resource string) policy.TokenRequestOptions {
	return policy.TokenRequestOptions{Scopes: []string{resource + "/.default"}}
}

func TestManagedIdentity(t *testing.T) {
	user := Identity{ClientID: newUUID(), ObjectID: newUUID(),
		ResourceID: "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/u"}
	c := newCloud(t, func(c *Config) { c.SystemIdentity, c.UserIdentities = newUUID(), []Identity{user} })
	web := httptest.NewServer(c.IdentityHandler())
	defer web.Close()
	t.Setenv("IDENTITY_ENDPOINT", web.URL+"/msi/token")
	t.Setenv("IDENTITY_HEADER", c.config.IdentityHeader)
	for name, try := range map[string]struct {
		id   azidentity.ManagedIDKind
		want string
	}{
		"system": {nil, c.config.SystemIdentity}, "user by client ID": {azidentity.ClientID(user.ClientID), user.ClientID},
		"user by resource ID": {azidentity.ResourceID(user.ResourceID), user.ClientID}, "unknown": {azidentity.ClientID(newUUID()), ""},
	} {
		credential, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{ID: try.id})
		if err != nil {
			t.Fatal(err)
		}
		token, err := credential.GetToken(t.Context(), scopeOf(c.web.URL))
		if try.want == "" {
			if err == nil {
				t.Errorf("%s: there is a token", name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if claims, valid := c.front.logins.signer.verify(token.Token); !valid || claims.ClientID != try.want {
			t.Errorf("%s: the token is for %s, want %s", name, claims.ClientID, try.want)
		}
	}
	resp, err := http.Get(web.URL + "/msi/token?api-version=2019-08-01&resource=x")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the header the endpoint answers %d, want 401", resp.StatusCode)
	}
}
