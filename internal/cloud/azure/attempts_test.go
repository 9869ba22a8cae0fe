package azure

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// foreignServer answers as something else does at the address of a VM's metadata.
type foreignServer struct{}

// Do implements policy.Transporter.
func (foreignServer) Do(request *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusForbidden, Status: "403 Forbidden", Header: http.Header{}, Request: request,
		Body: http.NoBody,
	}, nil
}

// TestCredentialAttempts: if a chain fails, the error lists the result of each credential, and how to select one.
func TestCredentialAttempts(t *testing.T) {
	for _, name := range []string{
		"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "MSI_ENDPOINT",
	} {
		t.Setenv(name, "")
	}
	identity, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
		ClientOptions: azcore.ClientOptions{Transport: foreignServer{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	chain, err := azidentity.NewChainedTokenCredential([]azcore.TokenCredential{unconfigured{}, identity}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(t.Context(), Config{Credential: chain, Transport: foreignServer{}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Pool(t.Context(), testPool)
	e := mustKind(t, err, cloud.Unauthenticated)
	for _, says := range []string{"tried: WorkloadIdentityCredential", "ManagedIdentityCredential", "403", "--azure-credential=cli"} {
		if !strings.Contains(e.Message, says) {
			t.Errorf("%q does not say %q", e.Message, says)
		}
	}
	if strings.ContainsAny(e.Message, "\n\t") {
		t.Errorf("%q is not one line", e.Message)
	}
}

// unconfigured is a credential of the chain without a configuration.
type unconfigured struct{}

// GetToken implements azcore.TokenCredential.
func (unconfigured) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{}, azidentity.NewCredentialUnavailableError("WorkloadIdentityCredential: no client ID specified.")
}

// metadata has a foreign server at the metadata address, and an Azure that accepts only the token of `az`.
type metadata struct {
	arm    *fakeARM
	status int
}

// Do implements policy.Transporter.
func (m metadata) Do(request *http.Request) (*http.Response, error) {
	if request.URL.Host == "169.254.169.254" {
		return &http.Response{StatusCode: m.status, Header: http.Header{}, Request: request, Body: io.NopCloser(strings.NewReader("<html>welcome</html>"))}, nil
	}
	if request.Header.Get("Authorization") != "Bearer token-of-az" {
		m.arm.t.Errorf("%s was sent with %q", request.URL.Path, request.Header.Get("Authorization"))
	}
	return m.arm.Do(request)
}

// TestLoginWithForeignMetadata: a foreign server at the metadata address breaks neither the selected login nor the
// chain. The machine has no identity.
func TestLoginWithForeignMetadata(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\necho '{\"accessToken\": \"token-of-az\", \"expires_on\": 4102444800}'\n"
	if err := os.WriteFile(filepath.Join(bin, "az"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/bin:/usr/bin")
	for _, name := range []string{"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH",
		"AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "MSI_ENDPOINT", "AZURE_ENVIRONMENT"} {
		t.Setenv(name, "")
	}
	if value, set := os.LookupEnv("AZURE_TOKEN_CREDENTIALS"); set { // empty, it is an error
		t.Setenv("AZURE_TOKEN_CREDENTIALS", value)
		os.Unsetenv("AZURE_TOKEN_CREDENTIALS")
	}
	for _, status := range []int{200, 400, 403, 404, 500} {
		for credential, works := range map[string]bool{"": true, "managed-identity": false, "cli": true} {
			a := newARM(t)
			a.pool(`{}`)
			config, err := LoadConfig(LoadOptions{Credential: credential, Transport: metadata{a, status}})
			if err != nil {
				t.Fatal(err)
			}
			p, err := New(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Pool(t.Context(), testPool)
			if works != (err == nil) {
				t.Errorf("%d %q: %v", status, credential, err)
			}
		}
	}
}

// TestSelectedCredential: the error names the missing setting. No other credential is tried.
func TestSelectedCredential(t *testing.T) {
	complete := map[string]string{"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s", "AZURE_FEDERATED_TOKEN_FILE": "/token"}
	for _, test := range []struct {
		credential, file string
		env              map[string]string
		source, wrong    string
	}{
		{"", "", complete, "workload identity", ""},
		{"environment", "", complete, "service principal of the environment", ""},
		{"workload-identity", "", complete, "workload identity", ""},
		{"managed-identity", "", complete, "managed identity", ""},
		{"cli", "", complete, "`az` login", ""},
		{"environment", "", map[string]string{"AZURE_FEDERATED_TOKEN_FILE": "/token"}, "", "needs AZURE_CLIENT_SECRET or"},
		{"workload-identity", "", map[string]string{"AZURE_CLIENT_SECRET": "s"}, "", "needs AZURE_FEDERATED_TOKEN_FILE"},
		{"file", "", complete, "", "name the file with --cloud-config"},
		{"cli", "/azure.json", nil, "", "remove --azure-credential or --cloud-config"},
		{"password", "", nil, "", "choose environment, workload-identity, managed-identity, cli, file"},
	} {
		config, err := LoadConfig(LoadOptions{
			AzureJSON: test.file, Credential: test.credential, Getenv: func(name string) string { return test.env[name] },
			ReadFile: func(string) ([]byte, error) { return []byte("x"), nil },
		})
		switch {
		case test.wrong == "" && (err != nil || !strings.HasPrefix(config.Source, test.source)):
			t.Errorf("%q: %q, %v", test.credential, config.Source, err)
		case test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)):
			t.Errorf("%q: %v, want %q", test.credential, err, test.wrong)
		}
	}
}
