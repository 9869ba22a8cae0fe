package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/history/timeline"
)

func newEventsCommand(f *Factory, o *Options) *cobra.Command {
	var (
		format   output.Format
		watch    bool
		interval time.Duration
	)
	cmd := &cobra.Command{
		Use:   "events POOL",
		Short: "Show what happened to a pool, in order",
		Long: `Show all facts about a pool in the order of time, the oldest first: events, steps of captures, conditions, checks of
trials, joins of nodes, new versions and rollbacks. A fact that several objects report appears once.

The API server deletes events after an hour by default. Steps, conditions and versions stay longer.`,
		Example: `  kamino events pool1
  kamino events pool1 --watch
  kamino events pool1 -o json | jq '.[] | select(.warning)'`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completePools(f, o),
		RunE: inSession(f, o, func(ctx context.Context, s *session, args []string) error {
			if watch {
				return s.watchTimeline(ctx, args[0], format, interval)
			}
			entries, err := s.timeline(ctx, args[0])
			if err != nil {
				return err
			}
			return print.Timeline(s.Out, format, entries)
		}),
	}
	output.Bind(cmd, &format, output.Table, output.Wide, output.JSON, output.YAML)
	bindWatch(cmd, &watch, &interval)
	return cmd
}

func (s *session) timeline(ctx context.Context, name string) ([]timeline.Entry, error) {
	p, err := s.pools().Named(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.pools().Timeline(ctx, p)
}

// watchTimeline prints each new or changed entry once.
func (s *session) watchTimeline(ctx context.Context, name string, format output.Format, interval time.Duration) error {
	seen := map[timeline.Entry]bool{}
	return s.watch(ctx, interval, func() error {
		entries, err := s.timeline(ctx, name)
		if err != nil {
			return err
		}
		entries = slices.DeleteFunc(entries, func(e timeline.Entry) bool { return seen[e] })
		for _, e := range entries {
			seen[e] = true
		}
		return print.MoreOfTimeline(s.Out, format, entries)
	})
}
