package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
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
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := f.Connect(o)
			if err != nil {
				return &ending{ExitUsage, err}
			}
			names, err := cluster.policiesOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			for _, name := range names {
				if err := cluster.retry(cmd.Context(), name, f.Now(), dryRun); err != nil {
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
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "have the API server check it, and change nothing")
	return cmd
}

// policiesOf are the policy of a name, or those that report on a pool which is meant by it.
func (c *Cluster) policiesOf(ctx context.Context, name string) ([]string, error) {
	var list v1alpha1.PrototypePolicyList
	if err := c.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list policies: %w", err)
	}
	var names []string
	for i := range list.Items {
		p := &list.Items[i]
		if p.Name == name {
			return []string{name}, nil
		}
		if slices.ContainsFunc(p.Status.Pools, func(pool v1alpha1.PoolStatus) bool { return strings.EqualFold(pool.Name, name) }) {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return nil, refusedf("there is no policy %s, and no policy of a pool of that name, and nothing was changed: `kubectl get prototypepolicies` lists them", name)
	}
	return names, nil
}

func (c *Cluster) retry(ctx context.Context, name string, now time.Time, dryRun bool) error {
	var options []client.PatchOption
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	p := &v1alpha1.PrototypePolicy{}
	p.Name = name
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.RetryAnnotation, now.UTC().Format(time.RFC3339)))
	if err := c.Client.Patch(ctx, p, patch, options...); err != nil {
		return fmt.Errorf("policy %s: %w", name, err)
	}
	return nil
}
