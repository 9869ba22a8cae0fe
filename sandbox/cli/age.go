package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (r *root) age() *cobra.Command {
	return &cobra.Command{
		Use: "age NODE TIME", Short: "Shift the times of a node into the past, as if nothing had happened since",
		Long: `Shifts the transition times of the Node's conditions (Ready among them) back by TIME, and the time of the last
patch. Waiting times of policies (selection.minReadyTime) end at once.

Nothing else ages: Kamino and the API server use the clock of this machine. Creation times of objects stay, and the
day in the name of an image version stays.`,
		Example: `  kamino-sandbox age k8s-pool1-24816321-vmss000000 2h
  kamino-sandbox age k8s-pool1-24816321-vmss000000 26h`,
		Args: exactly("NODE", "TIME"), ValidArgsFunction: r.completeNodes,
		RunE: func(command *cobra.Command, args []string) error {
			by, err := time.ParseDuration(args[1])
			if err != nil || by <= 0 {
				return usageError{fmt.Errorf("TIME is %q: pass a duration above 0, such as 90s, 30m or 26h (days have no unit)", args[1])}
			}
			client, err := r.client()
			if err != nil {
				return err
			}
			return client.Age(command.Context(), args[0], by, r.teller())
		},
	}
}
