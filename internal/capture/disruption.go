package capture

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/selection"
)

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
		if found, err = (drain{e}).podContext(ctx, left.Pods); err != nil {
			return selection.DisruptionCost{}, err
		}
	}
	b := selection.BurdenOf(left.Pods, found)
	if len(left.Stuck) > 0 || len(left.Protected) > 0 && !settings.Disrupt {
		b.Evictions += cannotEvict
	}
	return b, nil
}

// podContext reads the budgets and volumes of the pods. Missing or forbidden objects are ignored.
func (d drain) podContext(ctx context.Context, pods []corev1.Pod) (selection.PodContext, error) {
	found := selection.PodContext{Local: map[string]bool{}}
	asked := map[string]bool{}
	for i := range pods {
		if namespace := pods[i].Namespace; !asked[namespace] {
			asked[namespace] = true
			budgets, err := d.Kube.PolicyV1().PodDisruptionBudgets(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
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
	claim, err := d.Kube.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil || claim.Spec.VolumeName == "" {
		return false, readError(err, "claim %s/%s", namespace, name)
	}
	volume, err := d.Kube.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
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
