package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/rollback"
	"github.com/kamino-dev/kamino/internal/savedrecipe"
)

const promoteHelp = `Point the pool's recipe at a version that is complete and that no capture pointed it at: the promotion of a
capture was refused (the pool's upgrade policy would have changed nodes that run), somebody pointed the recipe at
another image meanwhile, or the capture was called off while its image was being made.

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
	}, &changeFlags{}, false, (*session).promote)
}

func (s *session) promote(ctx context.Context, pool, version string, flags changeFlags) error {
	p, h, err := s.lookBack(ctx, pool, 0)
	if err != nil {
		return err
	}
	decided, refusals := h.Promote(version)
	if refusals != nil {
		return refusal(fmt.Sprintf("pool %s can't be pointed at version %s", h.Pool, version), refusals)
	}
	deed := print.Deed{
		Verb: "promote", Pool: decided.Pool, Version: decided.Version, To: decided.Version, DryRun: flags.dryRun,
		Changed: !decided.Done && !flags.dryRun,
	}
	if decided.Done {
		deed.Lines = []string{fmt.Sprintf("The recipe of pool %s names version %s already.", decided.Pool, decided.Version)}
		return print.WriteDeed(s.Out, flags.format, deed)
	}
	ref := cloud.ImageRef{Pool: p.ID, Version: decided.Version}
	change, err := s.provider.RecipeChange(ctx, ref, decided.RemovesBootstrap)
	if err != nil {
		return err
	}
	if len(change.Refusals) > 0 {
		return refusal(fmt.Sprintf("pool %s can't be pointed at version %s", h.Pool, decided.Version), change.Refusals)
	}
	saved := ""
	if deed.Changed {
		secrets := savedrecipe.Secrets{Kube: s.cluster.Kube, Namespace: s.options.Namespace}
		result, err := s.carryOut(ctx, rollback.OfPromotion(decided, s.provider, p.ID, secrets))
		if err != nil {
			return err
		}
		saved = result.Saved
	}
	deed.Lines = promoteLines(decided, change, saved, flags.dryRun)
	return print.WriteDeed(s.Out, flags.format, deed)
}

func promoteLines(p history.Promotion, change cloud.RecipeChange, saved string, dryRun bool) []string {
	builds, loses := "builds its next nodes from version %s now, and no more from %s.", "The recipe lost %s."
	if dryRun {
		builds, loses = "would build its next nodes from version %s, and no more from %s.", "The recipe would lose %s."
	}
	lines := []string{fmt.Sprintf("Pool %s "+builds, p.Pool, p.Version, orNoImage(change.From))}
	if len(change.Removes) > 0 {
		lines = append(lines, fmt.Sprintf(loses, strings.Join(cloud.SayParts(change.Removes), ", ")))
	}
	if saved != "" {
		lines = append(lines, fmt.Sprintf("What the cloud gives out of it is kept in Secret %s.", saved))
	}
	return append(lines, "Nodes that run stay as they are.")
}

func orNoImage(image string) string {
	if image == "" {
		return "no image"
	}
	return image
}
