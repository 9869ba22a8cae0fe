package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/sandbox/control"
)

func (r *root) crash() *cobra.Command {
	return r.trouble("crash", "Cut the power of a machine without a shutdown",
		"%s has crashed: the cloud shows the machine as stopped; start the machine with `az vmss start` or a capture\n")
}

func (r *root) hang() *cobra.Command {
	return r.trouble("hang", "Let a machine hang: the power is on, and nothing answers",
		"%s hangs: its node will soon be NotReady; end this with `kamino-sandbox unhang`\n")
}

func (r *root) unhang() *cobra.Command {
	return r.trouble("unhang", "Let a hanging machine continue", "%s continues\n")
}

func (r *root) trouble(what, help, said string) *cobra.Command {
	return &cobra.Command{
		Use: what + " NODE", Short: help, Args: exactly("NODE"), ValidArgsFunction: r.completeNodes,
		RunE: r.dialed(func(ctx context.Context, client *control.Client, args []string) error {
			if err := client.Trouble(ctx, args[0], what); err != nil {
				return err
			}
			_, err := fmt.Fprintf(r.stdout, said, args[0])
			return err
		}),
	}
}
