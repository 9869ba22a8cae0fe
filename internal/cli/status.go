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
		Short: "Show pools, what their next nodes are built from, their versions, and captures",
		Long: `Show the pools that the cluster's nodes belong to: the image and version that each pool builds its next nodes
from, every version that there is, and the captures in flight together with the last one of each pool. Nodes that are
held by nobody who gives them back, and what captures have left that are gone, are told below, unless a pool is named.

The version in use is marked "current"; the one that a rollback would go to is marked "prior".`,
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
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "look again and again until interrupted")
	cmd.Flags().DurationVar(&interval, "interval", 10*time.Second, "time between two looks with --watch")
	before(cmd, func() error {
		if interval < time.Second {
			return usagef("--interval %s is too short: every look asks the cloud, so wait at least 1s", interval)
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
			return nil // interrupting is how one stops watching
		}
		switch {
		case trouble != nil && !cluster.Unreachable(trouble):
			return trouble
		case trouble != nil:
			s.note("%s; trying again", explain(trouble))
		case !bytes.Equal(text, shown):
			if s.terminal() {
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

// statusText looks once. What could be found is told even when a part could not be looked at; the first such trouble is the
// error.
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

// report looks at cluster and cloud. It is nil if there is nothing to show but the error.
func (s *session) report(ctx context.Context, only string) (*print.Report, error) {
	all, err := s.cluster.Prototypes(ctx)
	if err != nil && !errors.Is(err, cluster.ErrNotInstalled) {
		return nil, err
	}
	standings, reserved, err := s.standings(ctx, only, all)
	if err != nil {
		return nil, err
	}
	report := &print.Report{Pools: print.PoolsOf(standings, explain), Held: reserved}
	report.Captures = print.Latest(all, report.Pools, only != "")
	for _, p := range standings {
		if p.Err != nil {
			return report, fmt.Errorf("pool %s: %w", p.Name, p.Err)
		}
	}
	return report, nil
}
