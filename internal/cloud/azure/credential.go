package azure

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// managedIdentityMark is the value of aadClientId if the cluster uses a managed identity.
const managedIdentityMark = "msi"

// Values of LoadOptions.Credential.
const (
	credentialEnvironment = "environment"
	credentialWorkload    = "workload-identity"
	credentialManaged     = "managed-identity"
	credentialCLI         = "cli"
	credentialFile        = "file"
)

// Credentials returns the values of LoadOptions.Credential: service principal of the environment, workload identity,
// managed identity, the user's `az login`, credential of an azure.json.
func Credentials() []string {
	return []string{credentialEnvironment, credentialWorkload, credentialManaged, credentialCLI, credentialFile}
}

// credentialOfFile makes the credential of azure.json and returns the kind of the credential.
func (l loader) credentialOfFile(file clusterFile, to target, path string) (azcore.TokenCredential, string, error) {
	switch {
	case file.UseManagedIdentity || strings.EqualFold(file.ClientID, managedIdentityMark):
		credential, err := l.managedIdentity(file.UserAssignedIdentityID, to)
		return credential, "managed identity", located(path, err)
	case file.UseFederatedToken:
		if file.FederatedTokenFile == "" || file.ClientID == "" || file.TenantID == "" {
			return nil, "", fmt.Errorf("%s asks for a workload identity, but lacks aadFederatedTokenFile, aadClientId or tenantId", path)
		}
		credential, err := l.workloadIdentity(file.TenantID, file.ClientID, file.FederatedTokenFile, to)
		return credential, "workload identity", located(path, err)
	case file.ClientID == "" || file.TenantID == "":
		return nil, "", fmt.Errorf("%s lacks aadClientId or tenantId: a service principal needs both, a managed identity needs aadClientId %q",
			path, managedIdentityMark)
	case file.ClientSecret != "" && !strings.EqualFold(file.ClientSecret, managedIdentityMark):
		credential, err := l.clientSecret(file.TenantID, file.ClientID, file.ClientSecret, to)
		return credential, "service principal", located(path, err)
	case file.ClientCertPath != "":
		cert := file.ClientCertPath
		if !filepath.IsAbs(cert) {
			cert = filepath.Join(filepath.Dir(path), cert)
		}
		credential, err := l.clientCertificate(file.TenantID, file.ClientID, cert, file.ClientCertPassword, to)
		return credential, "service principal with a certificate", located(path, err)
	default:
		return nil, "", fmt.Errorf("%s has neither aadClientSecret nor aadClientCertPath: set either field, or set aadClientId to %q",
			path, managedIdentityMark)
	}
}

// credentialOfEnvironment makes the credential of the environment and returns the kind of the credential.
func (l loader) credentialOfEnvironment(to target) (azcore.TokenCredential, string, error) {
	tenant, client := l.Getenv("AZURE_TENANT_ID"), l.Getenv("AZURE_CLIENT_ID")
	may := func(credential string) bool { return l.Credential == "" || l.Credential == credential }
	switch {
	case l.Credential == credentialCLI:
		credential, err := azidentity.NewAzureCLICredential(&azidentity.AzureCLICredentialOptions{TenantID: tenant})
		return credential, "`az` login", located("`az`", err)
	case l.Credential == credentialManaged:
		credential, err := l.managedIdentity(client, to)
		return credential, "managed identity", located("this machine", err)
	case may(credentialWorkload) && l.Getenv("AZURE_FEDERATED_TOKEN_FILE") != "":
		if err := l.requireVariables("AZURE_FEDERATED_TOKEN_FILE", "AZURE_TENANT_ID", "AZURE_CLIENT_ID"); err != nil {
			return nil, "", err
		}
		credential, err := l.workloadIdentity(tenant, client, l.Getenv("AZURE_FEDERATED_TOKEN_FILE"), to)
		return credential, "workload identity of the environment", located("AZURE_FEDERATED_TOKEN_FILE", err)
	case l.Credential == credentialWorkload:
		return nil, "", errors.New("the credential workload-identity needs AZURE_FEDERATED_TOKEN_FILE: check the pod's label azure.workload.identity/use")
	case l.Getenv("AZURE_CLIENT_SECRET") != "":
		if err := l.requireVariables("AZURE_CLIENT_SECRET", "AZURE_TENANT_ID", "AZURE_CLIENT_ID"); err != nil {
			return nil, "", err
		}
		credential, err := l.clientSecret(tenant, client, l.Getenv("AZURE_CLIENT_SECRET"), to)
		return credential, "service principal of the environment", located("AZURE_TENANT_ID", err)
	case l.Getenv("AZURE_CLIENT_CERTIFICATE_PATH") != "":
		if err := l.requireVariables("AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_TENANT_ID", "AZURE_CLIENT_ID"); err != nil {
			return nil, "", err
		}
		credential, err := l.clientCertificate(tenant, client, l.Getenv("AZURE_CLIENT_CERTIFICATE_PATH"), l.Getenv("AZURE_CLIENT_CERTIFICATE_PASSWORD"), to)
		return credential, "service principal with a certificate of the environment", located("AZURE_CLIENT_CERTIFICATE_PATH", err)
	case l.Credential == credentialEnvironment:
		return nil, "", errors.New("the credential environment needs AZURE_CLIENT_SECRET or AZURE_CLIENT_CERTIFICATE_PATH: set a variable")
	case l.Getenv("IDENTITY_ENDPOINT") != "" || l.Getenv("MSI_ENDPOINT") != "":
		credential, err := l.managedIdentity(client, to)
		return credential, "managed identity of the environment", located("IDENTITY_ENDPOINT", err)
	default:
		credential, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
			ClientOptions: l.identityOptions(to), TenantID: tenant, DisableInstanceDiscovery: to.skipsDiscovery(tenant),
		})
		return credential, "managed identity of the VM or the `az` login", located("the environment", err)
	}
}

// requireVariables returns an error if needed variables are missing. there is the variable that is set.
func (l loader) requireVariables(there string, needed ...string) error {
	var missing []string
	for _, name := range needed {
		if l.Getenv(name) == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s is set, but %s is not: set both, or unset %s", there, strings.Join(missing, " and "), there)
}

// identityOptions are the options of every credential. Retries are few and short, because a capture repeats the call.
func (l loader) identityOptions(to target) azcore.ClientOptions {
	return azcore.ClientOptions{
		Cloud:     to.config,
		Transport: l.Transport,
		Retry:     policy.RetryOptions{MaxRetries: maxRetries, RetryDelay: retryDelay, MaxRetryDelay: maxRetryDelay},
		Telemetry: policy.TelemetryOptions{ApplicationID: applicationID},
	}
}

func (l loader) clientSecret(tenant, client, secret string, to target) (azcore.TokenCredential, error) {
	return azidentity.NewClientSecretCredential(tenant, client, secret, &azidentity.ClientSecretCredentialOptions{
		ClientOptions: l.identityOptions(to.forTenant(tenant)), DisableInstanceDiscovery: to.skipsDiscovery(tenant),
	})
}

func (l loader) clientCertificate(tenant, client, path, password string, to target) (azcore.TokenCredential, error) {
	data, err := l.ReadFile(path)
	if err != nil {
		return nil, err
	}
	certs, key, err := azidentity.ParseCertificates(data, []byte(password))
	if err != nil {
		return nil, fmt.Errorf("%s has no certificate with a private key for the password (PEM or PKCS#12)", path)
	}
	return azidentity.NewClientCertificateCredential(tenant, client, certs, key, &azidentity.ClientCertificateCredentialOptions{
		ClientOptions: l.identityOptions(to.forTenant(tenant)), DisableInstanceDiscovery: to.skipsDiscovery(tenant),
	})
}

func (l loader) workloadIdentity(tenant, client, tokenFile string, to target) (azcore.TokenCredential, error) {
	if _, err := l.ReadFile(tokenFile); err != nil {
		return nil, fmt.Errorf("the federated token cannot be read: %w", err)
	}
	return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
		ClientOptions: l.identityOptions(to.forTenant(tenant)), DisableInstanceDiscovery: to.skipsDiscovery(tenant),
		TenantID: tenant, ClientID: client, TokenFilePath: tokenFile,
	})
}

// managedIdentity accepts a client ID, a resource ID, or an empty text for the system-assigned identity.
func (l loader) managedIdentity(id string, to target) (azcore.TokenCredential, error) {
	options := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: l.identityOptions(to)}
	switch {
	case id == "":
	case strings.HasPrefix(id, "/"):
		options.ID = azidentity.ResourceID(id)
	default:
		options.ID = azidentity.ClientID(id)
	}
	return azidentity.NewManagedIdentityCredential(options)
}

// located adds the credential's source to an error. Errors of azidentity contain no secret.
func located(where string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the credential of %s cannot be used: %w", where, err)
}
