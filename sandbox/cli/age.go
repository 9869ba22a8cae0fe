package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (r *root) age() *cobra.Command {
	return &cobra.Command{
		Use: "age NODE TIME", Short: "Make a node look as if nothing had happened to it for so much longer",
		Long: `Puts back by TIME since when the Node's conditions are what they are, Ready among them, and when kured says that
it was patched: what policies wait for (selection.minReadyTime) is over at once.

Nothing else ages. Kamino and the API server go by this machine's clock, which no sandbox can put forward for them: when
objects were made stays, and so does the day that an image version is named after.`,
		Example: `  kamino-sandbox age k8s-pool1-24816321-vmss000000 2h
  kamino-sandbox age k8s-pool1-24816321-vmss000000 26h`,
		Args: exactly("NODE", "TIME"), ValidArgsFunction: r.completeNodes,
		RunE: func(command *cobra.Command, args []string) error {
			by, err := time.ParseDuration(args[1])
			if err != nil || by <= 0 {
				return usageError{fmt.Errorf("TIME is %q: give a time above 0 such as 90s, 30m or 26h (days have no unit)", args[1])}
			}
			client, err := r.client()
			if err != nil {
				return err
			}
			return client.Age(command.Context(), args[0], by, r.teller())
		},
	}
}
