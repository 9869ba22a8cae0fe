package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func (r *root) pools() *cobra.Command {
	command := &cobra.Command{Use: "pools", Short: "List the pools and the image of their next node", Args: exactly(), Aliases: []string{"pool"}}
	out := outputFlag(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		client, err := r.client()
		if err != nil {
			return err
		}
		pools, err := client.Pools(command.Context())
		if err != nil {
			return err
		}
		var rows [][]string
		for _, p := range pools {
			rows = append(rows, []string{p.Name, fmt.Sprintf("%d/%d", p.Ready, p.Capacity), p.Generation, p.Profile, p.UpgradePolicy,
				orDash(strings.Join(p.Extensions, ",")), short(p.Image)})
		}
		return show(r.stdout, *out, pools, []string{"POOL", "READY", "GENERATION", "PROFILE", "UPGRADES", "EXTENSIONS", "NEXT NODE'S IMAGE"}, rows)
	}
	return command
}
