package cli

import (
	"context"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/history/timeline"
)

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
