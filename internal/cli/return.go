package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/drive"
	"github.com/kamino-dev/kamino/internal/held"
)

type returnFlags struct {
	leftovers bool
	nodeOnly  bool
	dryRun    bool
	timeout   time.Duration
	format    print.Format
}

// holds is what gives nodes back.
func (s *session) holds() *drive.Holds {
	return &drive.Holds{Cluster: s.cluster, Cloud: s.provider, Engine: s.engine, Namespace: s.options.Namespace, Now: s.Now,
		Trouble: func(err error) { s.note("Trying again: %s.", explain(err)) }}
}

func (s *session) giveBack(ctx context.Context, name string, flags returnFlags) error {
	goOn := fmt.Sprintf("Node %s is not given back yet: the same command goes on", name)
	report, err := s.held(ctx)
	if err != nil {
		return orCutShort(ctx, err, goOn)
	}
	i := slices.IndexFunc(report.Nodes, func(n held.Node) bool { return n.Name == name })
	if i < 0 {
		return refusedf("nobody holds a node %s, and nothing was changed: `kamino held` lists those that are held", name)
	}
	n := report.Nodes[i]
	if n.State == held.ByCapture {
		return refusedf("node %s is held by %s, which has not ended, and nothing was changed: `kamino cancel %s` stops it and gives the node back", name, n.Holder, n.Holder.Name)
	}
	if n.State == held.ByUnknown {
		return refusedf("node %s is held by %s, and nothing was changed: give it back with the version that took it", name, n.Holder)
	}
	if !n.Believed() && !flags.nodeOnly {
		return refusedf("no Lease of Kamino's says who holds node %s, and nothing was changed: `kamino return %s --node-only` removes the reservation and "+
			"the annotations that keep autoscalers away from the Node, and uncordons it. It changes nothing of its instance: look whether that runs", name, name)
	}
	if n.Believed() && flags.nodeOnly {
		return refusedf("node %s is held by %s, and nothing was changed: leave --node-only out, for its instance may have to be given back, too", name, n.Holder)
	}
	if flags.dryRun {
		return print.Returned(s.Out, flags.format, print.Return{Node: name, Holder: n.Holder, Leaves: n.Leaves, NodeOnly: flags.nodeOnly, DryRun: true})
	}
	state, err := s.holds().GiveBack(ctx, n)
	if err != nil {
		return orCutShort(ctx, err, goOn)
	}
	if err := print.Returned(s.Out, flags.format, print.Return{Node: name, Holder: n.Holder, State: state}); err != nil {
		return err
	}
	if state != v1alpha1.DonorReady && state != v1alpha1.DonorRemoved {
		return &ending{ExitFailed, fmt.Errorf("node %s is given back, and is not Ready: see `kubectl describe node %s`", name, name)}
	}
	return nil
}

// clear removes what captures have left that are gone.
func (s *session) clear(ctx context.Context, flags returnFlags) error {
	const goOn = "Not all is removed yet: the same command goes on"
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
