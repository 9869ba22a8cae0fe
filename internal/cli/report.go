package cli

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history/report"
	"github.com/kamino-dev/kamino/internal/wording"
)

func newReportCommand(f *Factory, o *Options) *cobra.Command {
	var (
		format output.Format
		since  string
		price  float64
		rates  struct{ pull, volume float64 }
	)
	cmd := &cobra.Command{
		Use:   "report [POOL]",
		Short: "Show what the versions of a pool saved, and what the versions cost",
		Long: `Compare the nodes of each version with nodes of other images, and add up savings, risks and costs since a time. Every figure names its source, and a
figure without a source is unknown.

The command calculates from the nodes, versions and Prototypes that exist now. It can't count removed nodes, so most savings are lower limits, marked
"at least"; "at most" marks upper limits.`,
		Example: `  kamino report pool1
  kamino report --since 7d --price-gb-month 0.05 -o csv > report.csv
  kamino report pool1 --pull-rate 200 --volume-rate 100 -o wide
  kamino report -o html > report.html`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completePools(f, o),
	}
	output.Bind(cmd, &format, output.Table, output.Wide, output.JSON, output.YAML, print.CSV, print.HTML)
	o.Clouds.BindTimeout(cmd.Flags())
	cmd.Flags().StringVar(&since, "since", "30d", "length of the report in days (30d) or as a duration (36h)")
	cmd.Flags().Float64Var(&price, "price-gb-month", -1, "price of stored images per GiB and month; the storage is then also shown as a price")
	cmd.Flags().Float64Var(&rates.pull, "pull-rate", 0,
		"MiB/s at which a node pulls and unpacks images; with --volume-rate, the report also shows the gain of the cache")
	cmd.Flags().Float64Var(&rates.volume, "volume-rate", 0, "MiB/s at which a new volume fetches its blocks from the snapshot")
	cmd.MarkFlagsRequiredTogether("pull-rate", "volume-rate")
	var length time.Duration
	output.Before(cmd, func() (err error) {
		if length, err = wording.ParseDays(since); err != nil {
			return usagef("--since: %w", err)
		}
		if min(rates.pull, rates.volume) < 0 || cmd.Flags().Changed("pull-rate") && min(rates.pull, rates.volume) == 0 {
			return usagef("--pull-rate and --volume-rate must be more than 0")
		}
		return nil
	})
	cmd.RunE = inLook(f, o, func(ctx context.Context, s *session, args []string) error {
		ctx, cancel := s.within(ctx, s.options)
		defer cancel()
		finder, now := s.pools(), s.Now()
		pools, err := finder.Pools(ctx, strings.Join(args, ""))
		if err != nil {
			return err
		}
		all, troubles, ids := make([]report.Report, len(pools)), make([]error, len(pools)), make([]cloud.PoolID, len(pools))
		for i, p := range pools {
			ids[i] = p.ID
		}
		cloud.EachPool(ctx, s.provider, ids, func(ctx context.Context, i int) {
			var facts report.Facts
			facts, troubles[i] = finder.ReportFacts(ctx, pools[i], now.Add(-length))
			facts.PricePerGBMonth, facts.PullRate, facts.VolumeRate = price, rates.pull, rates.volume
			all[i] = report.Of(facts)
		})
		if err := cmp.Or(troubles...); err != nil {
			return err
		}
		return print.Reports(s.Out, format, all)
	})
	return cmd
}
