package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// CarryOver copies the labels and taints with these keys from one Node to another. Labels and taints of the same keys are
// replaced. A Node that has changed since its read is a conflict.
func CarryOver(ctx context.Context, kube kubernetes.Interface, from, to *corev1.Node, keys v1alpha1.CarryOver) error {
	labels, taints := keys.Of(from)
	metadata, spec := map[string]any{}, map[string]any{}
	for key, value := range labels {
		if have, found := to.Labels[key]; !found || have != value {
			metadata["labels"] = labels
		}
	}
	has := func(taint corev1.Taint) bool {
		return slices.ContainsFunc(to.Spec.Taints, func(have corev1.Taint) bool { return have.MatchTaint(&taint) && have.Value == taint.Value })
	}
	if slices.ContainsFunc(taints, func(taint corev1.Taint) bool { return !has(taint) }) {
		others := slices.DeleteFunc(slices.Clone(to.Spec.Taints), func(have corev1.Taint) bool {
			return slices.ContainsFunc(taints, func(taint corev1.Taint) bool { return taint.Key == have.Key })
		})
		spec["taints"] = append(others, taints...)
	}
	if len(metadata) == 0 && len(spec) == 0 {
		return nil
	}
	metadata["resourceVersion"] = to.ResourceVersion
	return patchNode(ctx, kube, to, metadata, spec, metav1.PatchOptions{FieldManager: "kamino"})
}

// TryCarryOver asks the API server, as a dry run, whether this process may write labels and taints with these keys. A dry run
// that changes nothing would always be allowed, so the dry run removes the labels and taints from their Node.
func TryCarryOver(ctx context.Context, kube kubernetes.Interface, from *corev1.Node, keys v1alpha1.CarryOver) error {
	labels, taints := keys.Of(from)
	removed := map[string]*string{}
	for key := range labels {
		removed[key] = nil
	}
	left := slices.DeleteFunc(slices.Clone(from.Spec.Taints), func(taint corev1.Taint) bool { return slices.Contains(keys.Taints, taint.Key) })
	metadata, spec := map[string]any{"labels": removed}, map[string]any{}
	if len(taints) > 0 {
		spec["taints"] = left
	}
	return patchNode(ctx, kube, from, metadata, spec, metav1.PatchOptions{FieldManager: "kamino", DryRun: []string{metav1.DryRunAll}})
}

// patchNode writes fields of the Node with this name and UID.
func patchNode(ctx context.Context, kube kubernetes.Interface, n *corev1.Node, metadata, spec map[string]any, options metav1.PatchOptions) error {
	metadata["uid"] = n.UID
	body, err := json.Marshal(map[string]any{"metadata": metadata, "spec": spec})
	if err == nil {
		_, err = kube.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, body, options)
	}
	if err != nil {
		return fmt.Errorf("write labels and taints of node %s: %w", n.Name, err)
	}
	return nil
}
