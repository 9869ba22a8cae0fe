package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster/definition"
	"github.com/kamino-dev/kamino/internal/manifest"
)

func newCRDsCommand(f *Factory, o *Options) *cobra.Command {
	var apply bool
	cmd := &cobra.Command{
		Use:   "crds",
		Short: "Print Kamino's CustomResourceDefinitions as YAML, or apply them",
		Long: `Print Kamino's CustomResourceDefinitions. With --apply, the command writes the definitions into the cluster, replaces
older versions, and waits until the API server serves the kinds. Existing objects do not change. The Helm chart
runs this command before an upgrade, because Helm never updates definitions. The command refuses while an earlier
version of Kamino has a capture in flight that this version cannot continue.`,
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
			all, err := cluster.Prototypes(cmd.Context())
			if earlier := v1alpha1.EarlierCapture(all); err == nil && earlier != "" { // without an answer, the controller refuses to start
				return refusedf("%s", earlier)
			}
			return definition.Apply(cmd.Context(), cluster.Client, func(name string, done definition.Applied) error {
				_, err := fmt.Fprintf(f.Out, "%s: %s\n", name, done)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&apply, "apply", false, "apply the definitions to the cluster")
	return cmd
}
