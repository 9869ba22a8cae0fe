package capture

import (
	"context"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/node"
)

// lookPods reads the pods that are still to be evicted during a drain.
func (d drain) lookPods(ctx context.Context, w *pass) error {
	f := &w.facts
	if f.MustBoot() || f.Donor.Patch == plan.PatchUnderWay || !f.Hold.Recorded && !w.isOrphan || !f.Donor.Cordoned || w.donor.node == nil || (f.Failed || f.Deleting) && !f.Leaving.Added {
		f.Donor.Drained = f.MustBoot()
		return nil
	}
	settings := w.p.Spec.Settings.Defaulted().Drain
	left, err := node.Left(ctx, d.Kube, w.donor.node.Name, settings, ownPod(podNamespaceOf(w, d.podNamespace()), w.p))
	if err != nil {
		return err
	}
	w.donor.remainingPods, w.donor.arePodsListed = left, true
	f.Donor.Drained = len(left.Pods) == 0 && len(left.Stuck) == 0
	f.Donor.DrainOverdue = !settings.Force && d.overdue(w)
	if f.Donor.DrainOverdue && !f.Donor.Drained {
		w.donor.blockedPods = node.HeldBack(ctx, d.Kube, left) // for the message of the failure
	}
	return nil
}

// overdue reports whether the drain has exceeded its timeout.
func (d drain) overdue(w *pass) bool {
	limit := w.p.Spec.Settings.Defaulted().Drain.Timeout.Duration
	since, taken := w.outOfServiceSince()
	return taken && d.now().Sub(since) > limit
}

// evict requests one eviction for each remaining pod. After the timeout, with force, disruption budgets are ignored.
func (d drain) evict(ctx context.Context, w *pass) error {
	settings := w.p.Spec.Settings.Defaulted().Drain
	blocked, err := node.Evict(ctx, d.Kube, w.donor.remainingPods, settings, settings.Force && d.overdue(w))
	w.donor.blockedPods = blocked
	reportDrain(w)
	return err
}

// ownPod is the Prototype's own pod, which the drain must not evict.
func ownPod(namespace string, p *v1alpha1.Prototype) node.OwnPod {
	return node.OwnPod{Namespace: namespace, Name: podName(p)}
}
