// Package clouds selects the cloud of a cluster and the builder of its nodes: the flags, and the provider for these flags.
package clouds

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/capi"
	"github.com/kamino-dev/kamino/internal/cloud/karpenter"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
	"github.com/kamino-dev/kamino/internal/cluster"
)

// Environment variables with defaults of flags.
const (
	envName       = "KAMINO_CLOUD"
	envConfig     = "KAMINO_CLOUD_CONFIG"
	envManagement = "KAMINO_MANAGEMENT_KUBECONFIG"
)

// ManagementFlag names the cluster with the objects of Cluster API.
const ManagementFlag = "management-kubeconfig"

// Options select the cloud.
type Options struct {
	// Name is a name of the registry; empty means that the cluster's nodes decide.
	Name string
	// Config is the path of the cloud's configuration; empty for the environment.
	Config string
	// Flags are further settings of the cloud.
	Flags map[string]*string
	// Management is the kubeconfig path of the cluster with the objects of Cluster API; empty if the cloud's own pools
	// build the nodes.
	Management string
	// Patience is how long a verb that only reads waits for a cloud that throttles.
	Patience time.Duration
	// OnRequest receives each request to the named cloud, see cloud.Config. Optional.
	OnRequest func(name, class string, status int, throttled bool)
}

// Known are the clouds with all refusal reasons, for all builders of nodes.
func Known() []cloud.Description {
	var all []cloud.Description
	for _, d := range registry.All() {
		all = append(all, karpenter.WithReasons(capi.WithReasons(d)))
	}
	return all
}

// Bind binds the flags.
func (o *Options) Bind(flags *pflag.FlagSet, getenv func(string) string) {
	all := registry.All()
	var environments []string
	for _, d := range all {
		environments = append(environments, d.Environment)
	}
	flags.StringVar(&o.Name, "cloud", getenv(envName),
		"`name` of the cloud: "+strings.Join(all.Names(), ", ")+" (default: "+envName+", or the cloud of the cluster's nodes)")
	flags.StringVar(&o.Config, "cloud-config", getenv(envConfig),
		ConfigFiles()+" `file` with the cloud and the credential (default: "+envConfig+", or "+strings.Join(environments, ", ")+")")
	flags.StringVar(&o.Management, ManagementFlag, getenv(envManagement),
		"kubeconfig `file` of the Cluster API management cluster. The pools are then its MachineDeployments and MachinePools (default: "+envManagement+")")
	bound := []string{"cloud", "cloud-config", ManagementFlag}
	o.Flags = map[string]*string{}
	for _, d := range all {
		for _, option := range d.Options {
			o.Flags[option.Flag] = flags.String(option.Flag, getenv(option.Variable), option.Usage)
			bound = append(bound, option.Flag)
		}
	}
	for _, name := range bound {
		flags.Lookup(name).DefValue = "" // the text names the variable
	}
}

// ConfigFiles lists the names of the clouds' configuration files, for a sentence.
func ConfigFiles() string {
	var files []string
	for _, d := range registry.All() {
		files = append(files, d.ConfigFile)
	}
	return strings.Join(files, " or ")
}

// enoughNodes is the number of nodes from which Chosen detects the cloud.
const enoughNodes = 100

// Chosen returns the selected cloud, with the recipes of the builder of the nodes: the cloud, or Cluster API if Management
// is set.
func (o *Options) Chosen(ctx context.Context, connect func() (*cluster.Connection, error), agent string, now time.Time) (cloud.Description, error) {
	var seen []cluster.NodeOrigin
	ask := func() ([]string, error) {
		c, err := connect()
		if err == nil && seen == nil {
			seen, err = c.Origins(ctx, enoughNodes)
		}
		return providerIDs(seen), err
	}
	about, err := registry.All().Choose(o.Name, ask)
	if err != nil {
		return about, err
	}
	if o.Management == "" {
		return karpenter.Describe(about, func() (*rest.Config, error) {
			c, err := connect()
			if err != nil {
				return nil, err
			}
			return c.Config, nil
		}), nil
	}
	if _, err := ask(); err != nil {
		return about, fmt.Errorf("find the Cluster API Cluster of the nodes: %w", err)
	}
	of := cluster.MostlyOf(seen, now)
	if of.Name == "" {
		return about, fmt.Errorf(
			"--%s is set, but most nodes of this cluster have no Cluster API Machine. Remove the flag. If the nodes have just joined, wait and retry",
			ManagementFlag)
	}
	management, err := cluster.Connect(cluster.Options{Kubeconfig: o.Management, Agent: agent})
	if err != nil {
		return about, fmt.Errorf("connect to the Cluster API management cluster: %w", err)
	}
	return capi.Describe(about, management.Config, of)
}

func providerIDs(seen []cluster.NodeOrigin) []string {
	ids := make([]string, len(seen))
	for i, n := range seen {
		ids[i] = n.ProviderID
	}
	return ids
}

// Provider returns the provider without a request to the cloud: an invalid credential shows at the first request.
func (o *Options) Provider(ctx context.Context, described cloud.Description, log logr.Logger) (cloud.Provider, error) {
	config := cloud.Config{File: o.Config, Options: map[string]string{}}
	for flag, value := range o.Flags {
		config.Options[flag] = *value
	}
	if report := o.OnRequest; report != nil {
		config.OnRequest = func(class string, status int, throttled bool) { report(described.Name, class, status, throttled) }
	}
	p, source, err := described.New(ctx, config)
	if err != nil {
		return p, err
	}
	log.V(1).Info("cloud", "name", described.Name, "credential", source)
	return p, nil
}
