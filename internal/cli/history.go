package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/print"
)

func newHistoryCommand(f *Factory, o *Options) *cobra.Command {
	var (
		format print.Format
		keep   int
	)
	cmd := &cobra.Command{
		Use:   "history POOL",
		Short: "Show a pool's versions: where each came from, which nodes run it, and whether it stays",
		Long: `Show every version of the pool's image, newest first: the donor whose disk it is, its lineage (the version that
the donor itself was built from), how many nodes were built from it, and whether the next capture keeps or
retires it, with the reason.

A version is "current" if the recipe names it, "prior" if a rollback goes to it, "newer" or "older" if it could be
used, and "quarantined" if it must never be.`,
		Example: `  kamino history pool1
  kamino history pool1 -o wide
  kamino history pool1 -o json | jq -r '.versions[] | select(.use == "current") | .nodes[]'`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completePools(f, o),
		RunE: inSession(f, o, func(ctx context.Context, s *session, args []string) error {
			_, h, err := s.lookBack(ctx, args[0], keep)
			if err != nil {
				return err
			}
			return print.History(s.Out, format, h, s.Now())
		}),
	}
	bindOutput(cmd, &format, print.Table, print.Wide, print.JSON, print.YAML)
	cmd.Flags().IntVar(&keep, "keep", 0, "judge as a capture with this --keep would (default: as the pool's last one)")
	before(cmd, func() error {
		if cmd.Flags().Changed("keep") && keep < 2 {
			return usagef("--keep %d is too few: the current and the prior version always stay", keep)
		}
		return nil
	})
	return cmd
}
