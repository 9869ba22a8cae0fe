package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/rollback"
)

// versionCommand is a verb on one version of a pool.
func versionCommand(f *Factory, o *Options, cmd *cobra.Command, flags *changeFlags, do func(ctx context.Context, c *change, version string) error) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(2), completePoolVersions(f, o)
	cmd.RunE = changing(f, o, flags, func(ctx context.Context, c *change, args []string) error { return do(ctx, c, args[1]) })
	flags.bind(cmd)
	return cmd
}

func newQuarantineCommand(f *Factory, o *Options) *cobra.Command {
	flags := &changeFlags{}
	cmd := versionCommand(f, o, &cobra.Command{
		Use:   "quarantine POOL VERSION",
		Short: "Mark a version as never to be used: by no capture and no rollback",
		Long: `Mark a version as never to be used. No capture points a recipe at it, and no rollback goes to it. It is not
deleted: nodes that run it stay as they are, and retention retires it in its turn.

The version that the recipe names is refused: "kamino rollback" quarantines that one and points the pool at another.`,
		Example: `  kamino quarantine pool1 2026.03.02 --reason "kernel panics under load"`,
	}, flags, func(ctx context.Context, c *change, version string) error {
		m, refusals := c.history.Quarantine(version, c.reason)
		return c.mark(ctx, "quarantine", m, refusals)
	})
	cmd.Flags().StringVar(&flags.reason, "reason", "", "why it must not be used; needed")
	before(cmd, flags.checkReason)
	return cmd
}

func newReleaseCommand(f *Factory, o *Options) *cobra.Command {
	flags := &changeFlags{}
	cmd := &cobra.Command{
		Use:   "release POOL [VERSION]",
		Short: "Lift a version's quarantine, or acknowledge that a pool went back by itself",
		Long: `Lift a version's quarantine: a rollback may go to it again. The recipe stays as it is.

Without a version, acknowledge that the pool went back from one by itself, because its nodes did not join: the
policy captures nodes of the pool again. A version that was bad stays quarantined.

To take a rollback back, release the version and name it: kamino rollback POOL --to VERSION.`,
		Example: `  kamino release pool1 2026.03.02
  kamino release pool1`,
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: completePoolVersions(f, o),
	}
	cmd.RunE = changing(f, o, flags, func(ctx context.Context, c *change, args []string) error {
		if len(args) == 1 {
			return c.acknowledge(ctx)
		}
		m, refusals := c.history.Release(args[1])
		return c.mark(ctx, "release", m, refusals)
	})
	flags.bind(cmd)
	return cmd
}

func (c *change) acknowledge(ctx context.Context) error {
	a := c.history.Acknowledge(c.Now())
	deed := print.Acknowledged(a, c.dryRun)
	if !c.dryRun {
		for _, m := range a.Marks {
			if _, err := c.carryOut(ctx, rollback.OfMark(m, c.provider, c.pool.ID)); err != nil {
				return err
			}
		}
		print.Unlooked(c.Err, policy.LookAgain(ctx, c.cluster.Client, c.history.Pool, c.Now()))
	}
	return print.WriteDeed(c.Out, c.format, deed)
}

func newRetireCommand(f *Factory, o *Options) *cobra.Command {
	return versionCommand(f, o, &cobra.Command{
		Use:   "retire POOL VERSION",
		Short: "Delete an old version",
		Long: `Delete a version of the pool's image. Captures do that by themselves with versions beyond --keep; this is for one
that should go earlier.

Refused for the version that the recipe names, for the one that a rollback goes to, for one that a capture is
making, and where the recipe names none of the versions, so that these can't be told from the others. Nodes that
were built from the version keep running.`,
		Example: `  kamino retire pool1 2026.02.01 --dry-run`,
	}, &changeFlags{}, func(ctx context.Context, c *change, version string) error { return c.retire(ctx, version) })
}

// mark quarantines or releases.
func (c *change) mark(ctx context.Context, verb string, m history.Mark, refusals []cloud.Refusal) error {
	if refusals != nil {
		return refusal(fmt.Sprintf("pool %s: %s is refused", c.history.Pool, verb), refusals)
	}
	return c.end(ctx, print.Marked(verb, m, c.dryRun), rollback.OfMark(m, c.provider, c.pool.ID))
}

func (c *change) retire(ctx context.Context, version string) error {
	r, refusals := c.history.Retire(version)
	if refusals != nil {
		return refusal(fmt.Sprintf("version %s of pool %s can't be retired", version, c.history.Pool), refusals)
	}
	return c.end(ctx, print.Retired(r, c.dryRun), rollback.OfRetirement(r, c.provider, c.pool.ID))
}
