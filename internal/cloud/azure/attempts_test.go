package azure

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// stranger answers as something else does at the address of a VM's metadata.
type stranger struct{}

// Do implements policy.Transporter.
func (stranger) Do(request *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusForbidden, Status: "403 Forbidden", Header: http.Header{}, Request: request,
		Body: http.NoBody,
	}, nil
}

// TestWhichCredentialsWereTried: a chain that ends says what each of its credentials met, and how to choose one.
func TestWhichCredentialsWereTried(t *testing.T) {
	for _, name := range []string{"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "MSI_ENDPOINT"} {
		t.Setenv(name, "")
	}
	identity, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
		ClientOptions: azcore.ClientOptions{Transport: stranger{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	chain, err := azidentity.NewChainedTokenCredential([]azcore.TokenCredential{unconfigured{}, identity}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(t.Context(), Config{Credential: chain, Transport: stranger{}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Pool(t.Context(), testPool)
	e := mustKind(t, err, cloud.Unauthenticated)
	for _, says := range []string{"tried: WorkloadIdentityCredential", "ManagedIdentityCredential", "403", "AZURE_TOKEN_CREDENTIALS=AzureCLICredential"} {
		if !strings.Contains(e.Message, says) {
			t.Errorf("%q does not say %q", e.Message, says)
		}
	}
	if strings.ContainsAny(e.Message, "\n\t") {
		t.Errorf("%q is not one line", e.Message)
	}
}

// unconfigured is a credential of the chain that nothing describes.
type unconfigured struct{}

// GetToken implements azcore.TokenCredential.
func (unconfigured) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{}, azidentity.NewCredentialUnavailableError("WorkloadIdentityCredential: no client ID specified.")
}
