package cli

import "github.com/spf13/cobra"

func (r *root) workload() *cobra.Command {
	return &cobra.Command{
		Use: "workload", Short: "Run a workload: a Deployment with a disruption budget, and a DaemonSet", Args: exactly(),
		RunE: func(command *cobra.Command, _ []string) error {
			client, err := r.client()
			if err != nil {
				return err
			}
			return client.Workload(command.Context(), r.teller())
		},
	}
}
