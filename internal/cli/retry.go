package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/policy"
)

func newRetryCommand(f *Factory, o *Options) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "retry POLICY|POOL",
		Short: "Have a policy try at once what was refused",
		Long: `Have a policy, or each policy that a pool belongs to, try at once what was refused. Without it a controller tries by
itself, minutes to hours later. What keeps a capture from beginning has to be mended first; where too many captures have
failed in a row, read why first (kubectl get prototypes).

It writes the annotation ` + v1alpha1.RetryAnnotation + `.`,
		Example: `  kamino retry all
  kamino retry pool1`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completePolicies(f, o),
		RunE: inCluster(f, o, func(ctx context.Context, c *cluster.Connection, args []string) error {
			names, err := policy.Meant(ctx, c.Client, args[0])
			if err != nil {
				return err
			}
			if len(names) == 0 {
				return refusedf("there is no policy %s, and no policy of a pool of that name, and nothing was changed: `kubectl get prototypepolicies` lists them", args[0])
			}
			for _, name := range names {
				if err := policy.Retry(ctx, c.Client, name, f.Now(), dryRun); err != nil {
					return err
				}
				said := "Policy %s tries at once what was refused, where a controller runs: `kamino plan` shows what it decides.\n"
				if dryRun {
					said = "Dry run: policy %s would try at once what was refused.\n"
				}
				if _, err := fmt.Fprintf(f.Out, said, name); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "have the API server check it, and change nothing")
	return cmd
}
