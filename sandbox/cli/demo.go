package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kamino-dev/kamino/sandbox/demo"
)

func (r *root) demo() *cobra.Command {
	o := demo.Options{Kamino: siblingProgram("kamino"), Out: os.Stdout}
	capi := clusterAPI()
	command := &cobra.Command{
		Use: "demo", Short: "Show a whole capture in less than a minute, check the result and clean up",
		Long: `Starts a sandbox in a temporary directory and runs a workload. The pool grows by a node from the generic image.
The demo patches a node, runs "kamino capture" on that node, and lets the pool grow again. Then the demo checks
files and API objects of the new node. The exit code is 0 only if all checks pass. Nothing is left running.`,
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
				return usageError{fmt.Errorf("no kamino binary next to %s: pass one with --kamino", o.Sandbox)}
			}
			o.Styled = term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
			return demo.Run(command.Context(), o)
		},
	}
	command.Flags().StringVar(&o.Kamino, "kamino", o.Kamino, "path of the kamino binary")
	command.Flags().Var(&o.Cloud, "cloud", "the simulated cloud: azure or aws (azure); on AWS, nodes join with the role of their instance")
	command.Flags().BoolVar(&o.Kubeadm, "kubeadm", false, "show a pool of nodes that join with kubeadm")
	command.Flags().BoolVar(&o.Rollback, "rollback", false, "show an untested bad version: its nodes do not join, and Kamino rolls the pool back")
	command.Flags().BoolVar(&o.Pioneer, "pioneer", false, "show a node that Kamino patches with apt before the capture, and new nodes that never run apt")
	capi.bind(command.Flags(), "the default kind of pool is MachineDeployment")
	command.MarkFlagsMutuallyExclusive("kubeadm", "rollback", "pioneer", "capi")
	command.Flags().BoolVar(&o.Keep, "keep", false, "keep the directory of the sandbox")
	return command
}
