package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/held"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

// returner gives back a node whose capture is gone, a step each pass.
type returner interface {
	Orphan(ctx context.Context, node string, holder v1alpha1.Holder) (capture.Result, error)
}

type returnFlags struct {
	leftovers bool
	dryRun    bool
	timeout   time.Duration
	format    print.Format
}

// lost holds a node whose reservation cannot be read, or is gone: nothing is known of how the node was before.
var lost = v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "unknown", UID: "unknown"}

// lookPause is the time between two looks at a node that is awaited.
const lookPause = 2 * time.Second

func (s *session) giveBack(ctx context.Context, name string, flags returnFlags) error {
	report, err := s.held(ctx)
	if err != nil {
		return err
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
	if flags.dryRun {
		return print.Returned(s.Out, flags.format, print.Return{Node: name, Holder: n.Holder, DryRun: true})
	}
	ctx, cancel := context.WithTimeoutCause(ctx, flags.timeout, errTimeout)
	defer cancel()
	switch n.State {
	case held.ByReplacement:
		err = s.takeFromReplacement(ctx, name, n.Holder)
	case held.Unreadable, held.Stripped:
		if err = s.cluster.overwrite(ctx, name, s.Now()); err == nil {
			err = s.driveBack(ctx, name, lost)
		}
	case held.Orphaned, held.ByCapture, held.ByUnknown:
		err = s.driveBack(ctx, name, n.Holder)
	}
	if err != nil {
		return err
	}
	state, err := s.awaitReady(ctx, name)
	if err != nil {
		return err
	}
	if err := print.Returned(s.Out, flags.format, print.Return{Node: name, Holder: n.Holder, State: state}); err != nil {
		return err
	}
	if state != v1alpha1.DonorReady {
		return &ending{ExitFailed, fmt.Errorf("node %s is given back, and is not Ready: see `kubectl describe node %s`", name, name)}
	}
	return nil
}

// clear removes what captures have left that are gone. An image version that was being made of such a snapshot goes
// before it, so that it takes more than one look.
func (s *session) clear(ctx context.Context, flags returnFlags) error {
	report, err := s.held(ctx)
	if err != nil {
		return err
	}
	cleared := print.Cleared{Left: report.Left, DryRun: flags.dryRun}
	engine, able := s.engine.(sweeper)
	if !able || flags.dryRun || len(report.Left) == 0 {
		return print.ClearedAway(s.Out, flags.format, cleared)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, flags.timeout, errTimeout)
	defer cancel()
	for {
		left, err := engine.SweepLeftovers(ctx, report.Pools)
		switch {
		case err != nil:
			return err
		case len(left) == 0:
			return print.ClearedAway(s.Out, flags.format, cleared)
		case !waited(ctx, lookPause):
			return &ending{ExitInterrupted, fmt.Errorf("%w. Not all is removed yet: the same command goes on", context.Cause(ctx))}
		}
	}
}

// driveBack makes passes until the holder holds the node no longer.
func (s *session) driveBack(ctx context.Context, name string, holder v1alpha1.Holder) error {
	engine, able := s.engine.(returner)
	if !able {
		return errors.New("this engine gives no nodes back")
	}
	for {
		result, err := engine.Orphan(ctx, name, holder)
		if ctx.Err() != nil {
			return s.broken(ctx, name)
		}
		if err != nil {
			if !cloud.Is(err, cloud.Throttled) && !cloud.Is(err, cloud.Unavailable) && !apierrors.IsConflict(err) {
				return err
			}
			s.note("Trying again: %s.", explain(err))
		}
		if result.Done {
			return nil
		}
		if !waited(ctx, result.After) {
			return s.broken(ctx, name)
		}
	}
}

// broken is how the verb ends that was interrupted, or whose time is over.
func (s *session) broken(ctx context.Context, name string) error {
	return &ending{ExitInterrupted, fmt.Errorf("%w. Node %s is not given back yet: the same command goes on", context.Cause(ctx), name)}
}

// takeFromReplacement starts a node's instance if it is off, and gives the node back as the replacement found it.
func (s *session) takeFromReplacement(ctx context.Context, name string, holder v1alpha1.Holder) error {
	n, err := s.cluster.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	reservation, err := v1alpha1.ReservationOf(n.Annotations)
	if err != nil || reservation == nil || !reservation.Same(holder) {
		return refusedf("node %s is held by %s no longer, and nothing was changed: `kamino held` tells who holds it now", name, holder)
	}
	id := cloud.InstanceID(n.Spec.ProviderID)
	instance, err := s.provider.Instance(ctx, id)
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		return err
	}
	if instance.Power == cloud.PowerStopped {
		if _, err := s.provider.EnsureStarted(ctx, id); err != nil {
			return err
		}
	}
	return node.Release(ctx, s.cluster.Kube, n, *reservation, nil)
}

// awaitReady looks at the node until it is Ready or the time is over, and tells what it is then.
func (s *session) awaitReady(ctx context.Context, name string) (v1alpha1.DonorState, error) {
	for {
		n, err := s.cluster.Kube.CoreV1().Nodes().Get(context.WithoutCancel(ctx), name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return v1alpha1.DonorNodeGone, nil
		case err != nil:
			return "", fmt.Errorf("read node %s: %w", name, err)
		case nodestate.Ready(n):
			return v1alpha1.DonorReady, nil
		}
		if !waited(ctx, lookPause) {
			return v1alpha1.DonorNotReady, nil
		}
	}
}

// waited waits; it is false if the context ended first.
func waited(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// overwrite puts a reservation in place of one that cannot be read or is gone, as of a node that was schedulable, held by
// nothing in its pool, and without the annotations that a hold sets.
func (c *Cluster) overwrite(ctx context.Context, name string, now time.Time) error {
	n, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	before := n.DeepCopy()
	before.Annotations, before.Spec.Unschedulable = nil, false
	return node.Note(ctx, c.Kube, n, node.NewReservation(lost, before, cloud.Unheld, metav1.NewTime(now)))
}

// heldNodes names the nodes that are held.
func (c *Cluster) heldNodes(ctx context.Context, captures held.Captures) ([]string, error) {
	var names []string
	err := node.Each(ctx, c.Kube, "", func(n *corev1.Node) error {
		if _, isHeld := captures.Of(n); isHeld {
			names = append(names, n.Name)
		}
		return nil
	})
	return names, err
}

// sortedPools are the IDs in their order.
func sortedPools(pools map[cloud.PoolID]bool) []cloud.PoolID {
	ids := make([]cloud.PoolID, 0, len(pools))
	for id := range pools {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b cloud.PoolID) int { return cmp.Compare(a, b) })
	return ids
}

// nodeNow says what a node is, from a look.
func (s *session) nodeNow(ctx context.Context, name string) string {
	n, err := s.cluster.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "has no Node any more"
	case err != nil:
		return "could not be looked at"
	case n.Annotations[v1alpha1.ReservationAnnotation] != "":
		return fmt.Sprintf("is still held: `kamino held` tells by whom, `kamino return %s` gives it back", name)
	case nodestate.Ready(n):
		return "is Ready"
	}
	return "is not Ready"
}
