package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/recipe"
)

// versionCommand is a verb on one version of a pool.
func versionCommand(f *Factory, o *Options, cmd *cobra.Command, flags *changeFlags,
	do func(ctx context.Context, c *change, version string) error) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(2), completePoolVersions(f, o, 1)
	cmd.RunE = changing(f, o, flags, func(ctx context.Context, c *change, args []string) error { return do(ctx, c, args[1]) })
	flags.bind(cmd)
	return cmd
}

func newQuarantineCommand(f *Factory, o *Options) *cobra.Command {
	flags := &changeFlags{}
	cmd := versionCommand(f, o, &cobra.Command{
		Use:   "quarantine POOL VERSION",
		Short: "Forbid the use of a version in captures and rollbacks",
		Long: `Mark a version as bad, so that no capture points a recipe at it and no rollback goes to it. The version isn't deleted: its nodes don't change, and
retention deletes it later.

The command refuses the current version. Use "kamino rollback" for that, which quarantines it and points the pool at an earlier one.`,
		Example: `  kamino quarantine pool1 2026.03.02 --reason "kernel panics under load"`,
	}, flags, func(ctx context.Context, c *change, version string) error {
		m, refusals := c.history.Quarantine(version, c.reason)
		return c.mark(ctx, "quarantine", m, refusals)
	})
	cmd.Flags().StringVar(&flags.reason, "reason", "", "why the version must not be used (required)")
	output.Before(cmd, flags.checkReason)
	return cmd
}

func newUnquarantineCommand(f *Factory, o *Options) *cobra.Command {
	return versionCommand(f, o, &cobra.Command{
		Use:   "unquarantine POOL VERSION",
		Short: "Lift a version's quarantine",
		Long: `Lift a version's quarantine, so that captures and rollbacks may use the version again. The recipe doesn't change.

To undo a rollback, lift the quarantine and roll back to the version: kamino rollback POOL --to VERSION.`,
		Example: `  kamino unquarantine pool1 2026.03.02`,
	}, &changeFlags{}, func(ctx context.Context, c *change, version string) error {
		m, refusals := c.history.Unquarantine(version)
		return c.mark(ctx, "unquarantine", m, refusals)
	})
}

func newAcknowledgeCommand(f *Factory, o *Options) *cobra.Command {
	flags := &changeFlags{}
	cmd := &cobra.Command{
		Use:   "acknowledge POOL",
		Short: "Acknowledge an automatic rollback, so that captures start again",
		Long: `Acknowledge an automatic rollback of the pool, after which new nodes did not join. The policy then captures nodes of
the pool again. The bad version stays quarantined: see "kamino unquarantine".`,
		Example: `  kamino acknowledge pool1`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completePools(f, o),
	}
	cmd.RunE = changing(f, o, flags, func(ctx context.Context, c *change, _ []string) error { return c.acknowledge(ctx) })
	flags.bind(cmd)
	return cmd
}

func (c *change) acknowledge(ctx context.Context) error {
	a := c.history.Acknowledge(c.Now())
	deed := print.Acknowledged(a, c.dryRun)
	if !c.dryRun {
		for _, m := range a.Marks {
			if _, err := c.carryOut(ctx, recipe.OfMark(m, c.provider, c.pool.ID)); err != nil {
				return err
			}
		}
		print.Unlooked(c.Err, policy.LookAgain(ctx, c.cluster.Client, c.history.Pool, c.Now()))
	}
	return print.WriteChangeResult(c.Out, c.format, deed)
}

func newDeleteVersionCommand(f *Factory, o *Options) *cobra.Command {
	return versionCommand(f, o, &cobra.Command{
		Use:   "delete-version POOL VERSION",
		Short: "Delete an old version",
		Long: `Delete a version of the pool's image. Captures delete the versions beyond settings.keep on their own, so you need this only to delete one earlier.

The command refuses the current version, the prior version, and a version that a capture is creating. After "kamino restore" no version is current or
prior, and you can delete each version that no node of the pool runs, also the last. Running nodes of a deleted version don't change.`,
		Example: `  kamino delete-version pool1 2026.02.01 --dry-run`,
	}, &changeFlags{}, func(ctx context.Context, c *change, version string) error { return c.deleteVersion(ctx, version) })
}

// mark quarantines a version, or ends a quarantine.
func (c *change) mark(ctx context.Context, verb string, m history.Mark, refusals []cloud.Refusal) error {
	if refusals != nil {
		return refusal(fmt.Sprintf("pool %s: %s is refused", c.history.Pool, verb), refusals)
	}
	return c.end(ctx, print.Marked(verb, m, c.dryRun), recipe.OfMark(m, c.provider, c.pool.ID))
}

func (c *change) deleteVersion(ctx context.Context, version string) error {
	r, refusals := c.history.Retire(version)
	if refusals != nil {
		return refusal(fmt.Sprintf("cannot delete version %s of pool %s", version, c.history.Pool), refusals)
	}
	return c.end(ctx, print.Retired(r, c.dryRun), recipe.OfRetirement(r, c.provider, c.pool.ID))
}
