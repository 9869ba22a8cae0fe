package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/replace"
	"github.com/kamino-dev/kamino/internal/spread"
)

const rebuildHelp = `Build those nodes of a pool anew that were built from its oldest image, from the version that its recipe names: each is
cordoned, drained with regard to budgets, given a new disk, waited for, and put back into service, as many at a time as
--max-unavailable allows. It may be interrupted: the same command again goes on.

A cloud may allow the nodes of one pool only so many different images, and lets a pool that would need one more grow no
longer; "kamino doctor" warns before. Deleting versions does not help, for a node keeps what it was built from. The same
command again takes the next oldest image. Nodes that already run the current version are never touched.

Refused while a capture of the pool is in flight. It needs more permissions than a capture; "kamino doctor" names them.`

func newRebuildCommand(f *Factory, o *Options) *cobra.Command {
	flags, replacing := changeFlags{}, replaceFlags{nodes: true}
	cmd := &cobra.Command{
		Use:   "rebuild POOL",
		Short: "Build a pool's oldest nodes anew from its current version",
		Long:  rebuildHelp,
		Example: `  kamino rebuild pool1 --dry-run
  kamino rebuild pool1 --max-unavailable 3`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completePools(f, o),
		RunE: changing(f, o, &flags, func(ctx context.Context, c *change, _ []string) error { return c.rebuild(ctx, replacing) }),
	}
	flags.bind(cmd)
	replacing.bindPace(cmd, "")
	before(cmd, replacing.check)
	return cmd
}

func (c *change) rebuild(ctx context.Context, replacing replaceFlags) error {
	census, able := cloud.As[cloud.Census](c.provider)
	if !able || !replace.Able(c.provider) {
		return refusedf("this cloud can't rebuild nodes, and nothing was changed")
	}
	if refusals := c.history.RefuseRebuild(); refusals != nil {
		return refusal(fmt.Sprintf("no node of pool %s is rebuilt", c.history.Pool), refusals)
	}
	instances, err := census.Instances(ctx, c.pool.ID)
	if err != nil {
		return err
	}
	oldest := spread.Of(c.history.Recipe, instances, census.MaxImages(c.pool.ID)).Oldest(c.history.Recipe)
	deed := print.Rebuilt(c.history, oldest, replacing.Pace, c.dryRun)
	if oldest.Name == "" || c.dryRun {
		return print.WriteDeed(c.Out, c.format, deed)
	}
	replacing.image = oldest.Name
	return c.replaceNodes(ctx, deed, replacing)
}
