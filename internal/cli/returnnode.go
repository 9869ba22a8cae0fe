package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/runner"
)

type returnNodeFlags struct {
	leftovers, nodeOnly, start, dryRun bool

	timeout time.Duration
	format  output.Format
}

func newReturnNodeCommand(f *Factory, o *Options) *cobra.Command {
	var flags returnNodeFlags
	cmd := &cobra.Command{
		Use:   "return-node NODE | --leftovers",
		Short: "Return a reserved node to service after its capture was lost",
		Long: `Return a reserved node to service after its capture was lost. Kamino starts the instance if it is stopped, and reboots it if its disk was ordered to be
generalized. It then deletes the snapshot and the pod of the capture, restores scale-in protection, annotations and schedulability, and finally
deletes the reservation. The output shows the state of the node.

With --leftovers, the command deletes snapshots, pods and NodeOrders of captures that no longer exist, and returns no node. Run "kamino reservations"
first to see them.

A reservation is a Lease in Kamino's namespace, and the annotation on the Node is a copy. If no Lease confirms the annotation, the earlier state of the
node is unknown. --node-only then deletes the reservation and the annotations that block autoscalers, and uncordons the node. It leaves the instance
alone, unless --start starts an instance that is off.

If the capture hasn't ended, use "kamino cancel" instead. If a node replacement holds the node, this command takes the node from it; to continue the
replacement, run the rollback again.`,
		Example: `  kamino return-node worker-3 --dry-run
  kamino return-node worker-3
  kamino return-node --leftovers`,
		Args: func(cmd *cobra.Command, args []string) error {
			if flags.start && !flags.nodeOnly {
				return usagef("--start needs --node-only: without --node-only, Kamino starts an instance that is off")
			}
			if flags.leftovers {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		}, ValidArgsFunction: completeReserved(f, o),
		RunE: inSession(f, o, func(ctx context.Context, s *session, args []string) error {
			ctx, cancel := limited(ctx, flags.timeout)
			defer cancel()
			if flags.leftovers {
				return s.clear(ctx, flags)
			}
			return s.returnNode(ctx, args[0], flags)
		}),
	}
	cmd.Flags().BoolVar(&flags.leftovers, "leftovers", false, "delete leftovers of captures that no longer exist, and return no node")
	cmd.Flags().BoolVar(&flags.nodeOnly, "node-only", false,
		"for an unconfirmed reservation: delete the reservation and uncordon the node; do not change the instance")
	cmd.Flags().BoolVar(&flags.start, "start", false, "with --node-only: start the instance if it is off")
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "print the plan, and change nothing")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 20*time.Minute, "how long to work and wait until the node is Ready")
	output.Bind(cmd, &flags.format, output.JSON, output.YAML)
	return cmd
}

// reservationClient finds and releases reserved nodes.
func (s *session) reservationClient() *runner.Reservations {
	return &runner.Reservations{Cluster: s.cluster, Cloud: s.provider, Engine: s.engine, Namespace: s.options.Namespace, Now: s.Now,
		Trouble: func(err error) { s.note("Retrying: %s.", explain(err)) }}
}

func (s *session) returnNode(ctx context.Context, name string, flags returnNodeFlags) error {
	goOn := fmt.Sprintf("Node %s is not back in service yet: run the same command again", name)
	report, err := s.findReservations(ctx)
	if err != nil {
		return orCutShort(ctx, err, goOn)
	}
	i := slices.IndexFunc(report.Nodes, func(n reservations.Node) bool { return n.Name == name })
	if i < 0 {
		return refusedf("node %s is not reserved, and nothing was changed: to list reserved nodes, run `kamino reservations`", name)
	}
	n := report.Nodes[i]
	client := s.reservationClient()
	if err := client.AdmitRelease(ctx, n, flags.nodeOnly, flags.start); err != nil {
		return err
	}
	if flags.dryRun {
		return print.Returned(s.Out, flags.format,
			print.ReturnedNode{Node: name, Holder: n.Holder, NodeOnly: flags.nodeOnly, DryRun: true})
	}
	if flags.start {
		err = client.Start(ctx, name)
	}
	state := v1alpha1.DonorState("")
	if err == nil {
		state, err = client.Release(ctx, n)
	}
	if err != nil {
		return orCutShort(ctx, err, goOn)
	}
	if err := print.Returned(s.Out, flags.format, print.ReturnedNode{Node: name, Holder: n.Holder, State: state}); err != nil {
		return err
	}
	if state != v1alpha1.DonorReady && state != v1alpha1.DonorRemoved {
		return &failure{Code: ExitFailed, Err: fmt.Errorf("node %s is released, but not Ready: run `kubectl describe node %s`", name, name)}
	}
	return nil
}

// clear deletes leftovers of deleted captures.
func (s *session) clear(ctx context.Context, flags returnNodeFlags) error {
	const goOn = "Some leftovers remain: run the same command again"
	report, err := s.findReservations(ctx)
	if err != nil {
		return orCutShort(ctx, err, goOn)
	}
	left := slices.DeleteFunc(report.Leftovers, func(l reservations.Leftover) bool { return l.Kind == reservations.TrialNode })
	cleared := print.DeletedLeftovers{Leftovers: left, DryRun: flags.dryRun}
	if flags.dryRun || len(left) == 0 {
		return print.ClearedAway(s.Out, flags.format, cleared)
	}
	if err := s.reservationClient().Clear(ctx, report.Pools); err != nil {
		return orCutShort(ctx, err, goOn)
	}
	return print.ClearedAway(s.Out, flags.format, cleared)
}
