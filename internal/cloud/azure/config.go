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

// Config is what New needs. LoadConfig makes it; a test may fill it by hand.
type Config struct {
	// Cloud that requests go to; the zero value is Azure's public cloud.
	Cloud azcloud.Configuration
	// Credential that requests are made with.
	Credential azcore.TokenCredential
	// Source says in words which credential of which cloud was chosen, for logs. It holds no secret.
	Source string
	// SubscriptionID and ResourceGroup of the cluster, if azure.json or AZURE_SUBSCRIPTION_ID tells;
	// calls take theirs from provider IDs.
	SubscriptionID, ResourceGroup string
	// Transport that requests go through; nil is the SDK's own.
	Transport policy.Transporter
	// OnRequest, if set, is told of every request that was answered, retries included: its HTTP method,
	// the status (0 if nobody answered) and whether Azure throttled it. It must be quick and safe for
	// concurrent use.
	OnRequest func(method string, status int, throttled bool)
}

// LoadOptions says where a configuration is looked for.
type LoadOptions struct {
	// AzureJSON is the path of a cluster node's azure.json, such as /etc/kubernetes/azure.json. Empty to
	// use the environment.
	AzureJSON string
	// Credential that is used and no other: one of Credentials. The first that is complete if empty.
	Credential string
	// Getenv reads an environment variable; nil is os.Getenv.
	Getenv func(string) string
	// ReadFile reads a file; nil is os.ReadFile.
	ReadFile func(string) ([]byte, error)
	// Transport is used for tokens and requests; nil is the SDK's own.
	Transport policy.Transporter
}

type loader struct{ LoadOptions }

// clusterFile is azure.json, as far as it is needed. Source: the configuration of the Kubernetes cloud
// provider for Azure.
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

// LoadConfig finds cloud and credential: in azure.json if one is named, else in the environment, where the
// first that is complete wins: a workload identity (AZURE_FEDERATED_TOKEN_FILE), a client secret or
// certificate (AZURE_CLIENT_SECRET, AZURE_CLIENT_CERTIFICATE_PATH), a managed identity (IDENTITY_ENDPOINT),
// and at last whatever the machine offers (the identity of the VM, `az login`). AZURE_ENVIRONMENT chooses
// the cloud, for every source. It does no network I/O: whether the credential is accepted shows with the
// first request. What it read is read again with each use, and a credential that was renewed there counts
// at once; another cloud counts after a restart. Errors name the file or variable and what to do, and never hold a secret.
func LoadConfig(options LoadOptions) (Config, error) {
	if options.Getenv == nil {
		options.Getenv = os.Getenv
	}
	if options.ReadFile == nil {
		options.ReadFile = os.ReadFile
	}
	var config Config
	credential, err := newRenewed(options.ReadFile, func(read func(string) ([]byte, error)) (azcore.TokenCredential, error) {
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

// config is what the files and the environment say now.
func (l loader) config() (Config, error) {
	switch {
	case l.Credential != "" && !slices.Contains(Credentials(), l.Credential):
		return Config{}, fmt.Errorf("there is no credential %q: choose %s", l.Credential, strings.Join(Credentials(), ", "))
	case l.Credential == credentialFile && l.AzureJSON == "":
		return Config{}, errors.New("the credential is to be that of an azure.json, and none is named (--cloud-config)")
	case l.Credential != "" && l.Credential != credentialFile && l.AzureJSON != "":
		return Config{}, fmt.Errorf("the credential is to be %s, and %s names one of its own: leave one of the two out", l.Credential, l.AzureJSON)
	case l.AzureJSON != "":
		return l.fromFile(l.AzureJSON)
	}
	return l.fromEnvironment()
}

func (l loader) fromFile(path string) (Config, error) {
	data, err := l.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, fmt.Errorf("there is no %s: name the azure.json of a cluster node, or leave it out to use the environment", path)
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

// jsonProblem says what is wrong with a JSON file without quoting any of it: it may hold a secret.
func jsonProblem(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("it is not valid JSON near byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Sprintf("its field %s has the wrong type", kind.Field)
	default:
		return "it is not valid JSON"
	}
}
