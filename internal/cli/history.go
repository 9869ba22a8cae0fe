package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/print"
)

func newHistoryCommand(f *Factory, o *Options) *cobra.Command {
	var (
		output string
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
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := print.ParseFormat(output, print.Table, print.Wide, print.JSON, print.YAML)
			if err != nil {
				return &ending{ExitUsage, err}
			}
			if cmd.Flags().Changed("keep") && keep < 2 {
				return usagef("--keep %d is too few: the current and the prior version always stay", keep)
			}
			s, err := open(cmd.Context(), f, o)
			if err != nil {
				return err
			}
			return s.history(cmd.Context(), args[0], keep, format)
		},
	}
	bindOutput(cmd, &output, print.Table, print.Wide, print.JSON, print.YAML)
	cmd.Flags().IntVar(&keep, "keep", 0, "judge as a capture with this --keep would (default: as the pool's last one)")
	return cmd
}

func (s *session) history(ctx context.Context, pool string, keep int, format print.Format) error {
	p, err := s.findPool(ctx, pool)
	if err != nil {
		return err
	}
	h, err := s.tell(ctx, p, keep)
	if err != nil {
		return err
	}
	if format == print.JSON || format == print.YAML {
		return print.Value(s.Out, format, h)
	}
	return print.History(s.Out, h, format == print.Wide, s.Now())
}
