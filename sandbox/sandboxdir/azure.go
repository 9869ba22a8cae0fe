package sandboxdir

import (
	"fmt"
	"strings"
)

// Names of the files for clients of Azure.
const (
	IdentityEnvFile = "env-managed-identity"
	ClusterFile     = "azure.json"
	CloudFile       = "azurestackcloud.json"
	AzFile          = "az.sh"
)

// Audience is the audience of tokens for the simulated Resource Manager.
func (v Servers) Audience() string { return v.Cloud + "/" }

func (s *Directory) azureFiles(v Servers) ([]file, error) {
	cluster, err := s.clusterFile()
	if err != nil {
		return nil, err
	}
	cloud, err := cloudFile(v)
	return []file{
		{IdentityEnvFile, s.identityFile(v), 0o600},
		{ClusterFile, cluster, 0o600},
		{CloudFile, cloud, 0o644},
		{AzFile, s.azFile(v), 0o700},
		{ValuesFile, s.azureValues(), 0o644},
	}, err
}

// azureEnvironment holds the variables for Kamino and the Azure SDK's environment credential.
func (s *Directory) azureEnvironment(v Servers) []Variable {
	return []Variable{
		{"SSL_CERT_FILE", s.Path(CAFile)},
		{"AZURE_TENANT_ID", s.TenantID},
		{"AZURE_CLIENT_ID", s.ClientID},
		{"AZURE_CLIENT_SECRET", s.ClientSecret},
		{"AZURE_SUBSCRIPTION_ID", s.SubscriptionID},
		{"AZURE_ENVIRONMENT", "AzureStackCloud"},
		{"AZURE_ENVIRONMENT_FILEPATH", s.Path(CloudFile)},
		{"AZURE_AUTHORITY_HOST", v.Cloud + "/"},
	}
}

// IdentityVariables are the variables of a client on a machine with a managed identity.
func (s *Directory) IdentityVariables(v Servers) []Variable {
	return []Variable{
		{"IDENTITY_ENDPOINT", v.Identity + "/msi/token"},
		{"IDENTITY_HEADER", s.IdentityHeader},
	}
}

func (s *Directory) identityFile(v Servers) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Run this after %s: a managed identity replaces the service principal.\n", EnvFile)
	fmt.Fprintf(&b, "# AZURE_CLIENT_ID=%s selects the user-assigned identity.\n", s.UserIdentity)
	b.WriteString("unset AZURE_CLIENT_ID AZURE_CLIENT_SECRET\n")
	for _, e := range s.IdentityVariables(v) {
		fmt.Fprintf(&b, "export %s=%s\n", e.Name, quote(e.Value))
	}
	return b.String()
}

// clusterFile is azure.json, which the Kubernetes cloud provider reads on every node. Source of the keys:
// the provider's Config type.
func (s *Directory) clusterFile() (string, error) {
	primary := ""
	if len(s.Pools) > 0 {
		primary = s.Pools[0].ScaleSet()
	}
	return document(map[string]any{
		"cloud":                       "AzureStackCloud",
		"tenantId":                    s.TenantID,
		"subscriptionId":              s.SubscriptionID,
		"aadClientId":                 s.ClientID,
		"aadClientSecret":             s.ClientSecret,
		"resourceGroup":               s.ResourceGroup,
		"location":                    s.Location,
		"vmType":                      "vmss",
		"primaryScaleSetName":         primary,
		"useManagedIdentityExtension": false,
		"userAssignedIdentityID":      "",
		"useInstanceMetadata":         true,
		"loadBalancerSku":             "Standard",
	})
}

// cloudFile is azurestackcloud.json. Source of the keys: the Environment type of go-autorest.
func cloudFile(v Servers) (string, error) {
	return document(map[string]any{
		"name":                         "AzureStackCloud",
		"managementPortalURL":          v.Cloud + "/",
		"serviceManagementEndpoint":    v.Audience(),
		"resourceManagerEndpoint":      v.Cloud + "/",
		"activeDirectoryEndpoint":      v.Cloud + "/",
		"galleryEndpoint":              v.Cloud + "/",
		"graphEndpoint":                v.Cloud + "/",
		"tokenAudience":                v.Audience(),
		"storageEndpointSuffix":        "core.sandbox.invalid",
		"keyVaultDNSSuffix":            "vault.sandbox.invalid",
		"resourceManagerVMDNSSuffix":   "cloudapp.sandbox.invalid",
		"containerRegistryDNSSuffix":   "azurecr.sandbox.invalid",
		"serviceManagementVMDNSSuffix": "cloudapp.sandbox.invalid",
	})
}

// azureValues are the values of Kamino's chart here.
func (s *Directory) azureValues() string {
	return fmt.Sprintf(`# For Kamino's chart in this sandbox:  helm install kamino charts/kamino -f %[1]s …
# The Secret, of the release's namespace:
#   kubectl create secret generic %[2]s --from-file=%[3]s --from-file=%[4]s --from-file=%[5]s
azure:
  credentials:
    type: secret
    secret: {name: %[2]s}
extraEnv:
- {name: SSL_CERT_FILE, value: /etc/kamino/%[6]s}
%[7]s`, quote(s.Path(ValuesFile)), CloudSecret, quote(s.Path(ClusterFile)), quote(s.Path(CloudFile)), quote(s.Path(CAFile)), CAFile, sharedPorts)
}

// azFile registers the cloud with az. The state of az is in a separate directory, so that the user's clouds and
// logins stay unchanged. The suffix "/adfs" of an authority turns off az's comparison with public directories.
func (s *Directory) azFile(v Servers) string {
	return fmt.Sprintf(`#!/bin/sh
# Registers this sandbox with the az command (2.74 or newer) and logs it in:  . %[1]s
export AZURE_CONFIG_DIR=%[2]s
export REQUESTS_CA_BUNDLE=%[3]s
export AZURE_CORE_COLLECT_TELEMETRY=false
export AZURE_CORE_INSTANCE_DISCOVERY=false
if az cloud show --name kamino-sandbox >/dev/null 2>&1; then sandbox_verb=update; else sandbox_verb=register; fi
az cloud "$sandbox_verb" --name kamino-sandbox --profile latest \
  --endpoint-resource-manager %[4]s \
  --endpoint-management %[4]s \
  --endpoint-active-directory %[5]s \
  --endpoint-active-directory-resource-id %[6]s \
  --endpoint-active-directory-graph-resource-id %[6]s \
  --endpoint-gallery %[4]s &&
az cloud set --name kamino-sandbox &&
az login --service-principal --username %[7]s --password=%[8]s --tenant %[9]s --output none &&
az account set --subscription %[10]s
unset sandbox_verb
`,
		quote(s.Path(AzFile)), quote(s.Path("az")), quote(s.Path(CAFile)),
		quote(v.Cloud+"/"), quote(v.Cloud+"/adfs"), quote(v.Audience()),
		quote(s.ClientID), quote(s.ClientSecret), quote(s.TenantID), quote(s.SubscriptionID))
}
