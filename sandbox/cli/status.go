package cli

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

func (r *root) status() *cobra.Command {
	command := &cobra.Command{Use: "status", Short: "Show whether a sandbox runs in the directory, and its address", Args: exactly()}
	out := outputFlag(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		client, err := r.client()
		if err != nil {
			return err
		}
		s, err := client.Status(command.Context())
		if err != nil {
			return err
		}
		return show(r.stdout, *out, s, []string{"PROCESS", "AGE", "TIME", "API SERVER", "CLOUD", "ANSWERS ON"}, [][]string{{
			strconv.Itoa(s.PID), age(time.Since(s.Since).Seconds()), strconv.FormatFloat(s.TimeScale, 'g', 4, 64) + "x", s.API, string(s.Cloud), s.Endpoint,
		}})
	}
	return command
}
