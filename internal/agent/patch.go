package agent

import (
	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/agent/generalize/disk"
	patchhost "github.com/kamino-dev/kamino/internal/agent/patch/host"
	"github.com/kamino-dev/kamino/internal/cli/exit"
	"github.com/kamino-dev/kamino/internal/process"
)

// newPatchCommand is the command of the pod on a node that Kamino checks, patches or reboots. People do not call it.
func newPatchCommand(e Environment) *cobra.Command {
	r := patchhost.Run{Node: patchhost.Node{Log: e.Err, Now: e.Now}}
	cmd := &cobra.Command{
		Use: "patch", Short: "Carry out an order for patches on a node from a pod", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.Node.Wait = process.Wait
			r.Access.Host, r.Access.Port = e.Getenv("KUBERNETES_SERVICE_HOST"), e.Getenv("KUBERNETES_SERVICE_PORT")
			err := r.Do(cmd.Context())
			disk.LeaveError(disk.TerminationLog, err)
			return exit.Classed(err)
		},
	}
	flags := cmd.Flags()
	for _, flag := range []struct {
		name, usage string
		value       *string
	}{
		{"root", "root directory of the running host", &r.Node.Root},
		{"order", "the NodeOrder as NAMESPACE/NAME", &r.Order},
		{"order-uid", "UID of the NodeOrder", &r.OrderUID},
		{"key-file", "file with the key that signs the report", &r.Files.Key},
		{"pod-uid-file", "file with the UID of the pod", &r.Files.PodUID},
		{"token-file", "file with the token for the API server", &r.Access.TokenFile},
		{"ca-file", "file with the certificates of the API server", &r.Access.CAFile},
	} {
		flags.StringVar(flag.value, flag.name, "", flag.usage)
		_ = cmd.MarkFlagRequired(flag.name)
	}
	return cmd
}
