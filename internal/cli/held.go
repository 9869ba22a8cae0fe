package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/drive"
)

func newHeldCommand(f *Factory, o *Options) *cobra.Command {
	var format print.Format
	cmd := &cobra.Command{
		Use:   "held",
		Short: "Show reserved nodes: holder, since when, and whether the holder will release the node",
		Long: `Show every node that Kamino has reserved, with the holder: a running capture, a node replacement, or a capture that
no longer exists. The command also shows leftovers of captures that no longer exist: snapshots, pods and Orders.

If a capture no longer exists, the controller releases the node and deletes the leftovers automatically. Without a
controller, run "kamino return NODE" and "kamino return --leftovers".

A Lease in Kamino's namespace confirms each reservation. A reservation without a Lease is marked as unconfirmed,
because any user who may annotate Nodes can forge the annotation. Kamino does nothing to an unconfirmed node. The
command also shows nodes that are cordoned and protected like a reserved node, but have no reservation.`,
		Example: `  kamino held
  kamino held -o json | jq -r '.nodes[] | select(.state != "capture") | .node'`,
		Args: cobra.NoArgs,
		RunE: inSession(f, o, func(ctx context.Context, s *session, _ []string) error {
			report, err := s.held(ctx)
			if err != nil {
				return err
			}
			return print.Held(s.Out, format, report, s.Now())
		}),
	}
	bindOutput(cmd, &format, print.Table, print.JSON, print.YAML)
	return cmd
}

// held finds the nodes that are held, and what captures that are gone have left.
func (s *session) held(ctx context.Context) (print.HeldReport, error) {
	return s.heldReport(s.holds().Look(ctx))
}

func (s *session) heldReport(seen drive.Held, err error) (print.HeldReport, error) {
	if err != nil {
		return print.HeldReport{}, err
	}
	if seen.LeaseError != nil {
		s.note("Cannot verify reservations: %s.", explain(seen.LeaseError))
	}
	if seen.LeftError != nil {
		s.note("Cannot find leftovers of deleted captures: %s.", explain(seen.LeftError))
	}
	return print.HeldReport{Nodes: seen.Nodes, Left: seen.Left, Pools: seen.Pools}, nil
}

func newReturnCommand(f *Factory, o *Options) *cobra.Command {
	var flags returnFlags
	cmd := &cobra.Command{
		Use:   "return NODE | --leftovers",
		Short: "Return a reserved node to service after its capture was lost",
		Long: `Return a node to service after its capture was lost. Kamino starts the instance if the instance is stopped, and
reboots the instance if its disk was ordered to be generalized. Kamino then deletes the snapshot and the pod of the
capture, restores scale-in protection, annotations and schedulability, and finally deletes the reservation. The
output shows the state of the node. A node whose join credential is already deleted cannot rejoin the cluster:
Kamino deletes its Node and its instance instead.

With --leftovers, the command deletes snapshots, pods and Orders of captures that no longer exist, and returns no
node. Run "kamino held" first to list the leftovers.

A reservation is a Lease in Kamino's namespace; the annotation on the Node is a copy. If no Lease confirms the
annotation, the earlier state of the node is unknown. With --node-only, the command then deletes the reservation and
the annotations that block autoscalers, and uncordons the node. The instance does not change.

If a capture has not ended, use "kamino cancel" instead. If a node replacement holds the node, this command takes
the node from the replacement. To continue the replacement, run the rollback again instead.`,
		Example: `  kamino return worker-3 --dry-run
  kamino return worker-3
  kamino return --leftovers`,
		Args: func(cmd *cobra.Command, args []string) error {
			if flags.leftovers {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		}, ValidArgsFunction: completeHeld(f, o),
		RunE: inSession(f, o, func(ctx context.Context, s *session, args []string) error {
			ctx, cancel := limited(ctx, flags.timeout)
			defer cancel()
			if flags.leftovers {
				return s.clear(ctx, flags)
			}
			return s.giveBack(ctx, args[0], flags)
		}),
	}
	cmd.Flags().BoolVar(&flags.leftovers, "leftovers", false, "delete leftovers of captures that no longer exist, and return no node")
	cmd.Flags().BoolVar(&flags.nodeOnly, "node-only", false, "for an unconfirmed reservation: delete the reservation and uncordon the node; do not change the instance")
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "print the plan, and change nothing")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 20*time.Minute, "how long to work and wait until the node is Ready")
	bindOutput(cmd, &flags.format, print.JSON, print.YAML)
	return cmd
}
