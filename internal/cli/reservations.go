package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/runner"
)

func newReservationsCommand(f *Factory, o *Options) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "reservations",
		Short: "Show reserved nodes: holder, since when, and who will release the node",
		Long: `Show every node that Kamino has reserved, with its holder: a running capture, a node replacement, or a capture that no longer exists. The output also
has what such captures left behind: snapshots, pods and NodeOrders.

If a capture no longer exists, a controller releases its node and deletes the leftovers on its own. Without a controller, run
"kamino return-node NODE" and "kamino return-node --leftovers".

A Lease in Kamino's namespace confirms each reservation. Without one, the reservation is marked as unconfirmed and Kamino leaves the node alone,
because any user who may annotate Nodes can forge the annotation. Nodes that are cordoned and protected like a reserved node, but have no
reservation, are listed as well.`,
		Example: `  kamino reservations
  kamino reservations -o json | jq -r '.nodes[] | select(.state != "capture") | .node'`,
		Args: cobra.NoArgs,
		RunE: inLook(f, o, func(ctx context.Context, s *session, _ []string) error {
			report, err := s.findReservations(ctx)
			if err != nil {
				return err
			}
			if report.Facts.Prototypes, err = s.cluster.Prototypes(ctx); err != nil && !errors.Is(err, cluster.ErrNotInstalled) {
				return err
			}
			report.Facts = s.known().Facts(ctx, report.Facts.Prototypes)
			return print.Reservations(s.Out, format, report, s.Now())
		}),
	}
	output.Bind(cmd, &format, output.Table, output.JSON, output.YAML)
	return cmd
}

// findReservations returns the reserved nodes, and leftovers of deleted captures.
func (s *session) findReservations(ctx context.Context) (print.ReservationReport, error) {
	return s.reservationReport(s.reservationClient().List(ctx))
}

func (s *session) reservationReport(seen runner.ReservationList, err error) (print.ReservationReport, error) {
	if err != nil {
		return print.ReservationReport{}, err
	}
	if seen.LeaseError != nil {
		s.note("Cannot verify reservations: %s.", explain(seen.LeaseError))
	}
	if seen.LeftError != nil {
		s.note("Cannot find leftovers of deleted captures: %s.", explain(seen.LeftError))
	}
	return print.ReservationReport{Nodes: seen.Nodes, Leftovers: seen.Left, Pools: seen.Pools}, nil
}
