package capture

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/selection"
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
		(f.Failed || f.Deleting) && !f.Leaving.Added {
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
	f.Donor.DrainOverdue = !settings.Force && d.overdue(w)
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

// podContext reads the budgets and volumes of the pods. Missing or forbidden objects are ignored.
func (d drain) podContext(ctx context.Context, pods []corev1.Pod) (selection.PodContext, error) {
	found := selection.PodContext{Local: map[string]bool{}}
	asked := map[string]bool{}
	for i := range pods {
		if namespace := pods[i].Namespace; !asked[namespace] {
			asked[namespace] = true
			budgets, err := d.kube.PolicyV1().PodDisruptionBudgets(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			if ignoreMissing(err) != nil {
				return found, fmt.Errorf("list pod disruption budgets of namespace %s: %w", namespace, err)
			}
			if err == nil {
				found.Budgets = append(found.Budgets, budgets.Items...)
			}
		}
		for _, claim := range selection.ClaimsOf(&pods[i]) {
			local, err := d.isLocalVolume(ctx, pods[i].Namespace, claim)
			if err != nil {
				return found, err
			}
			if local {
				found.Local[pods[i].Namespace+"/"+claim] = true
			}
		}
	}
	return found, nil
}

// isLocalVolume reports whether a claim is bound to a volume on a node's own disk.
func (d drain) isLocalVolume(ctx context.Context, namespace, name string) (bool, error) {
	claim, err := d.kube.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil || claim.Spec.VolumeName == "" {
		return false, readError(err, "claim %s/%s", namespace, name)
	}
	volume, err := d.kube.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return false, readError(err, "volume %s", claim.Spec.VolumeName)
	}
	return selection.IsLocal(volume), nil
}

// readError adds the object to an error; nil for missing or forbidden objects.
func readError(err error, format string, args ...any) error {
	if ignoreMissing(err) == nil {
		return nil
	}
	return fmt.Errorf("read "+format+": %w", append(args, err)...)
}

// ignoreMissing returns the error; nil for missing or forbidden objects.
func ignoreMissing(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// cannotEvict exceeds the number of pods on any node.
const cannotEvict = 1 << 20

// DisruptionCost returns the cost of draining a node: the number of evictions, plus cannotEvict if some pods cannot be
// evicted. For a leaving donor the cost includes the pods that are hard to move.
func (e *Engine) DisruptionCost(ctx context.Context, name string, settings v1alpha1.DrainSettings, leaves bool) (selection.DisruptionCost, error) {
	left, err := node.Left(ctx, e.Kube, name, settings, node.OwnPod{})
	if err != nil {
		return selection.DisruptionCost{}, err
	}
	found := selection.PodContext{}
	if leaves {
		if found, err = e.rooms().drain.podContext(ctx, left.Pods); err != nil {
			return selection.DisruptionCost{}, err
		}
	}
	b := selection.BurdenOf(left.Pods, found)
	if len(left.Stuck) > 0 || len(left.Protected) > 0 && !settings.Disrupt {
		b.Evictions += cannotEvict
	}
	return b, nil
}
