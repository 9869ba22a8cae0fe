package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kamino-dev/kamino/sandbox/scenario"
)

func (r *root) demo() *cobra.Command {
	o := scenario.Options{Kamino: besideMe("kamino"), Out: os.Stdout}
	var capi clusterAPI
	command := &cobra.Command{
		Use: "demo", Short: "Tell the whole story by itself, in less than a minute, and clean up",
		Long: `Starts a sandbox in a temporary directory, runs a workload, lets the pool grow, patches a node, runs
"kamino capture" on it, lets the pool grow again, and checks on files and API objects that the new node is what
it should be. Exits with 0 only if all of it is true; leaves nothing running.`,
		Args: exactly(),
		RunE: func(command *cobra.Command, _ []string) error {
			var err error
			if o.Sandbox, err = self(); err != nil {
				return err
			}
			if o.ClusterAPI, err = capi.chosen(&o.Cloud); err != nil {
				return err
			}
			if o.Kamino == "" {
				return usageError{fmt.Errorf("there is no kamino beside %s: name it with --kamino", o.Sandbox)}
			}
			o.Styled = term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
			return scenario.Run(command.Context(), o)
		},
	}
	command.Flags().StringVar(&o.Kamino, "kamino", o.Kamino, "the kamino binary")
	command.Flags().Var(&o.Cloud, "cloud", "the cloud that it is told of: azure or aws (azure); on AWS all nodes join by themselves")
	command.Flags().BoolVar(&o.Kubeadm, "kubeadm", false, "tell of a pool whose nodes join by themselves, and whose donor does not return")
	command.Flags().BoolVar(&o.Rollback, "rollback", false, "tell of a bad version that nobody has tried: its nodes do not join, and the pool goes back by itself")
	capi.bind(command.Flags())
	command.MarkFlagsMutuallyExclusive("kubeadm", "rollback", "capi")
	command.Flags().BoolVar(&o.Keep, "keep", false, "leave the sandbox's directory")
	return command
}
