package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/contents"
	"github.com/kamino-dev/kamino/internal/pool"
	"github.com/kamino-dev/kamino/internal/recipe"
)

const promoteHelp = `Point the pool's recipe at a complete version that its capture did not promote. Perhaps the capture waits for approval
(settings.promotion.mode Manual), its trial was inconclusive, or it was cancelled while the cloud created the image. Or someone changed the image in
the recipe meanwhile, or the pool's upgrade policy would have replaced running nodes. --dry-run shows the fields that the recipe would lose, and the
result of the trial.

The command changes the recipe as a capture does, and saves the removed fields first. Running nodes don't change, because the command refuses a pool
whose upgrade policy would replace them. To return to an earlier version, use "kamino rollback", which also quarantines the current one.`

func newPromoteCommand(f *Factory, o *Options) *cobra.Command {
	return versionCommand(f, o, &cobra.Command{
		Use:   "promote POOL VERSION",
		Short: "Point a pool at a complete version that its capture did not promote",
		Long:  promoteHelp,
		Example: `  kamino promote pool1 2026.03.14 --dry-run
  kamino promote pool1 2026.03.14`,
	}, &changeFlags{}, func(ctx context.Context, c *change, version string) error { return c.promote(ctx, version) })
}

func (c *change) promote(ctx context.Context, version string) error {
	refused := fmt.Sprintf("cannot promote pool %s to version %s", c.history.Pool, version)
	decided, refusals := c.history.Promote(version)
	if refusals != nil {
		return refusal(refused, refusals)
	}
	var alters cloud.RecipeChange
	saved := ""
	var cautions []cloud.Refusal
	if !decided.Done {
		made := recipe.OfPromotion(decided, c.provider, c.pool.ID, c.secrets())
		var err error
		if alters, err = made.MayWrite(ctx); err != nil {
			return err
		}
		if len(alters.Refusals) > 0 {
			return refusal(refused, alters.Refusals)
		}
		if !c.dryRun {
			result, err := c.carryOut(ctx, made)
			if err != nil {
				return err
			}
			saved, cautions = result.Saved, c.cautions(ctx)
		}
	}
	deed := print.Promoted(decided, alters, saved, cautions, c.dryRun)
	if from := c.history.Find(c.history.Recipe.Version); from != nil && !decided.Done {
		compared := contents.Compare(c.history.Pool, pool.Contents(from, c.pool.Prototypes), pool.Contents(c.history.Find(version), c.pool.Prototypes))
		deed.Compare(compared.Line())
	}
	return print.WriteChangeResult(c.Out, c.format, deed)
}

// cautions are the warnings about other tools that can undo the change. Without the pool there are none.
func (c *change) cautions(ctx context.Context) []cloud.Refusal {
	seen, err := c.provider.Pool(ctx, c.pool.ID)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(seen.Cautions, func(r cloud.Refusal) bool { return r.Reason != cloud.TerraformManaged })
}
