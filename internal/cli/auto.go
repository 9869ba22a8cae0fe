package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/runner"
	"github.com/kamino-dev/kamino/internal/wording"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

const autoHelp = `Run all policies of the cluster once, for a Job or a CronJob. Kamino decides about every pool, starts the captures that the policies
want, waits until they have ended, and prints a result for each pool. It captures a pool at most once in a run, and a policy limits parallel captures.

If a controller holds the Lease, the controller does the work and this command follows; if not, this command takes the Lease and does the work. You
lose nothing if you interrupt it, because the next run, or a controller, continues.

"kamino --help" lists the exit codes. With --detailed-exitcode, 10 means that there was nothing to do, and 0 that a capture succeeded. If several
codes apply, the first of 4, 5, 6 and 3 is used.`

const autoExample = `  kamino auto
  kamino auto --dry-run -o wide
  kamino auto --pool workers --pool batch --timeout 3h
  kamino auto -f policy.yaml --detailed-exitcode`

// autoFlags are the flags of one run.
type autoFlags struct {
	from     policySource
	format   output.Format
	timeout  time.Duration
	dryRun   bool
	detailed bool
	most     int
}

func (a *autoFlags) bind(flags *pflag.FlagSet) {
	flags.StringSliceVar(&a.from.pools, "pool", nil, "`name` of a pool to process with an empty policy; repeatable")
	flags.IntVar(&a.most, "max-concurrent", 0, "how many nodes of the cluster may be out of service at once (default: the policies' limit)")
	flags.DurationVar(&a.timeout, "timeout", 0, "stop waiting after this time; the next run continues the captures (default: never)")
	flags.BoolVar(&a.dryRun, "dry-run", false, "print the decisions and change nothing")
	flags.BoolVar(&a.detailed, "detailed-exitcode", false, "exit with 10 if there is nothing to do")
}

func newAutoCommand(f *Factory, o *Options) *cobra.Command {
	var flags autoFlags
	cmd := &cobra.Command{
		Use: "auto", Short: "Run all policies once and wait for the captures", Long: autoHelp, Example: autoExample,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.most < 0 {
				return usagef("--max-concurrent must be at least 1, not %d", flags.most)
			}
			s, err := open(cmd.Context(), f, o, false)
			if err != nil {
				return err
			}
			return s.auto(cmd.Context(), flags, flags.format)
		},
	}
	flags.bind(cmd.Flags())
	output.Bind(cmd, &flags.format, output.Table, output.Wide, output.JSON, output.YAML)
	flags.from.bind(f, o, cmd)
	_ = cmd.RegisterFlagCompletionFunc("pool", completePools(f, o))
	return cmd
}

// auto decides, captures, waits and reports, within --timeout.
func (s *session) auto(ctx context.Context, flags autoFlags, format output.Format) error {
	ctx, cancel := limited(ctx, flags.timeout)
	defer cancel()
	run, err := s.preparedAuto(ctx, flags, format)
	if err != nil || run == nil {
		return orCutShort(ctx, err, "Nothing was begun: run the same command again")
	}
	stopped := run.Run(ctx)
	results := autoReport(run)
	if err := print.AutoResults(s.Out, format, results); err != nil {
		return err
	}
	return autoEnd(results, stopped, flags.detailed)
}

// preparedAuto reads the policies and builds the run; nil after a dry run.
func (s *session) preparedAuto(ctx context.Context, flags autoFlags, format output.Format) (*runner.Auto, error) {
	policies, err := s.policies(ctx, flags.from)
	if err != nil {
		return nil, err
	}
	if len(policies) == 0 {
		return nil, refusedf("this cluster has no PrototypePolicy, and nothing was changed: name pools with --pool, or create a policy: see %s", page.Policy)
	}
	s.allow(policies, flags.most)
	if flags.dryRun {
		return nil, s.autoDryRun(ctx, policies, flags, format)
	}
	if _, err := s.cluster.Prototypes(ctx); err != nil {
		return nil, err
	}
	if err := s.cluster.CheckClock(); err != nil {
		return nil, err
	}
	decider, _, err := s.decider(ctx)
	if err != nil {
		return nil, err
	}
	if flags.from.file != "" || len(flags.from.pools) > 0 || flags.most > 0 {
		decider.Policies = policies
	}
	decider.Recorder = s.options.recorder(s.cluster)
	return &runner.Auto{
		Cluster: s.cluster, Engine: s.engine, Decider: decider, Namespace: s.options.Namespace, Only: flags.from.name,
		Now: s.Now, Log: s.options.Log, Report: s.printAutoEvents(),
	}, nil
}

// allow sets the limit of concurrent captures, from the flag or the policies.
func (s *session) allow(policies []v1alpha1.PrototypePolicy, most int) {
	for i := range policies {
		if most > 0 {
			policies[i].Spec.MaxConcurrent = int32(most)
		}
		s.options.MaxConcurrent = max(s.options.MaxConcurrent, int(policies[i].Spec.Defaulted().MaxConcurrent))
	}
	s.engine = s.Engine(s.cluster, s.provider, s.options)
}

func (s *session) autoDryRun(ctx context.Context, policies []v1alpha1.PrototypePolicy, flags autoFlags, format output.Format) error {
	decider, _, err := s.decider(ctx)
	if err != nil {
		return err
	}
	plans, err := decider.Plan(ctx, policies, nil)
	if err != nil {
		return err
	}
	results := print.AutoReport{Pools: []print.AutoResult{}}
	for _, p := range policies {
		for _, trouble := range plans.Troubles[p.Name] {
			results.Troubles = append(results.Troubles, trouble.Message)
		}
	}
	for _, plan := range plans.Pools {
		r := print.AutoResult{Pool: plan.Pool.Name, Policy: plan.Policy, Result: print.AutoNothing, Status: plan.Status}
		switch {
		case plan.Wanted:
			r.Result, r.Donor, r.Version = print.AutoWould, plan.Choice.Donor.Name, plan.Version
		case plan.Refused:
			r.Result, r.Code = print.AutoRefused, refusedCode(plan.Trouble)
		}
		r.Reason, r.Message = plan.Status.Decision.Reason, plan.Status.Decision.Message
		results.Pools = append(results.Pools, r)
	}
	if err := print.AutoResults(s.Out, format, results); err != nil {
		return err
	}
	return autoEnd(results, nil, flags.detailed)
}

// autoEnd turns the results of the pools into an exit code. The table has already shown the results.
func autoEnd(report print.AutoReport, stopped error, detailed bool) error {
	if stopped != nil {
		return cutShort(stopped, "; nothing is lost: the next run, or a controller, continues the captures")
	}
	codes := map[int]int{}
	for _, r := range report.Pools {
		codes[r.Code]++
	}
	switch {
	case codes[ExitFailed] == 1:
		return &failure{Code: ExitFailed, Err: errors.New("the capture of 1 pool failed; the node is in service")}
	case codes[ExitFailed] > 0:
		return &failure{Code: ExitFailed, Err: fmt.Errorf("captures of %d pools failed; the nodes are in service", codes[ExitFailed])}
	case codes[ExitNotAllowed] > 0:
		return &failure{Code: ExitNotAllowed, Err: fmt.Errorf("a credential or a permission is missing for %s", wording.Count(codes[ExitNotAllowed], "pool"))}
	case codes[ExitUnreachable] > 0:
		return &failure{Code: ExitUnreachable, Err: fmt.Errorf("the cloud is unreachable for %s", wording.Count(codes[ExitUnreachable], "pool"))}
	case codes[ExitRefused] > 0 || len(report.Troubles) > 0:
		return &failure{Code: ExitRefused, Err: errors.New("some pools or policies are refused")}
	}
	for _, r := range report.Pools {
		if r.Result == print.AutoCaptured || r.Result == print.AutoWould {
			return nil
		}
	}
	if detailed {
		return &failure{Code: ExitNothingToDo, Err: errors.New("nothing to do")}
	}
	return nil
}
