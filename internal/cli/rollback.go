package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/rebuild"
	"github.com/kamino-dev/kamino/internal/recipe"
	"github.com/kamino-dev/kamino/internal/wording"
)

const rollbackHelp = `Point the pool's recipe at an earlier version, and quarantine the current one, which no capture and no rollback then uses.
Running nodes don't change; the output lists those that run the bad version.

Without --to, the pool goes to the version that "kamino history" shows as prior, and --to goes further back. Kamino writes the quarantine first, so
after an interruption "kamino history" shows that the recipe names a quarantined version: run the same command again to continue. After a finished
rollback, the same command changes nothing. If Kamino has begun an automatic rollback of the pool, this command finishes it, to the same version.

To undo a rollback, lift the quarantine with "kamino unquarantine", and pass the newer version with --to. Kamino then doesn't quarantine the older
one.

With --replace-nodes, Kamino also rebuilds the nodes of the bad version: it cordons each node, drains it within its disruption budgets, replaces the
disk, waits until the node is Ready, and uncordons it. --max-unavailable limits parallel rebuilds; nodes that are not Ready count, and come first.
If a drain fails, Kamino uncordons the node without a rebuild. If a rebuilt node doesn't become Ready, it stays cordoned and Kamino stops.

During an outage, --all-at-once --accept-outage rebuilds all nodes at the same time without a drain. Rebuilds need more permissions than captures,
and "kamino doctor" lists them.

The command refuses a pool with a running capture, because the capture would point the recipe at its own version afterwards.`

func newRollbackCommand(f *Factory, o *Options) *cobra.Command {
	var flags changeFlags
	var replacing replaceFlags
	var to string
	cmd := &cobra.Command{
		Use:   "rollback POOL",
		Short: "Point a pool at its prior version, and quarantine the current version",
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
	cmd.Flags().StringVar(&to, "to", "", "target `version` (default: the prior version)")
	cmd.Flags().StringVar(&flags.reason, "reason", "", "why the version is bad; stored with the quarantine (default: the date)")
	_ = cmd.RegisterFlagCompletionFunc("to", completeVersions(f, o))
	output.Before(cmd, func() error {
		if !cmd.Flags().Changed("reason") {
			flags.reason = "rolled back on " + f.Now().UTC().Format(time.DateOnly)
		}
		return errors.Join(flags.checkReason(), replacing.check())
	})
	return cmd
}

func (c *change) rollback(ctx context.Context, to string, replacing replaceFlags) error {
	if replacing.nodes && !c.provider.CanRebuild(c.pool.ID) {
		return refusedf("the cloud cannot rebuild nodes of this pool; nothing was changed: run again without --replace-nodes")
	}
	refused := fmt.Sprintf("cannot roll back pool %s", c.history.Pool)
	r, refusals := c.history.Rollback(to, c.reason)
	if replacing.nodes {
		missing, err := rebuild.Refuse(ctx, c.provider, c.pool.ID)
		if err != nil {
			return err
		}
		refusals = append(refusals, missing...)
	}
	if refusals != nil {
		return refusal(refused, refusals)
	}
	var pace *print.Pace
	if replacing.nodes {
		pace = &replacing.Pace
	}
	deed := print.RolledBack(r, pace, c.dryRun)
	if crowd := c.pools().ImageLimitWarning(ctx, c.history, r.To); crowd != "" {
		deed.Lines = append(deed.Lines, wording.Capital(crowd)+".")
	}
	made := recipe.OfRollback(r, c.provider, c.pool.ID)
	if !r.Done {
		// First try the step that can fail without a change.
		change, err := made.MayWrite(ctx)
		if err != nil {
			return err
		}
		if len(change.Refusals) > 0 {
			return refusal(refused, change.Refusals)
		}
	}
	if deed.Changed {
		if err := c.goBack(ctx, r, made); err != nil {
			return err
		}
	}
	if replacing.nodes && !c.dryRun {
		return c.replaceNodes(ctx, deed, replacing)
	}
	return print.WriteChangeResult(c.Out, c.format, deed)
}

// goBack quarantines the version, then points the recipe at the earlier version.
func (c *change) goBack(ctx context.Context, r history.Rollback, made *recipe.Change) error {
	result, err := c.carryOut(ctx, made)
	switch {
	case err == nil:
		return nil
	case result.Did.Do == recipe.Point || result.Did.Do == recipe.Fail:
		although := ""
		if len(r.Tags) > 0 {
			although = ", now quarantined"
		}
		return &failure{Code: exitCode(err), Err: fmt.Errorf("the recipe of pool %s still names version %s%s, and new nodes still use the version: "+
			"fix the cause and run the same command again: %s", r.Pool, r.From, although, explain(err))}
	}
	return fmt.Errorf("pool %s is not rolled back: %w", r.Pool, err)
}
