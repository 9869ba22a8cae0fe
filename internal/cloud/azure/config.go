package azure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// Config is the input of New. LoadConfig returns a Config; tests may fill the fields.
type Config struct {
	// Cloud is the target of requests; the zero value is Azure's public cloud.
	Cloud azcloud.Configuration
	// Credential authenticates requests.
	Credential azcore.TokenCredential
	// Source describes the chosen credential and cloud for logs, without secrets.
	Source string
	// SubscriptionID and ResourceGroup of the cluster, from azure.json or AZURE_SUBSCRIPTION_ID; may be empty. Requests
	// use the IDs from provider IDs.
	SubscriptionID, ResourceGroup string
	// Transport sends requests; nil means the SDK's transport.
	Transport policy.Transporter
	// OnRequest, if set, is called after each answer, including retries: HTTP method, status (0 without an answer), and
	// whether Azure throttled the request. OnRequest must be fast and safe for concurrent use.
	OnRequest func(method string, status int, throttled bool)
}

// LoadOptions are the sources of a configuration.
type LoadOptions struct {
	// AzureJSON is the path of a cluster node's azure.json, such as /etc/kubernetes/azure.json. Empty means the
	// environment.
	AzureJSON string
	// Credential is a value of Credentials, and no other credential is used. Empty means the first complete credential.
	Credential string
	// Getenv reads an environment variable; nil means os.Getenv.
	Getenv func(string) string
	// ReadFile reads a file; nil means os.ReadFile.
	ReadFile func(string) ([]byte, error)
	// Transport sends token requests and other requests; nil means the SDK's transport.
	Transport policy.Transporter
}

type loader struct{ LoadOptions }

// clusterFile holds the used fields of azure.json. Source: the configuration of the Kubernetes cloud provider for Azure.
type clusterFile struct {
	Cloud                  string `json:"cloud"`
	TenantID               string `json:"tenantId"`
	SubscriptionID         string `json:"subscriptionId"`
	ResourceGroup          string `json:"resourceGroup"`
	ClientID               string `json:"aadClientId"`
	ClientSecret           string `json:"aadClientSecret"`
	ClientCertPath         string `json:"aadClientCertPath"`
	ClientCertPassword     string `json:"aadClientCertPassword"`
	UseManagedIdentity     bool   `json:"useManagedIdentityExtension"`
	UserAssignedIdentityID string `json:"userAssignedIdentityID"`
	UseFederatedToken      bool   `json:"useFederatedWorkloadIdentityExtension"`
	FederatedTokenFile     string `json:"aadFederatedTokenFile"`
	IdentitySystem         string `json:"identitySystem"`
}

// LoadConfig finds cloud and credential in azure.json if named, else in the environment, in the order of the switch. LoadConfig
// does no network I/O. Files are read again at each use, so a renewed credential is used at once.
func LoadConfig(options LoadOptions) (Config, error) {
	if options.Getenv == nil {
		options.Getenv = os.Getenv
	}
	if options.ReadFile == nil {
		options.ReadFile = os.ReadFile
	}
	var config Config
	credential, err := newReloadingCredential(options.ReadFile, func(read func(string) ([]byte, error)) (azcore.TokenCredential, error) {
		l := loader{options}
		l.ReadFile = read
		found, err := l.config()
		if err == nil && config.Credential == nil {
			config = found
		}
		return found.Credential, err
	})
	if err != nil {
		return Config{}, err
	}
	config.Credential = credential
	return config, nil
}

// config reads files and environment.
func (l loader) config() (Config, error) {
	switch {
	case l.Credential != "" && !slices.Contains(Credentials(), l.Credential):
		return Config{}, fmt.Errorf("unknown credential %q: choose %s", l.Credential, strings.Join(Credentials(), ", "))
	case l.Credential == credentialFile && l.AzureJSON == "":
		return Config{}, errors.New("the credential file needs an azure.json: name the file with --cloud-config")
	case l.Credential != "" && l.Credential != credentialFile && l.AzureJSON != "":
		return Config{}, fmt.Errorf("the credential %s conflicts with the credential of %s: remove --azure-credential or --cloud-config",
			l.Credential, l.AzureJSON)
	case l.AzureJSON != "":
		return l.fromFile(l.AzureJSON)
	}
	return l.fromEnvironment()
}

func (l loader) fromFile(path string) (Config, error) {
	data, err := l.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, fmt.Errorf("%s does not exist: name the azure.json of a cluster node, or remove --cloud-config to use the environment", path)
	}
	if err != nil {
		return Config{}, fmt.Errorf("the cluster's Azure configuration cannot be read: %w", err)
	}
	var file clusterFile
	if err := json.Unmarshal(data, &file); err != nil {
		return Config{}, fmt.Errorf("%s is not an azure.json: %s", path, jsonProblem(err))
	}
	name, namer := file.Cloud, path
	if chosen := l.Getenv("AZURE_ENVIRONMENT"); chosen != "" {
		name, namer = chosen, "AZURE_ENVIRONMENT"
	}
	to, err := l.resolveCloud(name, namer, path)
	if err != nil {
		return Config{}, err
	}
	if strings.EqualFold(file.IdentitySystem, "adfs") {
		file.TenantID = "adfs"
	}
	credential, kind, err := l.credentialOfFile(file, to, path)
	if err != nil {
		return Config{}, err
	}
	return l.configOf(to, file.TenantID, credential, kind+" of "+path, file.SubscriptionID, file.ResourceGroup), nil
}

func (l loader) fromEnvironment() (Config, error) {
	to, err := l.resolveCloud(l.Getenv("AZURE_ENVIRONMENT"), "AZURE_ENVIRONMENT", "")
	if err != nil {
		return Config{}, err
	}
	credential, kind, err := l.credentialOfEnvironment(to)
	if err != nil {
		return Config{}, err
	}
	return l.configOf(to, l.Getenv("AZURE_TENANT_ID"), credential, kind, l.Getenv("AZURE_SUBSCRIPTION_ID"), ""), nil
}

func (l loader) configOf(to target, tenant string, credential azcore.TokenCredential, source, subscription, group string) Config {
	return Config{
		Cloud:          to.forTenant(tenant).config,
		Credential:     credential,
		Source:         source + ", cloud " + to.name,
		SubscriptionID: subscription,
		ResourceGroup:  group,
		Transport:      l.Transport,
	}
}

// jsonProblem describes a JSON error without quoting the file, which may contain a secret.
func jsonProblem(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("invalid JSON near byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Sprintf("field %s has the wrong type", kind.Field)
	default:
		return "invalid JSON"
	}
}
