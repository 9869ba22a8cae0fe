package cli

import "github.com/spf13/cobra"

func (r *root) reboot() *cobra.Command {
	return &cobra.Command{
		Use: "reboot NODE", Short: "Reboot a machine and wait until its node is Ready", Args: exactly("NODE"),
		ValidArgsFunction: r.completeNodes,
		RunE: func(command *cobra.Command, args []string) error {
			client, err := r.client()
			if err != nil {
				return err
			}
			return client.Reboot(command.Context(), args[0], r.teller())
		},
	}
}
