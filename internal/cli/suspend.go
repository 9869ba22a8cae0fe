package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/policy"
)

func newSuspendCommand(f *Factory, o *Options) *cobra.Command {
	return suspension(f, o, true, &cobra.Command{
		Use:   "suspend POLICY...",
		Short: "Stop policies from starting captures",
		Long: `Set spec.suspend of policies. A suspended policy starts no captures until "kamino resume". Running captures continue;
use "kamino cancel" to stop a capture.`,
		Example: `  kamino suspend all`,
	})
}

func newResumeCommand(f *Factory, o *Options) *cobra.Command {
	return suspension(f, o, false, &cobra.Command{
		Use:     "resume POLICY...",
		Short:   "Let suspended policies start captures again",
		Long:    `Unset spec.suspend of policies, so that the policies start captures again.`,
		Example: `  kamino resume all`,
	})
}

// suspension is the verb that sets or unsets a policy's suspend.
func suspension(f *Factory, o *Options, suspend bool, cmd *cobra.Command) *cobra.Command {
	var dryRun bool
	cmd.Args, cmd.ValidArgsFunction = cobra.MinimumNArgs(1), completePolicies(f, o)
	cmd.RunE = inCluster(f, o, func(ctx context.Context, c *cluster.Connection, args []string) error {
		for _, name := range args {
			message, err := suspended(ctx, c.Client, name, suspend, dryRun)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(f.Out, message); err != nil {
				return err
			}
		}
		return nil
	})
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "validate with the API server, and change nothing")
	return cmd
}

// suspended sets a policy's suspend and reports the consequence.
func suspended(ctx context.Context, c client.Client, name string, suspend, dryRun bool) (string, error) {
	was, err := policy.Suspend(ctx, c, name, suspend, dryRun)
	if apierrors.IsNotFound(err) {
		return "", refusedf("policy %s not found, and nothing was changed: to list policies, run `kubectl get prototypepolicies`", name)
	}
	if err != nil {
		return "", err
	}
	switch {
	case was == suspend && suspend:
		return fmt.Sprintf("Policy %s is already suspended.", name), nil
	case was == suspend:
		return fmt.Sprintf("Policy %s is not suspended.", name), nil
	case dryRun:
		return fmt.Sprintf("Dry run: policy %s would be changed.", name), nil
	case suspend:
		return fmt.Sprintf("Policy %s starts no more captures; running captures continue (to stop: `kamino cancel`). To resume: `kamino resume %s`.", name, name), nil
	default:
		return fmt.Sprintf("Policy %s starts captures again: to see the decision, run `kamino plan`.", name), nil
	}
}
