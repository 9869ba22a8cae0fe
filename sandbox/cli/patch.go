package cli

import (
	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/sandbox/control"
)

func (r *root) patch() *cobra.Command {
	order := control.Patch{Reboot: true}
	command := &cobra.Command{
		Use: "patch NODE", Short: "Patch a machine and reboot the machine",
		Long: `Installs newer packages on the disk of the machine, writes the annotations of kured and of Kamino's patcher, and
reboots the machine. The node is a good donor afterwards. The command returns when the node is Ready again.`,
		Example: `  kamino-sandbox patch k8s-pool1-24816321-vmss000000
  kamino-sandbox patch k8s-pool1-24816321-vmss000000 --package openssl --package libc6=2.35-0ubuntu3.9
  kamino-sandbox patch k8s-pool1-24816321-vmss000000 --reboot=false   # leave the reboot pending`,
		Args: exactly("NODE"), ValidArgsFunction: r.completeNodes,
		RunE: func(command *cobra.Command, args []string) error {
			client, err := r.client()
			if err != nil {
				return err
			}
			return client.Patch(command.Context(), args[0], order, r.teller())
		},
	}
	command.Flags().StringArrayVar(&order.Packages, "package", nil, "a package to upgrade, as name or name=version (repeatable; default: the kernel and all other packages)")
	command.Flags().BoolVar(&order.Reboot, "reboot", true, "reboot afterwards")
	return command
}
