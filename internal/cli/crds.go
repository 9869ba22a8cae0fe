package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/definition"
	"github.com/kamino-dev/kamino/internal/manifest"
)

func newCRDsCommand(f *Factory, o *Options) *cobra.Command {
	var apply bool
	cmd := &cobra.Command{
		Use:   "crds",
		Short: "Print the definitions of Kamino's kinds as YAML, or write them into the cluster",
		Long: `Print the definitions of Kamino's kinds. With --apply they are written into the cluster in place of those of
another version, and served when the command ends. Objects of the kinds are not touched. That is what the Helm
chart does before an upgrade, since Helm itself never changes a definition.`,
		Example: `  kamino crds | kubectl apply --server-side -f -
  kamino crds --apply`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !apply {
				return manifest.CRDs(f.Out)
			}
			cluster, err := f.connect(o)
			if err != nil {
				return err
			}
			return definition.Apply(cmd.Context(), cluster.Client, func(name string, done definition.Done) error {
				_, err := fmt.Fprintf(f.Out, "%s: %s\n", name, done)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&apply, "apply", false, "write them into the cluster")
	return cmd
}
