package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cli/fleet"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/process"
	"github.com/kamino-dev/kamino/internal/wording"
)

func newStatusCommand(f *Factory, o *Options) *cobra.Command {
	var (
		format   output.Format
		watch    bool
		byCode   bool
		interval time.Duration
	)
	cmd := &cobra.Command{
		Use:   "status [POOL]",
		Short: "Show pools, their image versions, and captures",
		Long: `Show what needs you, most urgent first: what is wrong, since when, what happens next on its own, and the command that helps. Then come the pools of the
cluster with the image and version for new nodes, all versions, running captures, and the last capture of each pool. From four pools on, a healthy
pool has one line. Name a pool to see also its pending patches, if a policy with spec.pioneer checks it. Without a pool, the output includes nodes that
stay reserved after a lost capture, and leftovers of captures that no longer exist.

With several --context, several --kubeconfig, or a directory of kubeconfigs, one table has the pools of all clusters. A
cluster that does not answer hides no other; the exit code is then that of the error.

With --exit-code, the exit code is 7 if something critical or a warning needs you.

The version in use is marked "current", and the target of a rollback "prior".`,
		Example: `  kamino status
  kamino status pool1 -o wide
  kamino status --exit-code -o json | jq '.attention[].title'
  kamino status --context blue --context green
  kamino status --watch`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completePools(f, o),
	}
	one := inLook(f, o, func(ctx context.Context, s *session, args []string) error {
		pool := strings.Join(args, "")
		if watch {
			return s.watchStatus(ctx, pool, format, interval)
		}
		ctx, end := s.within(ctx, s.options)
		defer end()
		text, items, trouble := s.statusText(ctx, pool, format)
		if _, err := s.Out.Write(text); err != nil {
			return err
		}
		if trouble == nil && byCode {
			return needsPerson(items)
		}
		return trouble
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Fleet.Several() {
			return f.fleetStatus(cmd.Context(), o, strings.Join(args, ""), format, byCode)
		}
		return one(cmd, args)
	}
	output.Bind(cmd, &format, output.Table, output.Wide, output.JSON, output.YAML)
	bindWatch(cmd, &watch, &interval)
	o.Clouds.BindTimeout(cmd.Flags())
	cmd.Flags().BoolVar(&byCode, "exit-code", false, "exit with 7 if something critical or a warning needs you")
	output.Before(cmd, func() error {
		if byCode && watch {
			return usagef("use only one of --exit-code and --watch: a watch has no end")
		}
		if watch && o.Fleet.Several() {
			return usagef("--watch shows one cluster: pass one --kubeconfig with a file, and one --context")
		}
		return nil
	})
	return cmd
}

// fleetStatus prints the pools of all clusters of the flags in one table.
func (f *Factory) fleetStatus(ctx context.Context, o *Options, pool string, format output.Format, byCode bool) error {
	clusters, err := o.Fleet.Clusters()
	if err != nil {
		return err
	}
	ctx, end := f.within(ctx, o)
	defer end()
	answers := fleet.Ask(ctx, clusters, f.Err, func(ctx context.Context, c fleet.Cluster, says io.Writer) (*print.Report, error) {
		own, at := *f, *o
		own.Err, at.Kubeconfig, at.Context, at.Fleet, at.atEnd = says, c.Kubeconfig, c.Context, fleet.Flags{}, nil
		defer at.end()
		s, err := open(ctx, &own, &at, false)
		if err != nil {
			return nil, err
		}
		return s.patient(ctx, pool).report(ctx, pool)
	})
	var (
		all   print.FleetReport
		first error
		quiet []string
	)
	for _, a := range answers {
		report := print.ClusterReport{Cluster: a.Cluster.Name, Report: a.Value}
		if a.Err != nil {
			report.Error, first, quiet = explain(a.Err), cmp.Or(first, a.Err), append(quiet, a.Cluster.Name)
		}
		all.Clusters = append(all.Clusters, report)
	}
	if err := print.Fleet(f.Out, format, all, f.Now()); err != nil {
		return err
	}
	if first != nil {
		return &failure{Code: exitCode(first), Err: fmt.Errorf("%d of %s did not answer completely: %s", len(quiet),
			wording.Count(len(clusters), "cluster"), strings.Join(quiet, ", "))}
	}
	if byCode {
		return needsPerson(all.Attention())
	}
	return nil
}

// needsPerson is the error of --exit-code if an item is more than information.
func needsPerson(items []attention.Item) error {
	if n := attention.Urgent(items); n > 0 {
		return &failure{Code: ExitNeedsPerson, Err: fmt.Errorf("%s you: see above", wording.Need(n, "thing"))}
	}
	return nil
}

// bindWatch adds the flags --watch and --interval.
func bindWatch(cmd *cobra.Command, watch *bool, interval *time.Duration) {
	cmd.Flags().BoolVarP(watch, "watch", "w", false, "refresh until interrupted")
	bindInterval(cmd, interval, "refresh interval of --watch")
}

// bindInterval adds the flag --interval.
func bindInterval(cmd *cobra.Command, interval *time.Duration, usage string) {
	cmd.Flags().DurationVar(interval, "interval", 10*time.Second, usage)
	output.Before(cmd, func() error {
		if *interval < time.Second {
			return usagef("--interval %s is too short, because each refresh calls the cloud: use 1s or more", *interval)
		}
		return nil
	})
}

// watch looks again and again, until an interrupt or an error that does not pass.
func (s *session) watch(ctx context.Context, interval time.Duration, look func() error) error {
	for {
		err := look()
		switch {
		case ctx.Err() != nil:
			return nil // an interrupt ends the watch
		case err != nil && !cluster.Unreachable(err):
			return err
		case err != nil:
			s.note("%s; retrying", explain(err))
		}
		if process.Wait(ctx, interval) != nil {
			return nil
		}
	}
}

// watchStatus redraws the status on a terminal, or prints the status after each change.
func (s *session) watchStatus(ctx context.Context, pool string, format output.Format, interval time.Duration) error {
	screen := print.NewScreen(s.Out, func() (int, int) {
		if format.Machine() || s.Redraws == nil || !s.Redraws() || s.Getenv("TERM") == "dumb" {
			return 0, 0
		}
		width, height := s.Window()
		return cmp.Or(width, 80), height // the window is that of standard error, which may be a file
	})
	return s.watch(ctx, interval, func() error {
		text, _, err := s.statusText(ctx, pool, format)
		if err != nil {
			return err
		}
		return screen.Draw(text)
	})
}

// statusText looks once, and prints all available facts. The error is the first problem of a look.
func (s *session) statusText(ctx context.Context, pool string, format output.Format) ([]byte, []attention.Item, error) {
	ctx, cancel := limited(ctx, s.options.Clouds.Patience)
	defer cancel()
	report, trouble := s.report(ctx, pool)
	if report == nil {
		return nil, nil, trouble
	}
	var text bytes.Buffer
	if err := print.Status(&text, format, *report, s.Now()); err != nil {
		return nil, nil, err
	}
	return text.Bytes(), report.Attention, trouble
}

// report reads the cluster and the cloud. Nil if there is only the error to print.
func (s *session) report(ctx context.Context, only string) (*print.Report, error) {
	all, err := s.cluster.Prototypes(ctx)
	if err != nil && !errors.Is(err, cluster.ErrNotInstalled) {
		return nil, err
	}
	standings, reserved, err := s.standings(ctx, only, all)
	if errors.Is(context.Cause(ctx), errInterrupted) { // what was not read is no trouble
		return nil, errInterrupted
	}
	if err != nil {
		return nil, err
	}
	facts := s.known().Facts(ctx, all)
	facts.Reserved, facts.Leftovers = reserved.Nodes, reserved.Leftovers
	names := make([]string, len(standings))
	for i := range standings {
		names[i] = standings[i].Name
		facts.Pools = append(facts.Pools, standings[i].Attention(explain))
	}
	report := &print.Report{Pools: print.PoolsOf(standings, explain), Reservations: reserved, Attention: attention.List(facts)}
	report.Captures = print.Latest(all, report.Pools, only != "")
	if only != "" {
		report.Attention = attention.OfPools(report.Attention, names...)
		for i := range report.Pools {
			report.Pools[i].Patches = print.PatchesOf(facts.Policies, report.Pools[i].ID)
		}
	}
	for _, p := range standings {
		if p.Err != nil {
			return report, fmt.Errorf("pool %s: %w", p.Name, p.Err)
		}
	}
	return report, nil
}

// itemsOf is what needs a person about the pool of a history, for a reader of text.
func (s *session) itemsOf(ctx context.Context, h history.History, format output.Format) ([]attention.Item, error) {
	if format.Machine() {
		return nil, nil
	}
	all, err := s.cluster.Prototypes(ctx)
	if err != nil && !errors.Is(err, cluster.ErrNotInstalled) {
		return nil, err
	}
	facts := s.known().Facts(ctx, all)
	facts.Pools = []attention.Pool{attention.PoolOf(h)}
	return attention.OfPools(attention.List(facts), h.Pool), nil
}
