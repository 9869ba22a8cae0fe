package cli

import (
	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/sandbox/judge"
)

func (r *root) check() *cobra.Command {
	var most int
	command := &cobra.Command{
		Use: "check [DIR]", Short: "Check Kamino's promises against the logs of a stopped sandbox",
		Long: `Reads the audit log of the API server and the log of requests to the cloud, of each start of the sandbox. Nothing
else is read: not the state of the cloud, and no code of Kamino. Checks nine sentences, and prints how often each
sentence was tested. The exit code is 1 if a sentence is broken, or a log is incomplete.

Stop the sandbox first. https://github.com/kamino-dev/kamino/blob/main/docs/contribute/check.md has the meaning of each
sentence.`,
		Example: `  kamino-sandbox down --dir /tmp/s && kamino-sandbox check /tmp/s
  kamino-sandbox check /tmp/s --max-concurrent 3   # captures that ran with this limit on the command line`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return exactly("DIR")(command, args)
		},
	}
	command.Flags().IntVar(&most, "max-concurrent", 1, "how many nodes captures may hold at once, if no policy allows more")
	command.RunE = func(_ *cobra.Command, args []string) error {
		dir := r.dir
		if len(args) > 0 {
			dir = args[0]
		}
		report, err := judge.Run(dir, most)
		if err != nil {
			return err
		}
		return report.Print(r.stdout)
	}
	return command
}
