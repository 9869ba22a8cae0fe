// Package patchnode is the command of the pod on a node that Kamino checks, patches or reboots. People do not call the
// command.
package patchnode

import (
	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/agent/generalize/disk"
	patchhost "github.com/kamino-dev/kamino/internal/agent/patch/host"
	"github.com/kamino-dev/kamino/internal/process"
)

// New returns the command. node supplies clock and log; classed gives an error its exit code.
func New(node patchhost.Node, getenv func(string) string, classed func(error) error) *cobra.Command {
	r := patchhost.Run{Node: node}
	cmd := &cobra.Command{
		Use: "patch-node", Short: "Carry out an order for patches on a node from a pod", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.Wait = process.Wait
			r.Access.Host, r.Access.Port = getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
			err := r.Do(cmd.Context())
			disk.LeaveError(disk.TerminationLog, err)
			return classed(err)
		},
	}
	flags := cmd.Flags()
	for _, flag := range []struct {
		name, usage string
		value       *string
	}{
		{"root", "root directory of the running host", &r.Root},
		{"order", "the Order as NAMESPACE/NAME", &r.Order},
		{"order-uid", "UID of the Order", &r.OrderUID},
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
