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
		Short: "Retry refused captures of a policy now",
		Long: `Retry refused captures of a policy now, or of each policy that matches a pool. Otherwise the controller retries
automatically after minutes to hours. Fix the cause of the refusal first. If too many captures failed in a row, read the
reasons first (kubectl get prototypes).

The command writes the annotation ` + v1alpha1.RetryAnnotation + `.`,
		Example: `  kamino retry all
  kamino retry pool1`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completePolicies(f, o),
		RunE: inCluster(f, o, func(ctx context.Context, c *cluster.Connection, args []string) error {
			names, err := policy.PoliciesFor(ctx, c.Client, args[0])
			if err != nil {
				return err
			}
			if len(names) == 0 {
				return refusedf("no policy or pool %s found, and nothing was changed: to list policies, run `kubectl get prototypepolicies`", args[0])
			}
			for _, name := range names {
				if err := policy.Retry(ctx, c.Client, name, f.Now(), dryRun); err != nil {
					return err
				}
				message := "Policy %s retries refused captures now, if a controller runs: to see the decision, run `kamino plan`.\n"
				if dryRun {
					message = "Dry run: policy %s would retry refused captures now.\n"
				}
				if _, err := fmt.Fprintf(f.Out, message, name); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "validate with the API server, and change nothing")
	return cmd
}
