package capture

import (
	"context"

	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// drain evicts the pods of the donor.
type drain struct {
	kube         kubernetes.Interface
	podNamespace string
	now          clock
}

// lookPods reads the pods that are still to be evicted during a drain.
func (d drain) lookPods(ctx context.Context, w *pass) error {
	f := &w.facts
	if f.MustBoot() || f.Copy.Wanted || f.Donor.Patch == plan.PatchUnderWay || !f.Hold.Recorded && !w.isOrphan || !f.Donor.Cordoned || w.donor.node == nil ||
		f.Failed || f.Deleting {
		f.Donor.Drained = f.MustBoot()
		return nil
	}
	settings := w.p.Spec.Settings.Defaulted().Drain
	left, err := node.Left(ctx, d.kube, w.donor.node.Name, settings, ownPod(podNamespaceOf(w, d.podNamespace), w.p))
	if err != nil {
		return err
	}
	w.donor.remainingPods, w.donor.arePodsListed = left, true
	f.Donor.Drained = len(left.Pods) == 0 && len(left.Stuck) == 0
	f.Donor.DrainOverdue = !settings.Force && d.overdue(w) || nodestate.Leaving(w.donor.node) != "" // its time is too short for a capture
	if f.Donor.DrainOverdue && !f.Donor.Drained {
		w.donor.blockedPods = node.HeldBack(ctx, d.kube, left) // for the message of the failure
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
	blocked, err := node.Evict(ctx, d.kube, w.donor.remainingPods, settings, settings.Force && d.overdue(w))
	w.donor.blockedPods = blocked
	w.p.Status.Progress = drainProgress(w)
	return err
}

// ownPod is the Prototype's own pod, which the drain must not evict.
func ownPod(namespace string, p *v1alpha1.Prototype) node.OwnPod {
	return node.OwnPod{Namespace: namespace, Name: podName(p)}
}

// cannotEvict exceeds the number of pods on any node.
const cannotEvict = 1 << 20

// Evictions returns the number of evictions that the drain of a node needs, plus cannotEvict if some pods cannot be evicted.
func (e *Engine) Evictions(ctx context.Context, name string, settings v1alpha1.DrainSettings) (int, error) {
	left, err := node.Left(ctx, e.Kube, name, settings, node.OwnPod{})
	if err != nil {
		return 0, err
	}
	n := len(left.Pods)
	if len(left.Stuck) > 0 || len(left.Protected) > 0 && !settings.Disrupt {
		n += cannotEvict
	}
	return n, nil
}
