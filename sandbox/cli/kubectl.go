package cli

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/sandbox/controlplane"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

func (r *root) kubectl() *cobra.Command {
	command := &cobra.Command{
		Use: "kubectl [--dir DIR] [--] ARGS...", Short: "Run the built-in kubectl on the sandbox",
		Example: `  kamino-sandbox kubectl get nodes -o wide
  kamino-sandbox --dir /tmp/s kubectl -- get prototypes`,
		DisableFlagsInUseLine: true,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := filepath.Abs(r.dir)
			if err != nil {
				return err
			}
			// Without a sandbox in the directory, kubectl uses its usual kubeconfig.
			if path := filepath.Join(dir, sandboxdir.KubeconfigFile); exists(path) {
				if err := os.Setenv("KUBECONFIG", path); err != nil {
					return err
				}
			}
			controlplane.Exec(append([]string{"kubectl"}, args...))
			return nil
		},
	}
	// Flags after the first word of kubectl belong to kubectl.
	command.Flags().SetInterspersed(false)
	return command
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
