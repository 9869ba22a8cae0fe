package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

func (r *root) down() *cobra.Command {
	var within time.Duration
	command := &cobra.Command{
		Use: "down", Short: "Stop the sandbox in the directory, and wait for its end", Args: exactly(),
		RunE: r.dialed(func(ctx context.Context, client *control.Client, _ []string) error {
			ctx, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			if err := client.Stop(ctx); err != nil {
				return err
			}
			return r.awaitEnd(ctx)
		}),
	}
	command.Flags().DurationVar(&within, "within", time.Minute, "how long to wait")
	return command
}

// awaitEnd returns when the lock of the directory is free: the lock ends with the process.
func (r *root) awaitEnd(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := sandboxdir.Open(r.dir, "")
		if err == nil {
			_, err = fmt.Fprintln(r.stdout, "stopped")
			return errors.Join(err, s.Close())
		}
		var inUse *sandboxdir.InUseError
		if !errors.As(err, &inUse) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the sandbox received the order to stop, and still runs: %w", err)
		}
	}
}
