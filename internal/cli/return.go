package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/drive"
	"github.com/kamino-dev/kamino/internal/reservations"
)

type returnFlags struct {
	leftovers bool
	nodeOnly  bool
	dryRun    bool
	timeout   time.Duration
	format    print.Format
}

// holds is what gives nodes back.
func (s *session) holds() *drive.Reservations {
	return &drive.Reservations{Cluster: s.cluster, Cloud: s.provider, Engine: s.engine, Namespace: s.options.Namespace, Now: s.Now,
		Trouble: func(err error) { s.note("Retrying: %s.", explain(err)) }}
}

func (s *session) giveBack(ctx context.Context, name string, flags returnFlags) error {
	goOn := fmt.Sprintf("Node %s is not back in service yet: run the same command again", name)
	report, err := s.held(ctx)
	if err != nil {
		return orCutShort(ctx, err, goOn)
	}
	i := slices.IndexFunc(report.Nodes, func(n reservations.Node) bool { return n.Name == name })
	if i < 0 {
		return refusedf("node %s is not reserved, and nothing was changed: to list reserved nodes, run `kamino held`", name)
	}
	n := report.Nodes[i]
	if n.State == reservations.ByCapture {
		return refusedf("node %s is reserved by the running %s, and nothing was changed: to stop the capture, run `kamino cancel %s`", name, n.Holder, n.Holder.Name)
	}
	if n.State == reservations.ByUnknown {
		return refusedf("node %s is reserved by %s, and nothing was changed: release the node with the Kamino version that reserved the node", name, n.Holder)
	}
	if !n.Believed() && !flags.nodeOnly {
		return refusedf("no Lease of Kamino confirms the reservation of node %s, and nothing was changed: run `kamino return %s --node-only`. "+
			"The command deletes the reservation and the annotations that block autoscalers, and uncordons the node. Check the instance: the command does not change the instance", name, name)
	}
	if n.Believed() && flags.nodeOnly {
		return refusedf("node %s is reserved by %s, and nothing was changed: run again without --node-only, because the instance may also need a restart", name, n.Holder)
	}
	if flags.dryRun {
		return print.Returned(s.Out, flags.format, print.Return{Node: name, Holder: n.Holder, Leaves: n.Leaves, NodeOnly: flags.nodeOnly, DryRun: true})
	}
	state, err := s.holds().Release(ctx, n)
	if err != nil {
		return orCutShort(ctx, err, goOn)
	}
	if err := print.Returned(s.Out, flags.format, print.Return{Node: name, Holder: n.Holder, State: state}); err != nil {
		return err
	}
	if state != v1alpha1.DonorReady && state != v1alpha1.DonorRemoved {
		return &failure{ExitFailed, fmt.Errorf("node %s is released, but not Ready: run `kubectl describe node %s`", name, name)}
	}
	return nil
}

// clear removes what captures have left that are gone.
func (s *session) clear(ctx context.Context, flags returnFlags) error {
	const goOn = "Some leftovers remain: run the same command again"
	report, err := s.held(ctx)
	if err != nil {
		return orCutShort(ctx, err, goOn)
	}
	cleared := print.Cleared{Left: report.Left, DryRun: flags.dryRun}
	if flags.dryRun || len(report.Left) == 0 {
		return print.ClearedAway(s.Out, flags.format, cleared)
	}
	if err := s.holds().Clear(ctx, report.Pools); err != nil {
		return orCutShort(ctx, err, goOn)
	}
	return print.ClearedAway(s.Out, flags.format, cleared)
}
