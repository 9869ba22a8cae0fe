package drive

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
	"github.com/kamino-dev/kamino/internal/policyfile"
	"github.com/kamino-dev/kamino/internal/pool"
)

// AdHocName is the policy that is made up where none was written.
const AdHocName = "(default)"

// ErrPoliciesMissing says how to install what is not there.
var ErrPoliciesMissing = cluster.Refusef(
	"this cluster doesn't know PrototypePolicies, and nothing was changed: install Kamino's definitions with `kamino crds --apply`")

// Policies is where a run that decides once has its policies from: those of the cluster, unless something else is named.
type Policies struct {
	Cluster *cluster.Connection
	Pools   *pool.Finder
	// Name of one policy of the cluster; all of them if it is empty.
	Name string
	// File with policies that need not exist in the cluster; empty for none.
	File string
	// Made up is an empty policy for these pools, by whatever a person calls them; nil for none.
	MadeUp []string
}

// Read reads them. Those that exist nowhere have no UID. A file that is not as it must be is a policyfile.Invalid.
func (p *Policies) Read(ctx context.Context) ([]v1alpha1.PrototypePolicy, error) {
	switch {
	case p.File != "":
		return p.fromFile(ctx)
	case len(p.MadeUp) > 0:
		return p.madeUp(ctx)
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
	return nil, cluster.Refusef("there is no policy %s, and nothing was changed: `kubectl get prototypepolicies` lists them", p.Name)
}

// fromFile reads them as strictly as an API server, and has the cluster's own check them where it may.
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

// validate has the API server check a policy without keeping it. A cluster that has no such kind, or a credential that may not
// make one, checks nothing: then what can't be read is said with the decision.
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

// madeUp is an empty policy for the pools that a person means. A name that means none stays as it is, and is told beside what
// comes of the others.
func (p *Policies) madeUp(ctx context.Context) ([]v1alpha1.PrototypePolicy, error) {
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

// Planned is what policies decide about the pools that somebody asked about.
type Planned struct {
	policy.Plans
	// Missing: the cluster knows no policies, so that an empty one decided about all pools.
	Missing bool
	// Unclaimed names the pool that was asked about where no single one of the policies is for it, so that an empty one decided.
	Unclaimed string
	// Said are sentences on what is the matter with pools that the policies name.
	Said []string
}

// Plan decides about all pools, or about the one that a person means, and changes nothing.
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
		planned.Said = troubles(policies, planned.Plans, "")
		return planned, err
	}
	known := decider.Nodes.Pools()
	meant, err := p.Pools.Resolve(ctx, asked, known)
	if err != nil {
		return planned, err
	}
	name := p.Pools.Cloud.PoolName(meant)
	if !slices.Contains(known, meant) {
		return planned, cluster.Refusef("no node of this cluster is of pool %s, so that there is none to capture: grow it to two nodes first; `kamino status %s` shows what it builds them from", name, meant)
	}
	only := func(p policy.Pool) bool { return p.ID == meant }
	if planned.Plans, err = decider.Plan(ctx, policies, only); err != nil || len(planned.Pools) > 0 {
		return planned, err
	}
	planned.Said, planned.Unclaimed = troubles(policies, planned.Plans, v1alpha1.PolicyPoolClaimedTwice), name
	planned.Plans, err = decider.Plan(ctx, []v1alpha1.PrototypePolicy{policy.AdHoc(AdHocName, string(meant))}, only)
	return planned, err
}

// troubles are the sentences of one reason, or of any if it is empty, in the order of the policies.
func troubles(policies []v1alpha1.PrototypePolicy, plans policy.Plans, reason string) []string {
	var said []string
	for _, p := range policies {
		for _, trouble := range plans.Troubles[p.Name] {
			if reason == "" || trouble.Reason == reason {
				said = append(said, trouble.Message)
			}
		}
	}
	return said
}
