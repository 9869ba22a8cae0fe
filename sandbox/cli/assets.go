package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/sandbox/controlplane"
)

func (r *root) assets() *cobra.Command {
	return &cobra.Command{
		Use: "assets DIR", Short: "Create a directory with etcd, kube-apiserver and kubectl for tests",
		Long: `The envtest package of controller-runtime needs etcd, kube-apiserver and kubectl in the directory
$KUBEBUILDER_ASSETS. This verb creates the directory, with three links to the kamino-sandbox binary.`,
		Example: `  KUBEBUILDER_ASSETS=$(kamino-sandbox assets bin/assets) go test ./...`,
		Args:    exactly("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			binary, err := self()
			if err != nil {
				return err
			}
			if err := link(dir, binary, controlplane.Programs()); err != nil {
				return err
			}
			_, err = fmt.Fprintln(r.stdout, dir)
			return err
		},
	}
}

// link creates symlinks in a directory that point to a binary, and replaces older symlinks.
func link(dir, binary string, names []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := os.Symlink(binary, path); err != nil {
			return err
		}
	}
	return nil
}
