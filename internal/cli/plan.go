package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/history/estimate"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/selection"
	"github.com/kamino-dev/kamino/internal/wording"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

func newPlanCommand(f *Factory, o *Options) *cobra.Command {
	var (
		from   policySource
		format output.Format
	)
	cmd := &cobra.Command{
		Use:   "plan [POOL]",
		Short: "Show which node a policy would capture, why, and the changes to the pool",
		Long: `Show what the policies would decide now, and change nothing. With a pool, the output lists each node as donor, candidate, or refused with the reason.
It also has the change to the recipe, the versions to delete, and the duration to expect from past captures of this cluster. Without a pool, it has
one line per pool.

The policies come from the cluster; with --filename you can try a policy file before you apply it. A pool without a policy is evaluated with an empty
policy.`,
		Example: `  kamino plan
  kamino plan pool1 -o wide
  kamino plan pool1 -f policy.yaml
  kamino plan -o json | jq -r '.pools[] | select(.captures) | .donor'`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completePools(f, o),
		RunE: inLook(f, o, func(ctx context.Context, s *session, args []string) error {
			return s.plan(ctx, strings.Join(args, ""), from, format)
		}),
	}
	from.bind(f, o, cmd)
	o.Clouds.BindTimeout(cmd.Flags())
	output.Bind(cmd, &format, output.Table, output.Wide, output.JSON, output.YAML)
	return cmd
}

// plan decides and prints the decisions. After an error of one part, plan still prints the other parts.
func (s *session) plan(ctx context.Context, pool string, from policySource, format output.Format) error {
	ctx, cancel := s.within(ctx, s.options)
	defer cancel()
	plans, seen, err := s.plans(ctx, pool, from)
	if err != nil {
		return err
	}
	if len(plans.Pools) == 0 && !format.Machine() {
		s.note("No policy matches a pool. Name a pool to evaluate an empty policy, or create a policy: see %s", page.Policy)
		return nil
	}
	seen.Prototypes = plans.Prototypes
	shown := make([]print.PoolPlan, 0, len(plans.Pools))
	facts := attention.Facts{Now: s.Now(), Prototypes: plans.Prototypes}
	if from.file == "" { // a file is judged for itself
		facts = s.known().Facts(ctx, plans.Prototypes)
	}
	for _, plan := range plans.Pools {
		facts.Pools = append(facts.Pools, plan.Attention())
	}
	items := attention.List(facts)
	took := map[bool]estimate.Estimate{true: estimate.Of(plans.Prototypes, true), false: estimate.Of(plans.Prototypes, false)}
	for _, plan := range plans.Pools {
		p := s.poolPlan(ctx, seen, plan, took[plan.Settings.CopiesDonor()], pool != "" || format.Machine())
		p.Attention = attention.OfPools(items, plan.Pool.Name)
		p.Captures = p.Captures && !slices.ContainsFunc(p.Attention, func(i attention.Item) bool { return i.Kind == attention.CaptureRefused })
		shown = append(shown, p)
	}
	if err := print.PoolPlans(s.Out, format, shown, pool != "", s.Now()); err != nil {
		return err
	}
	return s.unansweredPools(plans.Pools, pool == "" && format != output.Wide && !format.Machine())
}

// unansweredPools is the error if the cloud did not answer about a pool. With say, unasked prints the pool and the error, because
// the table has no room for the error.
func (s *session) unansweredPools(plans []policy.Plan, say bool) error {
	var first error
	n := 0
	for _, plan := range plans {
		if plan.Trouble == nil {
			continue
		}
		if say {
			s.note("%s.", wording.Capital(plan.Status.Decision.Message))
		}
		if n++; first == nil {
			first = plan.Trouble
		}
	}
	if first == nil {
		return nil
	}
	return &failure{Code: refusedCode(first), Err: fmt.Errorf("the cloud could not be read for %s", wording.Count(n, "pool"))}
}

// plans decides about one pool or all pools, and notes problems with the policies' pools. It also returns the look at the nodes.
func (s *session) plans(ctx context.Context, pool string, from policySource) (policy.Plans, *membership.Cluster, error) {
	decider, seen, err := s.decider(ctx)
	if err != nil {
		return policy.Plans{}, nil, err
	}
	planned, err := from.in(s).Plan(ctx, decider, pool)
	if planned.Missing {
		s.note("PrototypePolicies are not installed in this cluster (`%s`): showing the decision of an empty policy.", v1alpha1.DefinitionsCommand)
	}
	for _, message := range planned.Said {
		s.note("%s.", wording.Capital(message))
	}
	if planned.Unclaimed != "" {
		s.note("No single policy decides for pool %s: showing the decision of an empty policy.", planned.Unclaimed)
	}
	return planned.Plans, seen, misused(err)
}

// poolPlan returns all details of a capture of the pool.
func (s *session) poolPlan(ctx context.Context, seen *membership.Cluster, plan policy.Plan, took estimate.Estimate, full bool) print.PoolPlan {
	p := print.PoolPlan{
		Pool: plan.Pool.Name, PoolID: string(plan.Pool.ID), Policy: plan.Policy, Captures: plan.Wanted, Decision: *plan.Status.Decision,
		Status: plan.Status, Nodes: plan.Choice.Verdicts, Estimate: took,
	}
	if plan.Turnover.Earlier > 0 {
		p.Turnover, p.SlowTurnover = &plan.Turnover, plan.SlowTurnover
	}
	if plan.Choice.Reason == selection.TooFewCandidates && p.Decision.Message == plan.Choice.Message {
		p.Says = plan.Choice.Obstacle
	}
	if plan.Prototype == nil || plan.Trouble != nil {
		return p
	}
	p.Donor, p.Version = plan.Prototype.Spec.Donor.NodeName, plan.Prototype.Spec.Version
	if !full {
		return p
	}
	var err error
	p.Preview, err = s.engine.Preview(ctx, plan.Prototype, seen)
	p.Method = plan.Method
	p.Estimate = took.Tried(plan.Prototype.Spec.Settings)
	if p.Copy != nil {
		p.Estimate = p.Estimate.Billed(p.Copy.InstanceType, p.Copy.DiskGB)
	}
	p.Joins, p.Refusals, err = plan.Joins, slices.Concat(plan.Unknown(), p.Refusals), cmp.Or(plan.Unjoined, err)
	if from := plan.Prototype.Spec.Settings.Recipe.CustomDataFrom; from != nil {
		p.CustomDataFrom = from.Name
	}
	if len(p.Refusals) > 0 {
		p.Captures = false
		p.Decision = v1alpha1.PoolDecision{Reason: p.Refusals[0].Reason, Message: fmt.Sprintf(
			"node %s would be the donor, but the capture would be refused: %s", p.Donor, print.AboutIt(p.Donor, p.Refusals[0].Message)),
			Remedy: p.Refusals[0].Remedy}
	}
	if err != nil {
		p.Error = explain(err)
	}
	return p
}
