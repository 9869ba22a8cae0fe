package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

func (r *root) requests() *cobra.Command {
	var polls bool
	command := &cobra.Command{
		Use: "requests", Short: "List the requests to the simulated cloud", Args: exactly(),
		Example: `  kamino-sandbox requests            # without polls of long operations
  kamino-sandbox requests --polls`,
	}
	out := outputFlag(command)
	command.Flags().BoolVar(&polls, "polls", false, "show polls and logins, too")
	command.RunE = func(command *cobra.Command, _ []string) error {
		client, err := r.client()
		if err != nil {
			return err
		}
		all, err := client.Requests(command.Context())
		if err != nil {
			return err
		}
		shown := all[:0]
		var rows [][]string
		for _, q := range all {
			if !polls && (q.Class == "poll" || q.Class == "repeat" || q.Class == "login") {
				continue
			}
			shown = append(shown, q)
			rows = append(rows, []string{q.Time.Format("15:04:05.000"), q.Method, strconv.Itoa(q.Status), string(q.Class),
				fmt.Sprint(q.Took.Round(time.Millisecond)), q.Path})
		}
		return show(r.stdout, *out, shown, []string{"TIME", "METHOD", "STATUS", "CLASS", "TOOK", "PATH"}, rows)
	}
	return command
}
