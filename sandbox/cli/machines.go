package cli

import (
	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/sandbox/control"
)

func (r *root) machines() *cobra.Command {
	command := &cobra.Command{
		Use: "machines", Short: "List the machines and their nodes", Args: exactly(),
		Aliases: []string{"machine"},
		Example: `  kamino-sandbox machines
  kamino-sandbox machines -o json | jq -r '.[].disk'`,
	}
	out := outputFlag(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		client, err := r.client()
		if err != nil {
			return err
		}
		machines, err := client.Machines(command.Context())
		if err != nil {
			return err
		}
		var rows [][]string
		for _, m := range machines {
			rows = append(rows, []string{orDash(m.Node), m.Pool, m.Power, ready(m), age(m.Age), orDash(m.MachineID), short(m.Image)})
		}
		return show(r.stdout, *out, machines, []string{"NODE", "POOL", "POWER", "READY", "AGE", "MACHINE ID", "BUILT FROM"}, rows)
	}
	return command
}

func ready(m control.Machine) string {
	text := orDash(m.Ready)
	if m.State == "hung" {
		text += ",hung"
	}
	if m.Cordoned {
		text += ",cordoned"
	}
	return text
}
