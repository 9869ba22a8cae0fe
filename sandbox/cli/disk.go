package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func (r *root) disk() *cobra.Command {
	return &cobra.Command{
		Use: "disk NODE", Short: "Print the path of a machine's disk (a directory)", Args: exactly("NODE"),
		Aliases:           []string{"disks"},
		Example:           `  cat "$(kamino-sandbox disk k8s-pool1-24816321-vmss000000)/etc/machine-id"`,
		ValidArgsFunction: r.completeNodes,
		RunE: func(command *cobra.Command, args []string) error {
			client, err := r.client()
			if err != nil {
				return err
			}
			machines, err := client.Machines(command.Context())
			if err != nil {
				return err
			}
			var names []string
			for _, m := range machines {
				if m.Node != args[0] {
					names = append(names, orDash(m.Node))
					continue
				}
				if m.Disk == "" {
					return fmt.Errorf("machine %s is a light machine and has no disk", args[0])
				}
				_, err := fmt.Fprintln(r.stdout, m.Disk)
				return err
			}
			return fmt.Errorf("machine %s not found; machines: %s", args[0], strings.Join(names, ", "))
		},
	}
}
