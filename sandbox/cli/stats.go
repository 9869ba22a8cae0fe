package cli

import (
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
)

func (r *root) stats() *cobra.Command {
	var reset bool
	command := &cobra.Command{Use: "stats", Short: "Count the requests to the simulated cloud", Args: exactly()}
	out := outputFlag(command)
	command.Flags().BoolVar(&reset, "reset", false, "set the counters to zero afterwards")
	command.RunE = func(command *cobra.Command, _ []string) error {
		client, err := r.client()
		if err != nil {
			return err
		}
		s, err := client.Stats(command.Context())
		if err != nil {
			return err
		}
		rows := [][]string{
			{"requests", strconv.Itoa(s.Requests)}, {"reads", strconv.Itoa(s.Reads)}, {"writes", strconv.Itoa(s.Writes)},
			{"polls", strconv.Itoa(s.Polls)}, {"repeats", strconv.Itoa(s.Repeats)}, {"logins", strconv.Itoa(s.Logins)},
			{"throttled", strconv.Itoa(s.Throttled)}, {"failed", strconv.Itoa(s.Failed)},
		}
		for _, name := range slices.Sorted(maps.Keys(s.ByOperation)) {
			rows = append(rows, []string{"  " + name, strconv.Itoa(s.ByOperation[name])})
		}
		if err := show(r.stdout, *out, s, []string{"WHAT", "COUNT"}, rows); err != nil || !reset {
			return err
		}
		return client.ResetStats(command.Context())
	}
	return command
}
