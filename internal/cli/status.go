package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cluster"
)

func newStatusCommand(f *Factory, o *Options) *cobra.Command {
	var (
		format   print.Format
		watch    bool
		interval time.Duration
	)
	cmd := &cobra.Command{
		Use:   "status [POOL]",
		Short: "Show pools, their image versions, and captures",
		Long: `Show the pools of the cluster: the image and version for new nodes, all versions, running captures, and the last
capture of each pool. Without a pool, the output also lists nodes that stay reserved after a lost capture, and
leftovers of captures that no longer exist.

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
	bindOutput(cmd, &format, print.Table, print.Wide, print.JSON, print.YAML)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "refresh until interrupted")
	cmd.Flags().DurationVar(&interval, "interval", 10*time.Second, "refresh interval of --watch")
	before(cmd, func() error {
		if interval < time.Second {
			return usagef("--interval %s is too short, because each refresh calls the cloud: use 1s or more", interval)
		}
		return nil
	})
	return cmd
}

func (s *session) watchStatus(ctx context.Context, pool string, format print.Format, interval time.Duration) error {
	var shown []byte
	for {
		text, trouble := s.statusText(ctx, pool, format)
		if ctx.Err() != nil {
			return nil // an interrupt ends the watch
		}
		switch {
		case trouble != nil && !cluster.Unreachable(trouble):
			return trouble
		case trouble != nil:
			s.note("%s; retrying", explain(trouble))
		case !bytes.Equal(text, shown):
			if s.Redraws != nil && s.Redraws() && s.Getenv("TERM") != "dumb" {
				if _, err := io.WriteString(print.Raw(s.Out), "\x1b[H\x1b[2J"); err != nil {
					return err
				}
			}
			if _, err := s.Out.Write(text); err != nil {
				return err
			}
			shown = text
		}
		if pause(ctx, interval) != nil {
			return nil
		}
	}
}

// statusText looks once, and prints all available facts. The error is the first problem of a look.
func (s *session) statusText(ctx context.Context, pool string, format print.Format) ([]byte, error) {
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
	for _, p := range standings {
		if p.Err != nil {
			return report, fmt.Errorf("pool %s: %w", p.Name, p.Err)
		}
	}
	return report, nil
}
