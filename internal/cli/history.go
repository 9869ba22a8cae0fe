package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
)

func newHistoryCommand(f *Factory, o *Options) *cobra.Command {
	var (
		format        output.Format
		keep          int
		events, watch bool
		interval      time.Duration
	)
	cmd := &cobra.Command{
		Use:   "history POOL",
		Short: "Show a pool's image versions, or what happened to the pool, in order",
		Long: `Show every image version of the pool, newest first: the donor, the parent version that the donor ran, and the number of nodes built from the version.
The output also says whether the next capture keeps or deletes the version, and why.

The use of a version is "current" (the recipe names it), "prior" (a rollback goes to it), "newer", "older", or "quarantined" (never used again).

With --events, you see instead what happened to the pool in the order of time, the oldest first: events, steps of captures, conditions, checks of
trials, joins of nodes, new versions and rollbacks. A fact that several objects report appears once. The API server deletes events after an hour by
default, while steps, conditions and versions stay longer.`,
		Example: `  kamino history pool1
  kamino history pool1 -o wide
  kamino history pool1 -o json | jq -r '.versions[] | select(.use == "current") | .nodes[]'
  kamino history pool1 --events --watch
  kamino history pool1 --events -o json | jq '.[] | select(.warning)'`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completePools(f, o),
		RunE: inLook(f, o, func(ctx context.Context, s *session, args []string) error {
			switch {
			case watch:
				return s.watchTimeline(ctx, args[0], format, interval)
			case events:
				entries, err := s.timeline(ctx, args[0])
				if err != nil {
					return err
				}
				return print.Timeline(s.Out, format, entries)
			}
			_, h, err := s.lookBack(ctx, args[0], keep)
			if err != nil {
				if e := (*cloud.Error)(nil); errors.As(err, &e) && e.Kind != cloud.NotFound {
					s.meanwhile()
				}
				return err
			}
			items, err := s.itemsOf(ctx, h, format)
			if err != nil {
				return err
			}
			return print.History(s.Out, format, h, items, s.Now())
		}),
	}
	output.Bind(cmd, &format, output.Table, output.Wide, output.JSON, output.YAML)
	cmd.Flags().IntVar(&keep, "keep", 0, "evaluate retention with this --keep (default: the pool's last capture)")
	cmd.Flags().BoolVar(&events, "events", false, "show what happened to the pool, in order")
	bindWatch(cmd, &watch, &interval)
	output.Before(cmd, func() error {
		switch {
		case watch && !events:
			return usagef("--watch needs --events: versions change rarely")
		case events && cmd.Flags().Changed("keep"):
			return usagef("--keep evaluates versions, and --events shows none")
		}
		if cmd.Flags().Changed("keep") && keep < 2 {
			return usagef("--keep must be at least 2, not %d: the current and the prior version always stay", keep)
		}
		return nil
	})
	return cmd
}
