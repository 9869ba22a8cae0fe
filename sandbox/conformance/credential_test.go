package conformance

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/azure"
	simulator "github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

// clusterFile writes azure.json and the file of the custom cloud, as on a cluster node.
func (w *cloudEnv) clusterFile(fields map[string]any) string {
	w.t.Helper()
	dir := w.t.TempDir()
	beside, err := os.ReadFile(w.environment(w.secret)["AZURE_ENVIRONMENT_FILEPATH"])
	w.must(err)
	w.must(os.WriteFile(filepath.Join(dir, "azurestackcloud.json"), beside, 0o600))
	content := map[string]any{"cloud": "AzureStackCloud", "tenantId": tenant, "subscriptionId": subscription, "resourceGroup": group, "location": location}
	for name, field := range fields {
		content[name] = field
	}
	path := filepath.Join(dir, "azure.json")
	w.write(path, content)
	return path
}

func (w *cloudEnv) wantPool(p cloud.Provider) {
	w.t.Helper()
	if pool, err := p.Pool(w.t.Context(), w.pool); err != nil || pool.Capacity != 2 {
		w.t.Errorf("got %+v, %v", pool, err)
	}
}

func empty(string) string { return "" }

func TestServicePrincipalOfAzureJSON(t *testing.T) {
	w := newCloudEnv(t, options{})
	path := w.clusterFile(map[string]any{"aadClientId": client, "aadClientSecret": w.secret})
	w.wantPool(w.load(provider.LoadOptions{AzureJSON: path, Getenv: empty}))
}

func TestManagedIdentity(t *testing.T) {
	const system, user = "5e1f0000-0000-0000-0000-000000000001", "5e1f0000-0000-0000-0000-000000000002"
	header := rand.Text()
	w := newCloudEnv(t, options{config: func(c *simulator.Config) {
		c.IdentityHeader, c.SystemIdentity = header, system
		c.UserIdentities = []simulator.Identity{{ClientID: user, ResourceID: "/subscriptions/" + subscription + "/x", ObjectID: "o"}}
	}})
	endpoint := httptest.NewServer(w.cloud.IdentityHandler())
	t.Cleanup(endpoint.Close)
	// The identity library reads both variables from the environment of the process.
	t.Setenv("IDENTITY_ENDPOINT", endpoint.URL+"/msi/token")
	t.Setenv("IDENTITY_HEADER", header)
	for name, fields := range map[string]map[string]any{
		"system-assigned":    {"aadClientId": "msi", "aadClientSecret": "msi"},
		"user-assigned":      {"aadClientId": "msi", "userAssignedIdentityID": user},
		"by the other field": {"useManagedIdentityExtension": true, "userAssignedIdentityID": user},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.wantPool(w.load(provider.LoadOptions{AzureJSON: w.clusterFile(fields), Getenv: empty}))
		})
	}
	w.t = t
	env := w.environment("")
	delete(env, "AZURE_CLIENT_SECRET")
	env["AZURE_CLIENT_ID"], env["IDENTITY_ENDPOINT"] = user, endpoint.URL
	w.wantPool(w.connect(env))
}

func TestWorkloadIdentity(t *testing.T) {
	const issuer, subject = "https://issuer.local/", "system:serviceaccount:kamino-system:kamino"
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(t.TempDir(), "issuer.pem")
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newCloudEnv(t, options{config: func(c *simulator.Config) {
		c.Federated = []simulator.Federation{{Issuer: issuer, Subject: subject, KeyFile: keyFile}}
	}})
	assertion := func(subject string) map[string]string {
		w.t.Helper()
		claims := map[string]any{"iss": issuer, "sub": subject, "aud": "api://AzureADTokenExchange", "exp": time.Now().Add(time.Hour).Unix()}
		path := filepath.Join(w.t.TempDir(), "token")
		w.must(os.WriteFile(path, []byte(w.sign(key, claims)), 0o600))
		env := w.environment("")
		delete(env, "AZURE_CLIENT_SECRET")
		env["AZURE_FEDERATED_TOKEN_FILE"] = path
		return env
	}
	w.wantPool(w.connect(assertion(subject)))
	_, err = w.connect(assertion("system:serviceaccount:other:other")).Pool(t.Context(), w.pool)
	w.wantError(err, cloud.Unauthenticated, "no federated identity credential matches")
}

// sign makes a JSON web token.
func (w *cloudEnv) sign(key *rsa.PrivateKey, claims map[string]any) string {
	w.t.Helper()
	part := func(content any) string {
		data, err := json.Marshal(content)
		w.must(err)
		return base64.RawURLEncoding.EncodeToString(data)
	}
	signed := part(map[string]string{"alg": "RS256", "typ": "JWT"}) + "." + part(claims)
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	w.must(err)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestBadCredentials(t *testing.T) {
	w := newCloudEnv(t, options{})
	look := func(change func(map[string]string)) error {
		w.t.Helper()
		env := w.environment(w.secret)
		change(env)
		_, err := w.connect(env).Pool(t.Context(), w.pool)
		return err
	}
	w.wantError(look(func(env map[string]string) { env["AZURE_CLIENT_SECRET"] = rand.Text() }), cloud.Unauthenticated, "AADSTS7000215",
		"the client secret is wrong")
	w.wantError(look(func(env map[string]string) { env["AZURE_CLIENT_ID"] = "nobody" }), cloud.Unauthenticated, "the tenant does not know the application")
	w.wantError(look(func(env map[string]string) { env["AZURE_TENANT_ID"] = "99999999-0000-0000-0000-00000000dead" }), cloud.Unauthenticated, "tenant")
}

func TestExpiredToken(t *testing.T) {
	w := newCloudEnv(t, options{})
	w.fault(fault.Fault{Method: http.MethodGet, Resource: "pool", Status: http.StatusUnauthorized})
	_, err := w.p.Pool(t.Context(), w.pool)
	w.wantError(err, cloud.Unauthenticated, "ExpiredAuthenticationToken", "this machine's clock")
}

func TestUnreachable(t *testing.T) {
	w := newCloudEnv(t, options{})
	w.wantPool(w.p)
	w.web.Close()
	_, err := w.p.Pool(t.Context(), w.pool)
	w.wantError(err, cloud.Unavailable, "cannot be reached", strings.TrimPrefix(w.web.URL, "https://"))
	_, err = w.connect(w.environment(w.secret)).Pool(t.Context(), w.pool)
	w.wantError(err, cloud.Unavailable)
}

func TestUntrustedCertificate(t *testing.T) {
	w := newCloudEnv(t, options{})
	env := w.environment(w.secret)
	config, err := provider.LoadConfig(provider.LoadOptions{Getenv: func(name string) string { return env[name] }, Transport: &http.Client{}})
	w.must(err)
	p, err := provider.New(t.Context(), config)
	w.must(err)
	_, err = p.Pool(t.Context(), w.pool)
	w.wantError(err, cloud.Unavailable, "certificate")
}
