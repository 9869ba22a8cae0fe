package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/rebuild"
)

const rebuildHelp = `Rebuild the nodes of a pool that run its oldest image, from the current version. Kamino cordons each node, drains it within its
disruption budgets, replaces the disk, waits until the node is Ready, and uncordons it. --max-unavailable limits parallel rebuilds. If the command is
interrupted, run it again to continue, and run it once more for the next oldest image. Kamino never rebuilds nodes of the current version.

You need this where a cloud limits the number of different images in a pool, because at the limit the pool can't grow; "kamino doctor" warns before.
Deleting versions doesn't help, because a node keeps its image.

The command refuses a pool with a running capture. The credential needs the permissions that "kamino manifests --iam --rebuild" adds; without them
the command is refused before it reserves a node.`

func newRebuildCommand(f *Factory, o *Options) *cobra.Command {
	flags, replacing := changeFlags{}, replaceFlags{nodes: true}
	cmd := &cobra.Command{
		Use:   "rebuild POOL",
		Short: "Rebuild a pool's oldest nodes from its current version",
		Long:  rebuildHelp,
		Example: `  kamino rebuild pool1 --dry-run
  kamino rebuild pool1 --max-unavailable 3`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completePools(f, o),
		RunE: changing(f, o, &flags, func(ctx context.Context, c *change, _ []string) error { return c.rebuild(ctx, replacing) }),
	}
	flags.bind(cmd)
	replacing.bindPace(cmd, "")
	output.Before(cmd, replacing.check)
	return cmd
}

func (c *change) rebuild(ctx context.Context, replacing replaceFlags) error {
	if !c.provider.CanRebuild(c.pool.ID) {
		return refusedf("the cloud cannot rebuild nodes of this pool; nothing was changed")
	}
	missing, err := rebuild.Refuse(ctx, c.provider, c.pool.ID)
	if err != nil {
		return err
	}
	if refusals := append(c.history.RefuseRebuild(), missing...); refusals != nil {
		return refusal(fmt.Sprintf("cannot rebuild nodes of pool %s", c.history.Pool), refusals)
	}
	instances, err := c.provider.Instances(ctx, c.pool.ID)
	if err != nil {
		return err
	}
	oldest := imagecount.Of(c.history.Recipe, instances, c.provider.MaxImages(c.pool.ID)).Oldest(c.history.Recipe)
	deed := print.Rebuilt(c.history, oldest, replacing.Pace, c.dryRun)
	if oldest.Name == "" || c.dryRun {
		return print.WriteChangeResult(c.Out, c.format, deed)
	}
	replacing.image = oldest.Name
	return c.replaceNodes(ctx, deed, replacing)
}
