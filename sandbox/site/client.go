package site

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// Servers are where a running sandbox answers, and what a client trusts it by.
type Servers struct {
	// Azure is the address of the simulated Resource Manager, such as "https://127.0.0.1:41000".
	Azure string
	// Identity is where managed identities get their tokens, without TLS as on a real machine.
	Identity string
	// CA is the PEM text of the authority that vouches for all servers.
	CA []byte
	// Kubeconfig of the administrator.
	Kubeconfig []byte
}

// Audience is what tokens for the simulated Resource Manager are meant for.
func (v Servers) Audience() string { return v.Azure + "/" }

// Names of the files that clients read.
const (
	KubeconfigFile  = "kubeconfig"
	CAFile          = "ca.crt"
	EnvFile         = "env"
	IdentityEnvFile = "env-managed-identity"
	ClusterFile     = "azure.json"
	CloudFile       = "azurestackcloud.json"
	AzFile          = "az.sh"
	ValuesFile      = "values.yaml"
)

// Variable is one environment variable.
type Variable struct{ Name, Value string }

// WriteClientFiles writes everything that a client needs to use the sandbox as it would use a cluster on
// Azure. Files that hold a secret can be read by their owner only.
func (s *Site) WriteClientFiles(v Servers) error {
	cluster, err := s.clusterFile()
	if err != nil {
		return err
	}
	cloud, err := cloudFile(v)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name, content string
		mode          os.FileMode
	}{
		{KubeconfigFile, string(v.Kubeconfig), 0o600},
		{CAFile, string(v.CA), 0o644},
		{EnvFile, s.envFile(v), 0o600},
		{IdentityEnvFile, s.identityFile(v), 0o600},
		{ClusterFile, cluster, 0o600},
		{CloudFile, cloud, 0o644},
		{AzFile, s.azFile(v), 0o700},
		{ValuesFile, s.valuesFile(), 0o644},
	} {
		if err := s.write(f.name, f.content, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// LinkPrograms makes the binary callable as kubectl, and under its own name, from the directory's bin.
func (s *Site) LinkPrograms(binary string, names ...string) error {
	if err := os.MkdirAll(s.Path("bin"), 0o755); err != nil {
		return err
	}
	for _, name := range names {
		link := s.Path("bin", name)
		if now, err := os.Readlink(link); err == nil && now == binary {
			continue
		}
		if err := os.RemoveAll(link); err != nil {
			return err
		}
		if err := os.Symlink(binary, link); err != nil {
			return err
		}
	}
	return nil
}

// Environment is what kubectl, Kamino and the Azure SDK's environment credential read.
func (s *Site) Environment(v Servers) []Variable {
	return []Variable{
		{"KUBECONFIG", s.Path(KubeconfigFile)},
		{"SSL_CERT_FILE", s.Path(CAFile)},
		{"AZURE_TENANT_ID", s.TenantID},
		{"AZURE_CLIENT_ID", s.ClientID},
		{"AZURE_CLIENT_SECRET", s.ClientSecret},
		{"AZURE_SUBSCRIPTION_ID", s.SubscriptionID},
		{"AZURE_ENVIRONMENT", "AzureStackCloud"},
		{"AZURE_ENVIRONMENT_FILEPATH", s.Path(CloudFile)},
		{"AZURE_AUTHORITY_HOST", v.Azure + "/"},
		{"KAMINO_SANDBOX_DIR", s.Dir},
		// A build that was published nowhere names none; whatever is behind the colon, the machines run that very build.
		{"KAMINO_IMAGE", KaminoImage + ":sandbox"},
	}
}

// KaminoImage is the prefix of the names of Kamino's own image.
const KaminoImage = "ghcr.io/kamino-dev/kamino"

func (s *Site) envFile(v Servers) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What kamino, kubectl and the Azure SDK need to use this sandbox:  . %s\n", quote(s.Path(EnvFile)))
	for _, e := range s.Environment(v) {
		fmt.Fprintf(&b, "export %s=%s\n", e.Name, quote(e.Value))
	}
	fmt.Fprintf(&b, "case \":$PATH:\" in *:%s:*) ;; *) export PATH=%s:\"$PATH\" ;; esac\n", quote(s.Path("bin")), quote(s.Path("bin")))
	return b.String()
}

// IdentityVariables are what a client on a machine with a managed identity has in place of a secret.
func (s *Site) IdentityVariables(v Servers) []Variable {
	return []Variable{
		{"IDENTITY_ENDPOINT", v.Identity + "/msi/token"},
		{"IDENTITY_HEADER", s.IdentityHeader},
	}
}

func (s *Site) identityFile(v Servers) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# After %s: a managed identity in place of the service principal.\n", EnvFile)
	fmt.Fprintf(&b, "# AZURE_CLIENT_ID=%s would ask for the user-assigned identity.\n", s.UserIdentity)
	b.WriteString("unset AZURE_CLIENT_ID AZURE_CLIENT_SECRET\n")
	for _, e := range s.IdentityVariables(v) {
		fmt.Fprintf(&b, "export %s=%s\n", e.Name, quote(e.Value))
	}
	return b.String()
}

// clusterFile is azure.json, which the Kubernetes cloud provider reads on every node. Source of the keys:
// the provider's Config type.
func (s *Site) clusterFile() (string, error) {
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
		"managementPortalURL":          v.Azure + "/",
		"serviceManagementEndpoint":    v.Audience(),
		"resourceManagerEndpoint":      v.Azure + "/",
		"activeDirectoryEndpoint":      v.Azure + "/",
		"galleryEndpoint":              v.Azure + "/",
		"graphEndpoint":                v.Azure + "/",
		"tokenAudience":                v.Audience(),
		"storageEndpointSuffix":        "core.sandbox.invalid",
		"keyVaultDNSSuffix":            "vault.sandbox.invalid",
		"resourceManagerVMDNSSuffix":   "cloudapp.sandbox.invalid",
		"containerRegistryDNSSuffix":   "azurecr.sandbox.invalid",
		"serviceManagementVMDNSSuffix": "cloudapp.sandbox.invalid",
	})
}

// valuesFile is what Kamino's chart must be told here. Pods are processes of this machine and share its ports, so that no
// two replicas could listen.
func (s *Site) valuesFile() string {
	return fmt.Sprintf(`# For Kamino's chart in this sandbox:  helm install kamino charts/kamino -f %[1]s …
# The Secret, of the release's namespace:
#   kubectl create secret generic %[2]s --from-file=%[3]s --from-file=%[4]s --from-file=%[5]s
azure:
  credentials:
    type: secret
    secret: {name: %[2]s}
extraEnv:
- {name: SSL_CERT_FILE, value: /etc/kamino/%[6]s}
# Replicas share the ports of this machine, so that none may listen. A single one may: --set controller.replicas=1
# --set-json 'extraArgs=[]'
extraArgs: [--health-probe-bind-address=0, --metrics-bind-address=0]
`, quote(s.Path(ValuesFile)), CloudSecret, quote(s.Path(ClusterFile)), quote(s.Path(CloudFile)), quote(s.Path(CAFile)), CAFile)
}

// CloudSecret is the name that the chart's values know the credential's Secret by.
const CloudSecret = "kamino-cloud"

// azFile teaches az the cloud. Its state goes into a directory of its own, so that a person's clouds and
// logins stay as they are. az compares an authority with "/adfs" at its end with no public directory.
func (s *Site) azFile(v Servers) string {
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
		quote(v.Azure+"/"), quote(v.Azure+"/adfs"), quote(v.Audience()),
		quote(s.ClientID), quote(s.ClientSecret), quote(s.TenantID), quote(s.SubscriptionID))
}

func document(value any) (string, error) {
	raw, err := json.MarshalIndent(value, "", "  ")
	return string(raw) + "\n", err
}

// quote makes any text one word of a POSIX shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// SocketFile names the file that says where a running sandbox listens for orders: the socket itself lies
// elsewhere, since its path must be short.
func SocketFile(dir string) string { return filepath.Join(dir, "control") }

// Client is an HTTP client that trusts the sandbox's servers and nobody else.
func (v Servers) Client() (*http.Client, error) {
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(v.CA) {
		return nil, errors.New("the sandbox's authority has no certificate")
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}}, nil
}
