package azure

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// setting is the environment that LoadConfig reads.
type setting struct {
	env   map[string]string
	files map[string]string
}

func (s setting) load(path string, transport http.RoundTripper) (Config, error) {
	options := LoadOptions{
		AzureJSON: path,
		Getenv:    func(name string) string { return s.env[name] },
		ReadFile: func(path string) ([]byte, error) {
			if text, ok := s.files[path]; ok {
				return []byte(text), nil
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
	}
	if transport != nil {
		options.Transport = &http.Client{Transport: transport}
	}
	return LoadConfig(options)
}

const customCloudFile = `{"name": "AzureStackCloud", "resourceManagerEndpoint": "https://arm.local:8443/",
	"activeDirectoryEndpoint": "https://login.local:8443/", "serviceManagementEndpoint": "https://management.local/", "tokenAudience": "https://audience.local/"}`

func TestLoadConfig(t *testing.T) {
	secret := rand.Text()
	for _, test := range []struct {
		name, path string
		setting    setting
		source     string
	}{
		{name: "service principal of azure.json", path: "/k/azure.json", source: "service principal of /k/azure.json, cloud AzurePublicCloud",
			setting: setting{files: map[string]string{"/k/azure.json": `{"cloud": "AzurePublicCloud", "tenantId": "t", "aadClientId": "c", "aadClientSecret": "` + secret + `"}`}}},
		{name: "managed identity of azure.json", path: "/k/azure.json", source: "managed identity of /k/azure.json, cloud AzureUSGovernmentCloud",
			setting: setting{files: map[string]string{"/k/azure.json": `{"cloud": "AzureUSGovernmentCloud", "aadClientId": "msi", "aadClientSecret": "msi", "userAssignedIdentityID": "u"}`}}},
		{name: "managed identity by flag", path: "/k/azure.json", source: "managed identity of /k/azure.json, cloud AzureChinaCloud",
			setting: setting{files: map[string]string{"/k/azure.json": `{"cloud": "AzureChinaCloud", "useManagedIdentityExtension": true, "userAssignedIdentityID": "/subscriptions/s/x"}`}}},
		{name: "workload identity of azure.json", path: "/k/azure.json", source: "workload identity of /k/azure.json, cloud AzurePublicCloud",
			setting: setting{files: map[string]string{"/token": "x",
				"/k/azure.json": `{"tenantId": "t", "aadClientId": "c", "useFederatedWorkloadIdentityExtension": true, "aadFederatedTokenFile": "/token"}`}}},
		{name: "custom cloud beside azure.json", path: "/k/azure.json", source: "service principal of /k/azure.json, cloud AzureStackCloud",
			setting: setting{files: map[string]string{"/k/azurestackcloud.json": customCloudFile,
				"/k/azure.json": `{"cloud": "AzureStackCloud", "tenantId": "t", "aadClientId": "c", "aadClientSecret": "` + secret + `"}`}}},
		{name: "service principal of the environment", source: "service principal of the environment, cloud AzurePublicCloud",
			setting: setting{env: map[string]string{"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": secret}}},
		{name: "workload identity of the environment", source: "workload identity of the environment, cloud AzurePublicCloud",
			setting: setting{files: map[string]string{"/token": "x"},
				env: map[string]string{"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_FEDERATED_TOKEN_FILE": "/token"}}},
		{name: "managed identity of the environment", source: "managed identity of the environment, cloud AzurePublicCloud",
			setting: setting{env: map[string]string{"IDENTITY_ENDPOINT": "http://127.0.0.1/x", "IDENTITY_HEADER": "h"}}},
		{name: "the machine", source: "managed identity of the VM or the `az` login, cloud AzurePublicCloud"},
		{name: "custom cloud of the environment", source: "service principal of the environment, cloud AzureStackCloud",
			setting: setting{files: map[string]string{"/c.json": customCloudFile}, env: map[string]string{"AZURE_ENVIRONMENT": "AzureStackCloud",
				"AZURE_ENVIRONMENT_FILEPATH": "/c.json", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": secret}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config, err := test.setting.load(test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if config.Source != test.source {
				t.Errorf("source %q, want %q", config.Source, test.source)
			}
			if _, err := New(t.Context(), config); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLoadConfigErrors(t *testing.T) {
	secret := rand.Text()
	full := map[string]string{"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": secret}
	with := func(more ...string) map[string]string {
		out := map[string]string{}
		for name, text := range full {
			out[name] = text
		}
		for i := 0; i+1 < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	file := func(text string) setting {
		return setting{files: map[string]string{"/k/azure.json": text}}
	}
	for _, test := range []struct {
		name, path string
		setting    setting
		says       []string
	}{
		{name: "no such file", path: "/k/none.json", says: []string{"/k/none.json", "remove --cloud-config"}},
		{name: "no JSON", path: "/k/azure.json", setting: file(`{"aadClientSecret": "` + secret + `",`), says: []string{"/k/azure.json", "invalid JSON"}},
		{name: "wrong type", path: "/k/azure.json", setting: file(`{"aadClientSecret": "` + secret + `", "tenantId": 5}`), says: []string{"field tenantId"}},
		{name: "no client", path: "/k/azure.json", setting: file(`{"tenantId": "t", "aadClientSecret": "` + secret + `"}`), says: []string{"aadClientId"}},
		{name: "no secret", path: "/k/azure.json", setting: file(`{"tenantId": "t", "aadClientId": "c"}`),
			says: []string{"aadClientSecret", "aadClientCertPath"}},
		{name: "no certificate", path: "/k/azure.json", setting: file(`{"tenantId": "t", "aadClientId": "c", "aadClientCertPath": "c.pem"}`),
			says: []string{"/k/c.pem"}},
		{name: "bad tenant", path: "/k/azure.json", setting: file(`{"tenantId": "not a tenant", "aadClientId": "c", "aadClientSecret": "` + secret + `"}`),
			says: []string{"/k/azure.json"}},
		{name: "unknown cloud", path: "/k/azure.json", setting: file(`{"cloud": "AzureGermanCloud"}`),
			says: []string{"/k/azure.json", "AzureGermanCloud", "AzureChinaCloud"}},
		{name: "custom cloud without its file", path: "/k/azure.json", setting: file(`{"cloud": "AzureStackCloud"}`),
			says: []string{"/k/azurestackcloud.json"}},
		{name: "custom cloud of nowhere", setting: setting{env: with("AZURE_ENVIRONMENT", "AzureStackCloud")}, says: []string{"AZURE_ENVIRONMENT_FILEPATH"}},
		{name: "custom cloud over HTTP", setting: setting{env: with("AZURE_ENVIRONMENT", "AzureStackCloud", "AZURE_ENVIRONMENT_FILEPATH", "/c"),
			files: map[string]string{"/c": `{"resourceManagerEndpoint": "http://a", "activeDirectoryEndpoint": "https://b"}`}},
			says: []string{"/c", "HTTPS", "http://a"}},
		{name: "custom cloud without endpoints", setting: setting{env: with("AZURE_ENVIRONMENT", "AzureStackCloud", "AZURE_ENVIRONMENT_FILEPATH", "/c"),
			files: map[string]string{"/c": `{}`}}, says: []string{"/c", "resourceManagerEndpoint"}},
		{name: "secret alone", setting: setting{env: map[string]string{"AZURE_CLIENT_SECRET": secret}},
			says: []string{"AZURE_CLIENT_SECRET is set", "AZURE_TENANT_ID and AZURE_CLIENT_ID"}},
		{name: "token file alone", setting: setting{env: map[string]string{"AZURE_FEDERATED_TOKEN_FILE": "/t"}},
			says: []string{"AZURE_TENANT_ID and AZURE_CLIENT_ID"}},
		{name: "token file gone",
			setting: setting{env: map[string]string{"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_FEDERATED_TOKEN_FILE": "/t"}},
			says:    []string{"AZURE_FEDERATED_TOKEN_FILE", "/t"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.setting.load(test.path, nil)
			if err == nil {
				t.Fatal("no error")
			}
			for _, text := range test.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error holds the secret: %q", err)
			}
		})
	}
}

func TestCustomCloud(t *testing.T) {
	s := setting{files: map[string]string{"/k/azurestackcloud.json": customCloudFile,
		"/k/azure.json": `{"cloud": "AzureStackCloud", "tenantId": "t", "subscriptionId": "s", "resourceGroup": "g", "aadClientId": "msi"}`}}
	config, err := s.load("/k/azure.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	service := config.Cloud.Services[azcloud.ResourceManager]
	if service.Endpoint != "https://arm.local:8443" || service.Audience != "https://audience.local/" ||
		config.Cloud.ActiveDirectoryAuthorityHost != "https://login.local:8443/" {
		t.Errorf("cloud %+v", config.Cloud)
	}
	if config.SubscriptionID != "s" || config.ResourceGroup != "g" {
		t.Errorf("subscription %q, group %q", config.SubscriptionID, config.ResourceGroup)
	}
}

func TestADFSAuthority(t *testing.T) {
	for _, endpoint := range []string{"https://login.local/adfs", "https://login.local/adfs/", "https://login.local/"} {
		to := target{custom: true, config: azcloud.Configuration{ActiveDirectoryAuthorityHost: endpoint}}
		if got := to.forTenant("adfs").config.ActiveDirectoryAuthorityHost; got != "https://login.local/" {
			t.Errorf("%s: %s", endpoint, got)
		}
		if to.skipsDiscovery("ADFS") || !to.skipsDiscovery("t") {
			t.Error("discovery is skipped for custom clouds, and never asked for by AD FS")
		}
	}
}

// entra returns one error to all token requests.
type entra struct {
	t      *testing.T
	status int
	body   string
	saw    *string
}

func (e entra) RoundTrip(request *http.Request) (*http.Response, error) {
	body := e.body
	status := e.status
	if strings.HasSuffix(request.URL.Path, "openid-configuration") {
		host := "https://" + request.URL.Host + "/t"
		document, err := json.Marshal(map[string]string{"issuer": host + "/v2.0", "token_endpoint": host + "/oauth2/v2.0/token",
			"authorization_endpoint": host + "/oauth2/v2.0/authorize"})
		if err != nil {
			return nil, err
		}
		status, body = 200, string(document)
	} else if request.Body != nil {
		form, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		*e.saw = string(form)
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: request}, nil
}

func TestTokenErrors(t *testing.T) {
	secret := rand.Text()
	s := setting{files: map[string]string{"/c": customCloudFile},
		env: map[string]string{"AZURE_ENVIRONMENT": "AzureStackCloud", "AZURE_ENVIRONMENT_FILEPATH": "/c",
			"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": secret}}
	description := func(text string) string {
		return fmt.Sprintf(`{"error": "invalid_client", "error_description": %q, "error_codes": [1]}`, text)
	}
	for _, test := range []struct {
		name, body string
		status     int
		kind       cloud.Kind
		says       string
	}{
		{"wrong secret", description("AADSTS7000215: Invalid client secret provided. Trace ID: 1"), 401, cloud.Unauthenticated, "the client secret is wrong"},
		{"expired secret", description("AADSTS7000222: The provided client secret keys are expired."), 401, cloud.Unauthenticated, "has expired"},
		{"unknown application", description("AADSTS700016: Application with identifier 'c' was not found."), 400, cloud.Unauthenticated,
			"the tenant does not know the application"},
		{"another reason", description("AADSTS50000: There was an error. Trace ID: 1 Correlation ID: 2"), 400, cloud.Unauthenticated,
			"AADSTS50000: There was an error."},
	} {
		t.Run(test.name, func(t *testing.T) {
			var form string
			transport := entra{t: t, status: test.status, body: test.body, saw: &form}
			config, err := s.load("", transport)
			if err != nil {
				t.Fatal(err)
			}
			p, err := New(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Pool(t.Context(), testPool)
			e := mustKind(t, err, test.kind)
			if !strings.Contains(e.Message, test.says) || strings.Contains(e.Message, "Trace ID") {
				t.Errorf("message %q does not say %q", e.Message, test.says)
			}
			if !strings.Contains(form, secret) {
				t.Error("the secret was not sent to the token endpoint: the test proves nothing")
			}
			if strings.Contains(e.Error(), secret) {
				t.Errorf("the error holds the secret: %s", e)
			}
		})
	}
}
