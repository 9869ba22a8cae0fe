package cloud

import "context"

// Description is what a provider says of itself, so that nobody above it needs to know a cloud's words. Package
// registry has those of all providers.
type Description struct {
	// Name of the cloud, a word of a closed set such as "azure": a value of the flag --cloud, and a label of metrics.
	Name string
	// Schemes of the Node.spec.providerID of its nodes, without "://".
	Schemes []string
	// Docs is the page of the documentation that is about it.
	Docs string
	// ConfigFile is the name of the file by which a cluster's nodes know their cloud, and Environment says what stands
	// for it where none is named.
	ConfigFile, Environment string
	// Options that it is configured by beside that file.
	Options []Option
	// New makes a provider, and says in words, without a secret, what it was configured by. It does no I/O over the network.
	New func(context.Context, Config) (p Provider, source string, err error)
	// NewDisks makes the half of the disks alone, for recipes that are elsewhere, as New does: it has the power ImageNames. nil where
	// instances that are in no pool of the cloud's cannot be captured yet.
	NewDisks func(context.Context, Config) (d Disks, source string, err error)
	// Reasons of its refusals, by name. Those of the contract are among them where the provider gives them.
	Reasons []Reason
	// Classes of requests that its limits count apart.
	Classes []string
	// Remedies for what no call of the contract says the remedy of.
	Remedies Remedies
	// Grant is what the cloud must allow a credential, as a document for its IAM in JSON: with the removal of donors or without.
	// What stands in it in capitals is the reader's to fill in. nil if the cloud takes none.
	Grant func(removal bool) ([]byte, error)
	// OldDriver is the driver of data disks that was Kubernetes' own: how its volumes' names begin in a Node's status.
	// Empty where there was none.
	OldDriver string
}

// Reason is one of the closed set that a provider refuses for. A refusal names the objects; this is for whoever looks
// the reason up.
type Reason struct {
	// Name in one CamelCase word, as Refusal.Reason has it.
	Name string
	// Means says what is in the way, and Remedy what to do about it: neither has a full stop.
	Means, Remedy string
}

// ReasonNames are the names of the description's reasons.
func (d Description) ReasonNames() []string {
	names := make([]string, len(d.Reasons))
	for i, r := range d.Reasons {
		names[i] = r.Name
	}
	return names
}

// Option is a flag, and the environment variable that stands in for it.
type Option struct {
	Flag, Variable string
	// Usage names the value between backquotes.
	Usage string
}

// Config is how a provider is told to be.
type Config struct {
	// File is the path of its configuration; empty for the environment.
	File string
	// Options by their flags; an empty value is none.
	Options map[string]string
	// OnRequest, if set, is told of every request that was answered, retries included: its class, its status in HTTP
	// (0 if nobody answered) and whether the cloud throttled it. It must be quick and safe for concurrent use.
	OnRequest func(class string, status int, throttled bool)
}

// Remedies are what a person can do about trouble with a cloud, each a sentence without its end.
type Remedies struct {
	// Credential: none was found, or none is accepted. Permissions: one of them lacks. Audit: the credential may not list its own.
	Credential, Permissions, Audit string
	// Pool: it does not exist. NoPool: no node of the cluster is of one. History: the images of a pool cannot be looked at.
	Pool, NoPool, History string
	// OldDisks: data disks were attached by OldDriver, which writes the model of an instance.
	OldDisks string
}
