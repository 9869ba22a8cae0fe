package azure

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
)

// customCloud is the name of a cloud that is described in a file, in Kubernetes and the Azure tools.
const customCloud = "AzureStackCloud"

// environmentFileVariable names the file that describes a custom cloud.
const environmentFileVariable = "AZURE_ENVIRONMENT_FILEPATH"

// target is the cloud of all requests.
type target struct {
	name   string
	config azcloud.Configuration
	custom bool
}

// environmentFile holds the used fields of azurestackcloud.json. Source: the Environment type of go-autorest, which the
// Kubernetes cloud provider reads.
type environmentFile struct {
	Name                      string `json:"name"`
	ResourceManagerEndpoint   string `json:"resourceManagerEndpoint"`
	ActiveDirectoryEndpoint   string `json:"activeDirectoryEndpoint"`
	ServiceManagementEndpoint string `json:"serviceManagementEndpoint"`
	TokenAudience             string `json:"tokenAudience"`
}

// resolveCloud finds a cloud by name; an empty name is the public cloud. The file of a custom cloud is
// AZURE_ENVIRONMENT_FILEPATH, else azurestackcloud.json next to azure.json. namer is the source of the name, for errors.
func (l loader) resolveCloud(name, namer, azureJSON string) (target, error) {
	switch strings.ToLower(name) {
	case "", "azurecloud", "azurepubliccloud", "azurepublic":
		return target{name: "AzurePublicCloud", config: azcloud.AzurePublic}, nil
	case "azureusgovernment", "azureusgovernmentcloud", "azuregovernment":
		return target{name: "AzureUSGovernmentCloud", config: azcloud.AzureGovernment}, nil
	case "azurechinacloud", "azurechina":
		return target{name: "AzureChinaCloud", config: azcloud.AzureChina}, nil
	case strings.ToLower(customCloud):
		path := l.Getenv(environmentFileVariable)
		if path == "" && azureJSON != "" {
			path = filepath.Join(filepath.Dir(azureJSON), "azurestackcloud.json")
		}
		if path == "" {
			return target{}, fmt.Errorf("%s is %s, but %s is empty: set the variable to the path of azurestackcloud.json",
				namer, customCloud, environmentFileVariable)
		}
		return l.readEnvironment(path)
	default:
		return target{}, fmt.Errorf("%s names the unknown cloud %q: use AzurePublicCloud, AzureUSGovernmentCloud, AzureChinaCloud or %s",
			namer, name, customCloud)
	}
}

func (l loader) readEnvironment(path string) (target, error) {
	data, err := l.ReadFile(path)
	if err != nil {
		return target{}, fmt.Errorf("the description of the custom cloud cannot be read: %w", err)
	}
	var file environmentFile
	if err := json.Unmarshal(data, &file); err != nil {
		return target{}, fmt.Errorf("%s is not the description of a cloud: %w", path, err)
	}
	if file.ResourceManagerEndpoint == "" || file.ActiveDirectoryEndpoint == "" {
		return target{}, fmt.Errorf("%s lacks resourceManagerEndpoint or activeDirectoryEndpoint: both must be HTTPS addresses", path)
	}
	for field, address := range map[string]string{
		"resourceManagerEndpoint": file.ResourceManagerEndpoint, "activeDirectoryEndpoint": file.ActiveDirectoryEndpoint,
	} {
		if !strings.HasPrefix(strings.ToLower(address), "https://") {
			return target{}, fmt.Errorf("%s: %s must be an HTTPS address, not %q", path, field, address)
		}
	}
	audience := file.TokenAudience
	if audience == "" {
		audience = file.ServiceManagementEndpoint
	}
	if audience == "" {
		audience = file.ResourceManagerEndpoint
	}
	return target{
		name:   customCloud,
		custom: true,
		config: azcloud.Configuration{
			ActiveDirectoryAuthorityHost: file.ActiveDirectoryEndpoint,
			Services: map[azcloud.ServiceName]azcloud.ServiceConfiguration{
				azcloud.ResourceManager: {Endpoint: strings.TrimSuffix(file.ResourceManagerEndpoint, "/"), Audience: audience},
			},
		},
	}, nil
}

// forTenant adapts the cloud to AD FS. Some descriptions end the authority in "/adfs", but azidentity appends the tenant
// "adfs" again.
func (t target) forTenant(tenant string) target {
	if !strings.EqualFold(tenant, "adfs") {
		return t
	}
	host := strings.TrimSuffix(t.config.ActiveDirectoryAuthorityHost, "/")
	if rest := len(host) - len("/adfs"); rest > 0 && strings.EqualFold(host[rest:], "/adfs") {
		host = host[:rest]
	}
	t.config.ActiveDirectoryAuthorityHost = host + "/"
	return t
}

// skipsDiscovery reports whether azidentity must not check the authority in Microsoft's public directory. The directory
// does not know custom clouds. AD FS has no such check.
func (t target) skipsDiscovery(tenant string) bool {
	return t.custom && !strings.EqualFold(tenant, "adfs")
}
