package azure

import (
	"context"
	"net/http"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// credentialOption is the flag that selects a single credential.
const credentialOption = "azure-credential"

// Classes of requests. Azure has separate limits for reads, writes and deletions; an action (POST) is a write. Source:
// Azure Resource Manager, throttling.
const (
	classRead   = "read"
	classWrite  = "write"
	classDelete = "delete"
)

func classOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		return classRead
	case http.MethodDelete:
		return classDelete
	}
	return classWrite
}

// docs is the address of the page about the provider.
const docs = page.Root + "reference/azure.md"

// Describe returns the provider's description for the registry.
func Describe() cloud.Description {
	return cloud.Description{
		Name:        "azure",
		Schemes:     []string{strings.TrimSuffix(providerPrefix, "://")},
		Docs:        docs,
		ConfigFile:  "azure.json",
		Environment: "the Azure SDK's environment variables",
		Options: []cloud.Option{{
			Flag: credentialOption, Variable: "KAMINO_AZURE_CREDENTIAL",
			Usage: "the only `credential` for Azure: " + strings.Join(Credentials(), ", ") +
				" (default: KAMINO_AZURE_CREDENTIAL, or the first complete credential)",
		}},
		New: func(ctx context.Context, c cloud.Config) (cloud.Provider, string, error) {
			config, err := configOf(c)
			if err != nil {
				return cloud.Provider{}, "", err
			}
			p, err := New(ctx, config)
			if err != nil {
				return cloud.Provider{}, "", err
			}
			return p, config.Source, nil
		},
		NewDisks: func(ctx context.Context, c cloud.Config) (cloud.ImageProvider, string, error) {
			config, err := configOf(c)
			if err != nil {
				return cloud.ImageProvider{}, "", err
			}
			d, err := NewDisks(ctx, config)
			if err != nil {
				return cloud.ImageProvider{}, "", err
			}
			return cloud.DisksOf(d), config.Source, nil
		},
		Reasons:   refusalReasons,
		Grant:     role,
		Uses:      uses,
		OldDriver: "kubernetes.io/azure-disk/",
		Classes:   []string{classRead, classWrite, classDelete},
		Remedies: cloud.Remedies{
			Credential:  "name a cluster's azure.json with --cloud-config, or set AZURE_… variables, which come first: see " + docs + "#credentials",
			Permissions: "give the credential the role of `kamino manifests --iam --cloud azure` on the pool's resource group: see " + docs + "#permissions",
			Action:      "assign a role with this action (a new role assignment needs some minutes)",
			Audit:       "allow " + permissionRead + ", as every built-in role does",
			Pool:        "check that the scale set exists and that the subscription is right",
			NoPool:      "check spec.providerID of a node: the ID must name a VM of a scale set with Uniform orchestration",
			History:     "see " + docs + "#resources",
			OldDisks:    "move the volumes to the CSI driver disk.csi.azure.com; until then, a drained donor has no such volumes",
		},
	}
}

// configOf converts the general configuration of a cloud.
func configOf(c cloud.Config) (Config, error) {
	config, err := LoadConfig(LoadOptions{AzureJSON: c.File, Credential: c.Options[credentialOption]})
	if report := c.OnRequest; err == nil && report != nil {
		config.OnRequest = func(method string, status int, throttled bool) { report(classOf(method), status, throttled) }
	}
	return config, err
}
