package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/replace"
	"github.com/kamino-dev/kamino/internal/rollback"
	"github.com/kamino-dev/kamino/internal/rollback/plan"
)

const rollbackHelp = `Point the pool's recipe at an earlier version, and quarantine the one that it leaves, so that no capture and no
rollback uses it again. Nodes that run stay as they are; those that run the bad version are named.

Without --to the pool goes to the version that "kamino history" calls prior. The quarantine is written first: if
the command is cut short in between, the same command again goes on, and "kamino history" shows until then that the
recipe names a quarantined version. Once it is done, the same command again changes nothing; to go further back,
name the version.

A rollback that Kamino began automatically, and that is not finished, is finished by this command: it goes to the same
version.

With --to a newer version that is not quarantined (see "kamino release"), a rollback is taken back. The older version
is not quarantined then.

With --replace-nodes the nodes that run the bad version are then rebuilt from the version that the pool went to:
each is cordoned, drained with regard to budgets, given a new disk, waited for, and put back into service, as many
at a time as --max-unavailable allows; nodes that are not Ready count too, and those to be rebuilt go first. It may
be interrupted: the same command again goes on. A node that can't be drained is given back as it is; one that does
not come back stays cordoned and stops the rest. For an outage, --all-at-once --accept-outage rebuilds all of them
at the same time and drains none. It needs more permissions than a capture; "kamino doctor" names them.

Refused while a capture of the pool is in flight: it would point the recipe at its own version afterwards.`

func newRollbackCommand(f *Factory, o *Options) *cobra.Command {
	var flags changeFlags
	var replacing replaceFlags
	var to string
	cmd := &cobra.Command{
		Use:   "rollback POOL",
		Short: "Point a pool at its prior version, and quarantine the one that it leaves",
		Long:  rollbackHelp,
		Example: `  kamino rollback pool1 --dry-run
  kamino rollback pool1 --reason "nodes lose their network after an hour"
  kamino rollback pool1 --to 2026.03.02
  kamino rollback pool1 --replace-nodes --max-unavailable 3`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completePools(f, o),
		RunE: changing(f, o, &flags, func(ctx context.Context, c *change, _ []string) error { return c.rollback(ctx, to, replacing) }),
	}
	flags.bind(cmd)
	replacing.bind(cmd)
	cmd.Flags().StringVar(&to, "to", "", "`version` to go to (default: the prior one)")
	cmd.Flags().StringVar(&flags.reason, "reason", "", "why the version is bad, for whoever finds it quarantined (default: the day)")
	_ = cmd.RegisterFlagCompletionFunc("to", completeVersions(f, o))
	before(cmd, func() error {
		if !cmd.Flags().Changed("reason") {
			flags.reason = "rolled back on " + f.Now().UTC().Format(time.DateOnly)
		}
		return errors.Join(flags.checkReason(), replacing.check())
	})
	return cmd
}

func (c *change) rollback(ctx context.Context, to string, replacing replaceFlags) error {
	if replacing.nodes && !replace.Able(c.provider) {
		return refusedf("this cloud can't rebuild nodes, and nothing was changed: leave --replace-nodes out")
	}
	refused := fmt.Sprintf("pool %s can't be rolled back", c.history.Pool)
	r, refusals := c.history.Rollback(to, c.reason)
	if refusals != nil {
		return refusal(refused, refusals)
	}
	var pace *print.Pace
	if replacing.nodes {
		pace = &replacing.Pace
	}
	deed := print.RolledBack(r, pace, c.dryRun)
	if crowd := c.pools().CrowdAfter(ctx, c.history, r.To); crowd != "" {
		deed.Lines = append(deed.Lines, capital(crowd)+".")
	}
	if !r.Done {
		// What can fail without having changed anything is tried first.
		change, err := c.provider.RecipeChange(ctx, cloud.ImageRef{Pool: c.pool.ID, Version: r.To}, false)
		if err != nil {
			return err
		}
		if len(change.Refusals) > 0 {
			return refusal(refused, change.Refusals)
		}
	}
	if deed.Changed {
		if err := c.goBack(ctx, r); err != nil {
			return err
		}
	}
	if replacing.nodes && !c.dryRun {
		return c.replaceNodes(ctx, deed, replacing)
	}
	return print.WriteDeed(c.Out, c.format, deed)
}

// goBack quarantines, then points the recipe at the version.
func (c *change) goBack(ctx context.Context, r history.Rollback) error {
	result, err := c.carryOut(ctx, rollback.Of(r, c.provider, c.pool.ID))
	switch {
	case err == nil:
		return nil
	case result.Did == plan.Point || result.Did == plan.Stop:
		although := ""
		if len(r.Tags) > 0 {
			although = ", which is quarantined now"
		}
		return &ending{exitCode(err), fmt.Errorf("the recipe of pool %s still names version %s%s, so that new nodes are still built from it; "+
			"run the same command again once this is mended: %s", r.Pool, r.From, although, explain(err))}
	}
	return fmt.Errorf("pool %s is not rolled back: %w", r.Pool, err)
}
