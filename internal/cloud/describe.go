package cloud

import "context"

// Description describes a provider, so that other packages need no words of a cloud. Package registry lists all
// descriptions.
type Description struct {
	// Name of the cloud, for example "azure": a value of --cloud, and a label of metrics. The set of names is closed.
	Name string
	// Schemes of Node.spec.providerID, without "://".
	Schemes []string
	// Docs is the page of the documentation about the provider.
	Docs string
	// ConfigFile is the name of the cloud's configuration file on nodes. Environment describes the alternative without
	// a file.
	ConfigFile, Environment string
	// Options are further settings besides the file.
	Options []Option
	// New makes a provider, and describes its configuration without secrets. New does no network I/O.
	New func(context.Context, Config) (p Provider, source string, err error)
	// NewDisks makes only the ImageProvider, for a PoolProvider of another package. Nil if instances outside of the
	// cloud's pools are not supported.
	NewDisks func(context.Context, Config) (d ImageProvider, source string, err error)
	// NewHalves makes both halves, for a PoolProvider of another package beside the cloud's own. Nil if not supported.
	NewHalves func(context.Context, Config) (d ImageProvider, p PoolProvider, source string, err error)
	// Reasons are the reasons of the provider's refusals by name, including those of the contract.
	Reasons []Reason
	// Classes are the request classes with separate rate limits.
	Classes []string
	// Remedies are texts for situations without a remedy in the contract.
	Remedies Remedies
	// Grant returns the IAM document in JSON for a credential with some of the powers ForInPlace, ForRebuild and ForWarmPool. Words in
	// capitals are to be replaced by the reader. Nil if the cloud accepts no document.
	Grant func(powers ...string) ([]byte, error)
	// Uses are all permissions, as rows of the table in the documentation.
	Uses []Use
	// OldDriver is the prefix of volume names of Kubernetes' in-tree driver in a Node's status; empty without such a
	// driver.
	OldDriver string
}

// Reason is a documented reason of a provider's refusals. The refusal names the objects; Reason is for looking up.
type Reason struct {
	// Name is the CamelCase word of Refusal.Reason.
	Name string
	// Means is the obstacle, and Remedy the advice. Neither has a full stop.
	Means, Remedy string
}

// ReasonNames returns the names of the reasons.
func (d Description) ReasonNames() []string {
	names := make([]string, len(d.Reasons))
	for i, r := range d.Reasons {
		names[i] = r.Name
	}
	return names
}

// Option is a flag with the environment variable of the same meaning.
type Option struct {
	Flag, Variable string
	// Usage is the help text, with the value's name in backquotes.
	Usage string
}

// Config is the configuration of a provider.
type Config struct {
	// File is the path of the configuration file; empty for the environment.
	File string
	// Options by flag. An empty value is unset.
	Options map[string]string
	// OnRequest, if set, is called for every response, retries included: class, HTTP status (0 without a response) and
	// whether the cloud throttled the request. It must be fast and safe for concurrent use.
	OnRequest func(class string, status int, throttled bool)
}

// Remedies are advice for trouble with a cloud, each a sentence without its end.
type Remedies struct {
	// Credential: no valid credential. Permissions: a missing permission. Audit: the credential may not list its own
	// permissions.
	Credential, Permissions, Audit string
	// Action: one action is missing, which a message names.
	Action string
	// Pool: the pool does not exist. NoPool: no node belongs to a pool. History: the pool's images cannot be read.
	Pool, NoPool, History string
	// OldDisks: disks were attached by OldDriver, which also writes the VM model.
	OldDisks string
}
