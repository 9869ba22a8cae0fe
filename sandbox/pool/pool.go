// Package pool describes the node pools of a sandbox: the description on the command line, and the resulting scale
// set. The package creates nothing.
package pool

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cloud is a simulated cloud.
type Cloud string

// The clouds.
const (
	Azure Cloud = "azure"
	AWS   Cloud = "aws"
)

// Clouds returns all clouds.
func Clouds() []Cloud { return []Cloud{Azure, AWS} }

// Spoken is the name in prose.
func (c Cloud) Spoken() string { return map[Cloud]string{Azure: "Azure", AWS: "AWS"}[c] }

// String, Set and Type implement pflag.Value.
func (c *Cloud) String() string { return string(*c) }

// Set refuses unknown clouds.
func (c *Cloud) Set(text string) error {
	if !slices.Contains(Clouds(), Cloud(text)) {
		return fmt.Errorf("use one of %v", Clouds())
	}
	*c = Cloud(text)
	return nil
}

// Type is shown in help.
func (c *Cloud) Type() string { return "CLOUD" }

// Kind is the kind of a pool in Cluster API.
type Kind string

// The kinds; empty is a MachineDeployment.
const (
	MachineDeployment Kind = "MachineDeployment"
	// ClusterClass is a MachineDeployment that the topology controller creates from the Cluster.
	ClusterClass Kind = "ClusterClass"
	// MachinePool is a scale set, by an AzureMachinePool, or an Auto Scaling group, by an AWSMachinePool.
	MachinePool Kind = "MachinePool"
)

// Spec describes a pool. Parse sets the defaults; for a literal Spec, use Complete. On adds the defaults of a cloud.
type Spec struct {
	// Name for users, such as "pool1".
	Name string `json:"name"`
	// Nodes at the start.
	Nodes int `json:"nodes"`
	// Max is the maximum of the autoscaler, in the scale set's tags; 0 for no tag.
	Max int `json:"max"`
	// Generation of Hyper-V: "V1" or "V2".
	Generation string `json:"generation"`
	// Profile is how nodes join: "static" with a credential from the recipe, "bootstrap" with a bootstrap token,
	// "eks" with the instance's role. Empty means the usual profile of the cloud.
	Profile string `json:"profile"`
	// TokenTTL is the lifetime of the bootstrap token in the recipe (profile bootstrap), in real time since the
	// creation of the pool; 0 is unlimited.
	TokenTTL time.Duration `json:"tokenTTL,omitempty"`
	// UpgradePolicy of the scale set: "Manual", "Automatic" or "Rolling".
	UpgradePolicy string `json:"upgradePolicy"`
	// OSUpgrade turns automatic OS image upgrades on.
	OSUpgrade bool `json:"osUpgrade,omitempty"`
	// Ephemeral OS disks live on the host.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// Windows nodes.
	Windows bool `json:"windows,omitempty"`
	// Security type: "Standard", "TrustedLaunch" or "ConfidentialVM".
	Security string `json:"security"`
	// AKS adds the marks that AKS sets on its scale sets.
	AKS bool `json:"aks,omitempty"`
	// Zones spreads instances over three zones.
	Zones bool `json:"zones,omitempty"`
	// Light nodes have no files: thousands fit into a laptop.
	Light bool `json:"light,omitempty"`
	// Types are the instance types of a mixed group, joined by +, which its instances take by turns; empty for one usual type.
	Types string `json:"types,omitempty"`
	// Kind of a pool that Cluster API builds.
	Kind Kind `json:"kind,omitempty"`
}

// option is a key on the command line.
type option struct {
	key, help string
	set       func(*Spec, string) error
}

// options in the order of the help.
var options = []option{
	{"name", "name of the pool; required", func(s *Spec, v string) error { s.Name = v; return nil }},
	{"nodes", "number of nodes at the start (3)", number(func(s *Spec) *int { return &s.Nodes })},
	{"max", "maximum of the autoscaler, 0 for none (10)", number(func(s *Spec) *int { return &s.Max })},
	{"generation", "Hyper-V generation: V1 or V2 (V2)", oneOf(func(s *Spec) *string { return &s.Generation }, "V1", "V2")},
	{"profile", "how nodes join: static (Azure), bootstrap, or eks (AWS); default static on Azure, bootstrap on AWS",
		oneOf(func(s *Spec) *string { return &s.Profile }, "static", "bootstrap", "eks")},
	{"token-ttl", "lifetime of the recipe's bootstrap token, by the real clock (unlimited)", length(func(s *Spec) *time.Duration { return &s.TokenTTL })},
	{"upgrade-policy", "Manual, Automatic or Rolling (Manual)", oneOf(func(s *Spec) *string { return &s.UpgradePolicy }, "Manual", "Automatic", "Rolling")},
	{"os-upgrade", "automatic OS image upgrades", truth(func(s *Spec) *bool { return &s.OSUpgrade })},
	{"ephemeral", "ephemeral OS disks", truth(func(s *Spec) *bool { return &s.Ephemeral })},
	{"windows", "Windows nodes", truth(func(s *Spec) *bool { return &s.Windows })},
	{"security", "Standard, TrustedLaunch or ConfidentialVM (Standard)",
		oneOf(func(s *Spec) *string { return &s.Security }, "Standard", "TrustedLaunch", "ConfidentialVM")},
	{"aks", "with the marks of a pool of AKS", truth(func(s *Spec) *bool { return &s.AKS })},
	{"zones", "spread over three zones", truth(func(s *Spec) *bool { return &s.Zones })},
	{"light", "nodes without files, for scale tests", truth(func(s *Spec) *bool { return &s.Light })},
	{"types", "instance types of a mixed Auto Scaling group, such as m6i.large+m6i.xlarge (m6i.large)",
		func(s *Spec, v string) error { s.Types = v; return nil }},
	{"kind", "with --capi: MachineDeployment, ClusterClass or MachinePool (MachineDeployment)",
		oneOf(func(s *Spec) *Kind { return &s.Kind }, MachineDeployment, ClusterClass, MachinePool)},
}

// Keys describes the keys of Parse, with a line for each key.
func Keys() []string {
	lines := make([]string, 0, len(options))
	for _, o := range options {
		lines = append(lines, fmt.Sprintf("%-15s %s", o.key, o.help))
	}
	return lines
}

// Parse reads "name=pool1,nodes=3,generation=V2,...". A switch alone means true: "name=p,zones".
func Parse(text string) (Spec, error) {
	var s Spec
	s.Nodes, s.Max = 3, 10
	seen := map[string]bool{}
	for _, part := range strings.Split(text, ",") {
		key, value, given := strings.Cut(strings.TrimSpace(part), "=")
		at := slices.IndexFunc(options, func(o option) bool { return o.key == key })
		if at < 0 {
			return Spec{}, fmt.Errorf("pool %q: key %q is unknown; keys: %s", text, key, keyNames())
		}
		if seen[key] {
			return Spec{}, fmt.Errorf("pool %q: key %s is set twice", text, key)
		}
		seen[key] = true
		if !given {
			value = "true"
		}
		if err := options[at].set(&s, value); err != nil {
			return Spec{}, fmt.Errorf("pool %q: %s: %w", text, key, err)
		}
	}
	s = s.Complete()
	if err := s.Check(); err != nil {
		return Spec{}, fmt.Errorf("pool %q: %w", text, err)
	}
	return s, nil
}

// Complete fills empty texts with their defaults. Numbers are left: a pool of no nodes is a pool.
func (s Spec) Complete() Spec {
	for _, d := range []struct {
		field *string
		value string
	}{{&s.Generation, "V2"}, {&s.UpgradePolicy, "Manual"}, {&s.Security, "Standard"}} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	return s
}

// On returns the pool with the usual profile of a cloud. On refuses pools that the cloud cannot create.
func (s Spec) On(cloud Cloud) (Spec, error) {
	if s.Profile == "" {
		s.Profile = map[Cloud]string{Azure: "static", AWS: "bootstrap"}[cloud]
	}
	if s.TokenTTL > 0 && s.Profile != "bootstrap" {
		return s, fmt.Errorf("pool %s: token-ttl=%s needs profile=bootstrap: other nodes join without a token", s.Name, s.TokenTTL)
	}
	if cloud == Azure {
		if s.Types != "" {
			return s, fmt.Errorf("pool %s: types is for AWS: omit the key, or use --cloud %s", s.Name, AWS)
		}
		if s.Profile == "eks" {
			return s, fmt.Errorf("pool %s: profile=eks is for AWS: omit profile, or use --cloud %s", s.Name, AWS)
		}
		return s, nil
	}
	for _, azures := range []struct {
		key string
		set bool
	}{
		{"generation", s.Generation != "V2"}, {"profile=static", s.Profile == "static"}, {"upgrade-policy", s.UpgradePolicy != "Manual"},
		{"os-upgrade", s.OSUpgrade},
		{"ephemeral", s.Ephemeral}, {"windows", s.Windows}, {"security", s.Security != "Standard"}, {"aks", s.AKS}, {"light", s.Light},
	} {
		if azures.set {
			return s, fmt.Errorf("pool %s: %s is for Azure: omit the key, or use --cloud %s", s.Name, azures.key, Azure)
		}
	}
	return s, nil
}

// names are Azure's, shortened so that the scale set's name and six more characters fit a host name.
var names = regexp.MustCompile(`^[a-z][a-z0-9]{0,11}$`)

// Check refuses pools that no cloud can create.
func (s Spec) Check() error {
	switch {
	case !names.MatchString(s.Name):
		return fmt.Errorf("name %q: use a letter, then at most eleven letters or digits, all lower case", s.Name)
	case s.Nodes < 0 || s.Nodes > 20000:
		return fmt.Errorf("nodes=%d: use 0 to 20000", s.Nodes)
	case s.Nodes > 1000 && !s.Light:
		return fmt.Errorf("nodes=%d: a scale set with an image has at most 1000; add light for a scale test", s.Nodes)
	case s.Max < 0:
		return fmt.Errorf("max=%d: use 0 or more", s.Max)
	case s.Security != "Standard" && s.Generation != "V2":
		return fmt.Errorf("security=%s needs generation=V2", s.Security)
	}
	return nil
}

func keyNames() string {
	keys := make([]string, 0, len(options))
	for _, o := range options {
		keys = append(keys, o.key)
	}
	return strings.Join(keys, ", ")
}

func number(field func(*Spec) *int) func(*Spec, string) error {
	return func(s *Spec, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", v)
		}
		*field(s) = n
		return nil
	}
}

func length(field func(*Spec) *time.Duration) func(*Spec, string) error {
	return func(s *Spec, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return errors.New("pass a duration, such as 10m or 24h")
		}
		*field(s) = d
		return nil
	}
}

func truth(field func(*Spec) *bool) func(*Spec, string) error {
	return func(s *Spec, v string) error {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return errors.New("pass true or false")
		}
		*field(s) = b
		return nil
	}
}

// oneOf accepts a value in any case and stores the value in Azure's spelling.
func oneOf[T ~string](field func(*Spec) *T, allowed ...T) func(*Spec, string) error {
	return func(s *Spec, v string) error {
		at := slices.IndexFunc(allowed, func(a T) bool { return strings.EqualFold(string(a), v) })
		if at < 0 {
			var names []string
			for _, a := range allowed {
				names = append(names, string(a))
			}
			return fmt.Errorf("%q is unknown, use one of %s", v, strings.Join(names, ", "))
		}
		*field(s) = allowed[at]
		return nil
	}
}
