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
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.complete(false); err != nil {
				return err
			}
			if err := replacing.check(); err != nil {
				return err
			}
			s, err := open(cmd.Context(), f, o)
			if err != nil {
				return err
			}
			return s.rebuild(cmd.Context(), args[0], flags, replacing)
		},
	}
	flags.bind(cmd)
	replacing.bindPace(cmd, "")
	return cmd
}

func (s *session) rebuild(ctx context.Context, name string, flags changeFlags, replacing replaceFlags) error {
	p, h, err := s.lookBack(ctx, name, 0)
	if err != nil {
		return err
	}
	census, able := cloud.As[cloud.Census](s.provider)
	if !able || !replace.Able(s.provider) {
		return refusedf("this cloud can't rebuild nodes, and nothing was changed")
	}
	if refusals := h.RefuseRebuild(); refusals != nil {
		return refusal(fmt.Sprintf("no node of pool %s is rebuilt", h.Pool), refusals)
	}
	instances, err := census.Instances(ctx, p.ID)
	if err != nil {
		return err
	}
	oldest := spread.Of(h.Recipe, instances, census.MaxImages()).Oldest(h.Recipe)
	deed := print.Deed{Verb: "rebuild", Pool: h.Pool, Version: oldestName(oldest), To: h.Recipe.Version, DryRun: flags.dryRun}
	if oldest.Name == "" {
		deed.Lines = []string{fmt.Sprintf("All nodes of pool %s were built from version %s already.", h.Pool, h.Recipe.Version)}
		return print.WriteDeed(s.Out, flags.format, deed)
	}
	how := "rebuilt now"
	if flags.dryRun {
		how = "to be rebuilt"
	}
	deed.Lines = []string{fmt.Sprintf("%s %s, the oldest image of pool %s: %s from version %s, %d at a time.",
		print.Run(oldest.Count), deed.Version, h.Pool, how, deed.To, replacing.maxUnavailable)}
	if flags.dryRun {
		return print.WriteDeed(s.Out, flags.format, deed)
	}
	replacing.image = oldest.Name
	return s.replaceNodes(ctx, p.ID, deed, flags, replacing)
}

// oldestName is an image as a sentence names it.
func oldestName(image spread.Image) string {
	if image.Version != "" {
		return image.Version
	}
	return image.Name
}
