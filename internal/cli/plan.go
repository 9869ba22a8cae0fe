package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/drive"
	"github.com/kamino-dev/kamino/internal/estimate"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/wording"
)

func newPlanCommand(f *Factory, o *Options) *cobra.Command {
	var (
		from   policySource
		format print.Format
	)
	cmd := &cobra.Command{
		Use:   "plan [POOL]",
		Short: "Show which node a policy would capture and why, and what that would change",
		Long: `Decide about pools as their policies would now, and change nothing. With a pool: whether each of its nodes is a
candidate or why it is refused, which one is the donor, what a capture would change in the recipe and retire, and
how long it would probably take, by what captures of this cluster have taken. Without: one line for each pool.

The policies are those of the cluster; --filename tries others before they are applied. A pool that no policy is
for is judged by an empty one.`,
		Example: `  kamino plan
  kamino plan pool1 -o wide
  kamino plan pool1 -f policy.yaml
  kamino plan -o json | jq -r '.pools[] | select(.captures) | .donor'`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completePools(f, o),
		RunE: inSession(f, o, func(ctx context.Context, s *session, args []string) error {
			return s.plan(ctx, strings.Join(args, ""), from, format)
		}),
	}
	cmd.Flags().StringVar(&from.name, "policy", "", "`name` of one policy of the cluster (default: all of them)")
	cmd.Flags().StringVarP(&from.file, "filename", "f", "", "`file` with policies to decide by, which need not be in the cluster")
	bindOutput(cmd, &format, print.Table, print.Wide, print.JSON, print.YAML)
	_ = cmd.RegisterFlagCompletionFunc("policy", completePolicies(f, o))
	before(cmd, from.check)
	return cmd
}

// plan decides and shows. What could be found is shown even where a part could not.
func (s *session) plan(ctx context.Context, pool string, from policySource, format print.Format) error {
	plans, err := s.plans(ctx, pool, from)
	if err != nil {
		return err
	}
	if len(plans.Pools) == 0 && !format.Machine() {
		s.note("No policy is for any pool: write one (docs/policy.md), or name a pool to see what an empty policy would do.")
		return nil
	}
	shown := make([]print.PoolPlan, 0, len(plans.Pools))
	took := estimate.Of(plans.Prototypes)
	for _, plan := range plans.Pools {
		shown = append(shown, s.poolPlan(ctx, plan, took, pool != "" || format.Machine()))
	}
	if err := print.PoolPlans(s.Out, format, shown, pool != "", s.Now()); err != nil {
		return err
	}
	return s.unasked(plans.Pools, pool == "" && format != print.Wide && !format.Machine())
}

// unasked ends the command where the cloud could not be asked about a pool. Which one, and why, is said where the
// table has no room for it.
func (s *session) unasked(plans []policy.Plan, say bool) error {
	var first error
	n := 0
	for _, plan := range plans {
		if plan.Trouble == nil {
			continue
		}
		if say {
			s.note("%s.", capital(plan.Status.Decision.Message))
		}
		if n++; first == nil {
			first = plan.Trouble
		}
	}
	if first == nil {
		return nil
	}
	return &ending{refusedCode(first), fmt.Errorf("the cloud can't be asked about %s", wording.Count(n, "pool"))}
}

// plans decides about one pool, or about all, and notes what is wrong with the policies' pools.
func (s *session) plans(ctx context.Context, pool string, from policySource) (policy.Plans, error) {
	policies, err := s.policies(ctx, from)
	switch {
	case errors.Is(err, errPoliciesMissing) && from.name == "":
		if pool == "" {
			s.note("This cluster doesn't know PrototypePolicies yet (`kamino crds --apply`): this is what an empty policy would do.")
			policies = []v1alpha1.PrototypePolicy{policy.AdHoc(adHocName)}
		}
	case err != nil:
		return policy.Plans{}, err
	}
	decider, err := s.decider(ctx)
	if err != nil {
		return policy.Plans{}, err
	}
	var meant cloud.PoolID
	if pool != "" {
		known := decider.Nodes.Pools()
		if meant, err = s.pools().Meant(ctx, pool, known); err != nil {
			return policy.Plans{}, err
		}
		if !slices.Contains(known, meant) {
			name := s.provider.PoolName(meant)
			return policy.Plans{}, refusedf("no node of this cluster is of pool %s, so that there is none to capture: grow it to two nodes first; `kamino status %s` shows what it builds them from", name, meant)
		}
	}
	only := func(p policy.Pool) bool { return pool == "" || p.ID == meant }
	plans, err := decider.Plan(ctx, policies, only)
	if err != nil {
		return policy.Plans{}, err
	}
	if pool != "" {
		if len(plans.Pools) > 0 {
			return plans, nil
		}
		return s.planOther(ctx, decider, meant, policies, plans, only)
	}
	for _, p := range policies {
		for _, trouble := range plans.Troubles[p.Name] {
			s.note("%s.", capital(trouble.Message))
		}
	}
	return plans, nil
}

// planOther plans a pool that no single one of the policies is for.
func (s *session) planOther(ctx context.Context, decider *policy.Decider, pool cloud.PoolID, policies []v1alpha1.PrototypePolicy, found policy.Plans, only func(policy.Pool) bool) (policy.Plans, error) {
	for _, p := range policies {
		for _, trouble := range found.Troubles[p.Name] {
			if trouble.Reason == v1alpha1.PolicyPoolClaimedTwice {
				s.note("%s.", capital(trouble.Message))
			}
		}
	}
	s.note("No one policy decides for pool %s: this is what an empty policy would do.", s.provider.PoolName(pool))
	return decider.Plan(ctx, []v1alpha1.PrototypePolicy{policy.AdHoc(adHocName, string(pool))}, only)
}

// decider makes decisions from what the cluster says now.
func (s *session) decider(ctx context.Context) (*policy.Decider, error) {
	return drive.NewDecider(ctx, s.cluster, s.provider, s.engine, s.options.drive(s.Getenv, s.Now))
}

// poolPlan asks what a capture would do, in full.
func (s *session) poolPlan(ctx context.Context, plan policy.Plan, took estimate.Estimate, full bool) print.PoolPlan {
	p := print.PoolPlan{
		Pool: plan.Pool.Name, PoolID: string(plan.Pool.ID), Policy: plan.Policy, Captures: plan.Wanted, Decision: *plan.Status.Decision,
		Status: plan.Status, Nodes: plan.Choice.Verdicts, Estimate: took,
	}
	if plan.Prototype == nil || plan.Trouble != nil {
		return p
	}
	p.Donor, p.Version = plan.Prototype.Spec.Donor.NodeName, plan.Prototype.Spec.Version
	if !full {
		return p
	}
	preview, err := s.engine.Preview(ctx, plan.Prototype)
	p.Refusals, p.Change, p.Retires, p.Evicts = preview.Refusals, preview.Change, preview.Retires, preview.Evicts
	p.NoWayBack, p.Crowded = preview.NoWayBack, preview.Crowded
	if len(p.Refusals) > 0 {
		p.Captures = false
		p.Decision = v1alpha1.PoolDecision{Reason: p.Refusals[0].Reason, Message: fmt.Sprintf(
			"node %s would be the donor, but its capture would be refused: %s", p.Donor, p.Refusals[0].Message)}
	}
	if err != nil {
		p.Error = explain(err)
	}
	return p
}
