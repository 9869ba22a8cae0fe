package agent

import (
	"net"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/trial/probe"
)

// newProbeCommand is the command of a trial's pods; users do not need the command.
func newProbeCommand(e Environment) *cobra.Command {
	var (
		o      probe.Options
		report string
	)
	cmd := &cobra.Command{
		Use: "probe", Short: "Test the network of a node from a pod", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if host := e.Getenv("KUBERNETES_SERVICE_HOST"); o.Peer != "" && host != "" {
				o.Service = net.JoinHostPort(host, e.Getenv("KUBERNETES_SERVICE_PORT"))
			}
			found, err := o.Run(cmd.Context())
			if err != nil || report == "" {
				return err
			}
			return found.Leave(report)
		},
	}
	o.Bind(cmd.Flags().StringVar)
	cmd.Flags().BoolVar(&o.Serve, "serve", false, "answer other pods until stopped")
	cmd.Flags().StringVar(&report, "report", "", "write the results to this file")
	return cmd
}
