package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (r *root) crash() *cobra.Command {
	return r.trouble("crash", "Cut a machine's power, without any order", "%s has crashed: the cloud shows it as stopped; `az vmss start` or a capture starts it again\n")
}

func (r *root) hang() *cobra.Command {
	return r.trouble("hang", "Let a machine hang: power on, nothing answers", "%s hangs: its node is not Ready before long; `kamino-sandbox unhang` ends it\n")
}

func (r *root) unhang() *cobra.Command {
	return r.trouble("unhang", "Let a machine that hangs go on", "%s goes on\n")
}

func (r *root) trouble(what, help, said string) *cobra.Command {
	return &cobra.Command{
		Use: what + " NODE", Short: help, Args: exactly("NODE"), ValidArgsFunction: r.completeNodes,
		RunE: func(command *cobra.Command, args []string) error {
			client, err := r.client()
			if err != nil {
				return err
			}
			if err := client.Trouble(command.Context(), args[0], what); err != nil {
				return err
			}
			_, err = fmt.Fprintf(r.stdout, said, args[0])
			return err
		},
	}
}
