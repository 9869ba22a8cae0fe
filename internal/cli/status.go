package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/process"
)

func newStatusCommand(f *Factory, o *Options) *cobra.Command {
	var (
		format   output.Format
		watch    bool
		interval time.Duration
	)
	cmd := &cobra.Command{
		Use:   "status [POOL]",
		Short: "Show pools, their image versions, and captures",
		Long: `Show the pools of the cluster: the image and version for new nodes, all versions, running captures, and the last
capture of each pool. With a pool, the output also has the pending patches, if a policy with spec.pioneer checks the
pool. Without a pool, the output also lists nodes that stay reserved after a lost capture, and leftovers of captures
that no longer exist.

The version in use is marked "current". The target of a rollback is marked "prior".`,
		Example: `  kamino status
  kamino status pool1 -o wide
  kamino status --watch`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completePools(f, o),
		RunE: inSession(f, o, func(ctx context.Context, s *session, args []string) error {
			pool := strings.Join(args, "")
			if watch {
				return s.watchStatus(ctx, pool, format, interval)
			}
			text, trouble := s.statusText(ctx, pool, format)
			if _, err := s.Out.Write(text); err != nil {
				return err
			}
			return trouble
		}),
	}
	output.Bind(cmd, &format, output.Table, output.Wide, output.JSON, output.YAML)
	bindWatch(cmd, &watch, &interval)
	return cmd
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
		text, err := s.statusText(ctx, pool, format)
		if err != nil {
			return err
		}
		return screen.Draw(text)
	})
}

// statusText looks once, and prints all available facts. The error is the first problem of a look.
func (s *session) statusText(ctx context.Context, pool string, format output.Format) ([]byte, error) {
	report, trouble := s.report(ctx, pool)
	if report == nil {
		return nil, trouble
	}
	var text bytes.Buffer
	if err := print.Status(&text, format, *report, s.Now()); err != nil {
		return nil, err
	}
	return text.Bytes(), trouble
}

// addPatches adds the pending patches of pools. A missing permission leaves the rest of the report.
func (s *session) addPatches(ctx context.Context, pools []print.PoolStatus) {
	policies, err := s.cluster.Policies(ctx)
	if err != nil {
		s.note("pending patches are unknown: %s", explain(err))
		return
	}
	for i := range pools {
		pools[i].Patches = print.PatchesOf(policies, pools[i].ID)
	}
}

// report reads the cluster and the cloud. Nil if there is only the error to print.
func (s *session) report(ctx context.Context, only string) (*print.Report, error) {
	all, err := s.cluster.Prototypes(ctx)
	if err != nil && !errors.Is(err, cluster.ErrNotInstalled) {
		return nil, err
	}
	standings, reserved, err := s.standings(ctx, only, all)
	if err != nil {
		return nil, err
	}
	report := &print.Report{Pools: print.PoolsOf(standings, explain), Reservations: reserved}
	report.Captures = print.Latest(all, report.Pools, only != "")
	if only != "" {
		s.addPatches(ctx, report.Pools)
	}
	for _, p := range standings {
		if p.Err != nil {
			return report, fmt.Errorf("pool %s: %w", p.Name, p.Err)
		}
	}
	return report, nil
}
