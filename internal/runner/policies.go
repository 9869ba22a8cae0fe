package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/policy/policyfile"
	"github.com/kamino-dev/kamino/internal/pool"
)

// AdHocName is the name of the empty default policy.
const AdHocName = "(default)"

// ErrPoliciesMissing names the command that installs the definitions.
var ErrPoliciesMissing = cluster.Refusef(
	"this cluster has no definition of PrototypePolicies, and nothing was changed: install Kamino's definitions with `" + v1alpha1.DefinitionsCommand + "`")

// Policies is the source of policies for a single run: the cluster, a file, or an empty default policy.
type Policies struct {
	Cluster *cluster.Connection
	Pools   *pool.Finder
	// Name of one policy of the cluster; empty means all policies.
	Name string
	// File with policies; the policies need not exist in the cluster. Empty for none.
	File string
	// MadeUp are the pools of an empty default policy, by name or ID; nil for none.
	MadeUp []string
}

// Read returns the policies. Policies that are not in the cluster have no UID. The error for an invalid file is a
// policyfile.Invalid.
func (p *Policies) Read(ctx context.Context) ([]v1alpha1.PrototypePolicy, error) {
	switch {
	case p.File != "":
		return p.fromFile(ctx)
	case len(p.MadeUp) > 0:
		return p.adHoc(ctx)
	}
	var list v1alpha1.PrototypePolicyList
	err := p.Cluster.Client.List(ctx, &list)
	switch {
	case apierrors.IsNotFound(err):
		return nil, ErrPoliciesMissing
	case err != nil:
		return nil, fmt.Errorf("list prototypepolicies: %w", err)
	case p.Name == "":
		return list.Items, nil
	}
	for _, found := range list.Items {
		if found.Name == p.Name {
			return []v1alpha1.PrototypePolicy{found}, nil
		}
	}
	return nil, cluster.Refusef("policy %s does not exist, and nothing was changed: run `kubectl get prototypepolicies` to list the policies", p.Name)
}

// fromFile parses policies as strictly as an API server, and asks the cluster's API server for a check if permitted.
func (p *Policies) fromFile(ctx context.Context) ([]v1alpha1.PrototypePolicy, error) {
	text, err := os.ReadFile(p.File)
	if err != nil {
		return nil, policyfile.Invalidf("%w", err)
	}
	policies, err := policyfile.Parse(p.File, text)
	if err != nil {
		return nil, err
	}
	for i := range policies {
		if err := p.validate(ctx, &policies[i]); err != nil {
			return nil, err
		}
	}
	return policies, nil
}

// validate checks a policy with a dry run. Without the definition or the permission, validate checks nothing; the decision
// then reports unreadable fields.
func (p *Policies) validate(ctx context.Context, written *v1alpha1.PrototypePolicy) error {
	trial := &v1alpha1.PrototypePolicy{Spec: written.Spec}
	trial.GenerateName = "check-"
	if err := p.Cluster.Client.Create(ctx, trial, client.DryRunAll); apierrors.IsInvalid(err) {
		return policyfile.Rejected(written.Name, err)
	}
	written.UID, written.ResourceVersion = "", ""
	written.Spec = written.Spec.Defaulted()
	return nil
}

// adHoc returns an empty policy for the named pools. An unknown name stays in the policy, so that the result of the run
// names the pool.
func (p *Policies) adHoc(ctx context.Context) ([]v1alpha1.PrototypePolicy, error) {
	pools, err := p.Pools.All(ctx)
	if err != nil {
		return nil, err
	}
	known := slices.Collect(maps.Keys(pools))
	ids := slices.Clone(p.MadeUp)
	for i, name := range ids {
		if id, err := p.Pools.Resolve(ctx, name, known); err == nil {
			ids[i] = string(id)
		}
	}
	return []v1alpha1.PrototypePolicy{policy.AdHoc(AdHocName, ids...)}, nil
}

// Planned holds the decisions of policies about the requested pools.
type Planned struct {
	policy.Plans
	// Missing: the cluster has no policies, so an empty policy decided about all pools.
	Missing bool
	// Unclaimed is the requested pool if not exactly one policy matches the pool, so that an empty policy decided.
	Unclaimed string
	// Said are messages about problems with pools that the policies name.
	Said []string
}

// Plan decides about all pools, or about the requested pool, without a change.
func (p *Policies) Plan(ctx context.Context, decider *policy.Decider, asked string) (Planned, error) {
	planned := Planned{}
	policies, err := p.Read(ctx)
	switch {
	case errors.Is(err, ErrPoliciesMissing) && p.Name == "":
		if planned.Missing = asked == ""; planned.Missing {
			policies = []v1alpha1.PrototypePolicy{policy.AdHoc(AdHocName)}
		}
	case err != nil:
		return planned, err
	}
	if asked == "" {
		planned.Plans, err = decider.Plan(ctx, policies, nil)
		planned.Said = problemMessages(policies, planned.Plans, "")
		return planned, err
	}
	known := decider.Nodes.Pools()
	resolved, err := p.Pools.Resolve(ctx, asked, known)
	if err != nil {
		return planned, err
	}
	name := p.Pools.Cloud.PoolName(resolved)
	if !slices.Contains(known, resolved) {
		return planned, cluster.Refusef(
			"pool %s has no node in this cluster, so Kamino cannot capture the pool: grow the pool to two nodes first. "+
				"Run `kamino status %s` to see the recipe", name, resolved)
	}
	only := func(p policy.PoolRef) bool { return p.ID == resolved }
	if planned.Plans, err = decider.Plan(ctx, policies, only); err != nil || len(planned.Pools) > 0 {
		return planned, err
	}
	planned.Said, planned.Unclaimed = problemMessages(policies, planned.Plans, v1alpha1.PolicyPoolClaimedTwice), name
	planned.Plans, err = decider.Plan(ctx, []v1alpha1.PrototypePolicy{policy.AdHoc(AdHocName, string(resolved))}, only)
	return planned, err
}

// problemMessages returns the messages with this reason, or all messages for an empty reason, in the order of the policies.
func problemMessages(policies []v1alpha1.PrototypePolicy, plans policy.Plans, reason string) []string {
	var messages []string
	for _, p := range policies {
		for _, trouble := range plans.Troubles[p.Name] {
			if reason == "" || trouble.Reason == reason {
				messages = append(messages, trouble.Message)
			}
		}
	}
	return messages
}
