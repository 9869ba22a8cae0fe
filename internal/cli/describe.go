package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cluster"
)

func newDescribeCommand(f *Factory, o *Options) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "describe PROTOTYPE",
		Short: "Show one capture: its steps, what was verified, its image, and why it failed",
		Long: `Show everything that the cluster knows of one capture, running or ended: its donor, each step with its times,
what was removed from the disk and looked for before it was copied, the image version, what the promotion
changed in the pool's recipe, and if it failed, why and what to do.

The cloud is not asked, so no credential for it is needed. "kamino status" and "kamino history" tell of a
pool's other versions.`,
		Example: `  kamino describe pool1-2026.03.09
  kamino describe pool1-2026.03.09 -o json | jq .proof`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: complete(f, o, func(ctx context.Context, c *cluster.Connection) ([]string, error) {
			all, err := c.Prototypes(ctx)
			names := make([]string, 0, len(all))
			for i := range all {
				names = append(names, all[i].Name)
			}
			return names, err
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := print.ParseFormat(output, print.Table, print.JSON, print.YAML)
			if err != nil {
				return &ending{ExitUsage, err}
			}
			cluster, err := f.Connect(o)
			if err != nil {
				return &ending{ExitUsage, err}
			}
			return describe(cmd.Context(), f, cluster, args[0], format)
		},
	}
	bindOutput(cmd, &output, print.Table, print.JSON, print.YAML)
	return cmd
}

func describe(ctx context.Context, f *Factory, cluster *cluster.Connection, argument string, format print.Format) error {
	all, err := cluster.Prototypes(ctx)
	if err != nil {
		return err
	}
	// As `kubectl get -o name` writes it.
	name := argument[strings.LastIndex(argument, "/")+1:]
	p := find(all, name)
	if p == nil {
		return refusedf("there is no Prototype %s: `kubectl get prototypes` lists them", name)
	}
	d := print.Description{Prototype: print.Presentable(p)}
	if d.Proof, err = v1alpha1.ProofOf(p); err != nil {
		_, _ = f.Err.Write([]byte("Prototype " + name + ": " + err.Error() + "\n"))
	}
	if d.Unproven, err = v1alpha1.UnprovenOf(p); err != nil {
		_, _ = f.Err.Write([]byte("Prototype " + name + ": " + err.Error() + "\n"))
	}
	if format.Machine() {
		return print.Value(f.Out, format, d)
	}
	return print.Describe(f.Out, d, f.Now())
}
