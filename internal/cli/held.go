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
		Short: "Show every node that is held: by whom, since when, and whether that holder gives it back",
		Long: `Show every node that is held, with its holder: a capture, a replacement of nodes, or a capture that is gone, and
the snapshots, pods and orders that captures have left which are gone. "kamino return NODE" gives a node back that
nobody else gives back, and "kamino return --leftovers" removes the rest; a controller does both by itself where the
capture is gone. A reservation that no Lease in Kamino's namespace confirms is called so: anyone who may annotate Nodes
can have written it, and nothing is done to the node. A node without a reservation is told of where it is cordoned and protected just as a hold does it.`,
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
		s.note("Which reservations are Kamino's own can't be told: %s.", explain(seen.LeaseError))
	}
	if seen.LeftError != nil {
		s.note("What captures have left that are gone can't be told: %s.", explain(seen.LeftError))
	}
	return print.HeldReport{Nodes: seen.Nodes, Left: seen.Left, Pools: seen.Pools}, nil
}

func newReturnCommand(f *Factory, o *Options) *cobra.Command {
	var flags returnFlags
	cmd := &cobra.Command{
		Use:   "return NODE | --leftovers",
		Short: "Give a node back that is held by nobody who would: start it, uncordon it, and leave nothing behind",
		Long: `Give a node back whose holder is gone, with everything: its instance is started if it is off, and booted once more if
its disk was ordered generalized; snapshot and pod of the capture go; protection, annotations and cordon become what
they were; and the reservation goes last. Then the node is looked at, and said to be what it is. One that does not return,
because what it joined by is off its disk, is removed instead, with its instance.

With --leftovers, what captures have left which are gone is removed instead: snapshots, pods and orders. "kamino held"
shows it beforehand.

A reservation is a Lease in Kamino's namespace, and the Node's annotation is a copy of it. Where no Lease confirms what is
on the Node, nobody knows how the node was: with --node-only the reservation goes, the annotations with which a hold
keeps autoscalers away go, too, and the node is uncordoned. Its instance is not stopped, started, removed or rebuilt.

A node that a capture holds which has not ended is given back by "kamino cancel". One that a replacement of nodes holds
is taken away from it: run the rollback again instead, if it is to go on.`,
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
	cmd.Flags().BoolVar(&flags.leftovers, "leftovers", false, "remove what captures have left that are gone, and give no node back")
	cmd.Flags().BoolVar(&flags.nodeOnly, "node-only", false, "of a node whose reservation no Lease confirms: remove the reservation and uncordon it, and change nothing of its instance")
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "say what would be done, and change nothing")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 20*time.Minute, "how long to work and wait until the node is Ready")
	bindOutput(cmd, &flags.format, print.JSON, print.YAML)
	return cmd
}
