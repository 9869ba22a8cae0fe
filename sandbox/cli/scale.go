package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/sandbox/control"
)

func (r *root) scale() *cobra.Command {
	var wait bool
	command := &cobra.Command{
		Use: "scale POOL NODES", Short: "Change the size of a pool, as an autoscaler does",
		Long: `Sends the cloud the request of a cluster autoscaler. With --wait, the command returns when all new nodes are Ready,
and prints how long each node took, in seconds of this machine's clock.`,
		Example:           `  kamino-sandbox scale pool1 4 --wait`,
		Args:              exactly("POOL", "NODES"),
		ValidArgsFunction: r.completePools,
	}
	out := outputFlag(command)
	command.Flags().BoolVar(&wait, "wait", false, "wait until new nodes are Ready and removed nodes are gone")
	command.RunE = func(command *cobra.Command, args []string) error {
		nodes, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil || nodes < 0 {
			return usageError{fmt.Errorf("NODES is %q: pass a number of 0 or more", args[1])}
		}
		client, err := r.client()
		if err != nil {
			return err
		}
		joins, err := client.Scale(command.Context(), args[0], control.Scale{Nodes: nodes, Wait: wait}, r.teller())
		if err != nil || len(joins) == 0 {
			return err
		}
		var rows [][]string
		for _, j := range joins {
			rows = append(rows, []string{j.Node, fmt.Sprintf("%.1fs", j.Registered), fmt.Sprintf("%.1fs", j.Ready)})
		}
		return show(r.stdout, *out, joins, []string{"NEW NODE", "REGISTERED AFTER", "READY AFTER"}, rows)
	}
	return command
}
