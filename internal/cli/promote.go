package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/rollback"
)

const promoteHelp = `Point the pool's recipe at a version that is complete and that no capture pointed it at: a capture waits for that
(settings.promotion.mode Manual), its promotion was refused (the pool's upgrade policy would have changed nodes that run), somebody pointed the
recipe at another image meanwhile, its trial could not tell, or the capture was called off while its image was being
made. With --dry-run it says what the recipe would lose, and what the trial of the version has found.

It does to the recipe what the capture would have done, and saves what the recipe loses first. Nodes that run stay
as they are; a pool whose upgrade policy would change them is refused. To go back to an earlier version, use
"kamino rollback", which also quarantines the one that it leaves.`

func newPromoteCommand(f *Factory, o *Options) *cobra.Command {
	return versionCommand(f, o, &cobra.Command{
		Use:   "promote POOL VERSION",
		Short: "Point a pool at a complete version that its capture did not point it at",
		Long:  promoteHelp,
		Example: `  kamino promote pool1 2026.03.14 --dry-run
  kamino promote pool1 2026.03.14`,
	}, &changeFlags{}, func(ctx context.Context, c *change, version string) error { return c.promote(ctx, version) })
}

func (c *change) promote(ctx context.Context, version string) error {
	refused := fmt.Sprintf("pool %s can't be pointed at version %s", c.history.Pool, version)
	decided, refusals := c.history.Promote(version)
	if refusals != nil {
		return refusal(refused, refusals)
	}
	var alters cloud.RecipeChange
	saved := ""
	if !decided.Done {
		var err error
		if alters, err = c.provider.RecipeChange(ctx, cloud.ImageRef{Pool: c.pool.ID, Version: decided.Version}, decided.RemovesBootstrap); err != nil {
			return err
		}
		if len(alters.Refusals) > 0 {
			return refusal(refused, alters.Refusals)
		}
		if !c.dryRun {
			result, err := c.carryOut(ctx, rollback.OfPromotion(decided, c.provider, c.pool.ID, c.secrets()))
			if err != nil {
				return err
			}
			saved = result.Saved
		}
	}
	return print.WriteDeed(c.Out, c.format, print.Promoted(decided, alters, saved, c.dryRun))
}
