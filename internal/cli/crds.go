package cli

import (
	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/manifest"
)

func newCRDsCommand(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "crds",
		Short:   "Print the definitions of Kamino's kinds as YAML",
		Example: `  kamino crds | kubectl apply -f -`,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return manifest.CRDs(f.Out) },
	}
}
