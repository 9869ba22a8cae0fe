package node

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// held are the annotations that keep others from removing a reserved node, with the value that does it.
var held = map[string]string{
	v1alpha1.ScaleDownDisabledAnnotation: "true",
	v1alpha1.DoNotDisruptAnnotation:      "true",
}

// NewReservation records how the node is now, so that Release can give it back the same.
func NewReservation(holder v1alpha1.Holder, n *corev1.Node, scaleInProtected bool, now metav1.Time) v1alpha1.Reservation {
	before := map[string]*string{}
	for key := range held {
		before[key] = nil
		if value, found := n.Annotations[key]; found {
			before[key] = &value
		}
	}
	return v1alpha1.Reservation{
		Holder: holder, ReservedAt: now,
		Unschedulable: n.Spec.Unschedulable, ScaleInProtected: scaleInProtected, Annotations: before,
	}
}

// Reserve writes the reservation onto the node, with the annotations that keep others from removing it,
// in one update. A conflict is returned if the node has changed since it was read.
func Reserve(ctx context.Context, kube kubernetes.Interface, n *corev1.Node, r v1alpha1.Reservation) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("reserve node %s: %w", n.Name, err)
	}
	annotations := map[string]*string{v1alpha1.ReservationAnnotation: ptr(string(text))}
	for key, value := range held {
		annotations[key] = ptr(value)
	}
	return patch(ctx, kube, n, annotations, nil)
}

// Note writes what changed in the reservation of a node that is held.
func Note(ctx context.Context, kube kubernetes.Interface, n *corev1.Node, r v1alpha1.Reservation) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("note on node %s: %w", n.Name, err)
	}
	return patch(ctx, kube, n, map[string]*string{v1alpha1.ReservationAnnotation: ptr(string(text))}, nil)
}

// Cordon keeps new pods from the node.
func Cordon(ctx context.Context, kube kubernetes.Interface, n *corev1.Node) error {
	return patch(ctx, kube, n, nil, ptr(true))
}

// Release gives the node back as the reservation found it and removes the lock, in one update.
func Release(ctx context.Context, kube kubernetes.Interface, n *corev1.Node, r v1alpha1.Reservation) error {
	annotations := map[string]*string{v1alpha1.ReservationAnnotation: nil}
	for key, value := range r.Annotations {
		annotations[key] = value
	}
	return patch(ctx, kube, n, annotations, &r.Unschedulable)
}

// Restored tells whether the node is as the reservation found it, and unlocked.
func Restored(n *corev1.Node, r v1alpha1.Reservation) bool {
	if _, locked := n.Annotations[v1alpha1.ReservationAnnotation]; locked {
		return false
	}
	for key, before := range r.Annotations {
		now, found := n.Annotations[key]
		if found != (before != nil) || found && now != *before {
			return false
		}
	}
	return n.Spec.Unschedulable == r.Unschedulable
}

// patch merges annotations (nil removes one) and the cordon into the node as it was read: the resource
// version makes the API server refuse if anybody else wrote meanwhile.
func patch(ctx context.Context, kube kubernetes.Interface, n *corev1.Node, annotations map[string]*string, unschedulable *bool) error {
	return patchLabelled(ctx, kube, n, annotations, nil, unschedulable)
}

func patchLabelled(ctx context.Context, kube kubernetes.Interface, n *corev1.Node, annotations map[string]*string,
	labels map[string]string, unschedulable *bool) error {
	metadata := map[string]any{"resourceVersion": n.ResourceVersion, "uid": n.UID}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	if labels != nil {
		metadata["labels"] = labels
	}
	body := map[string]any{"metadata": metadata}
	if unschedulable != nil {
		body["spec"] = map[string]any{"unschedulable": cordonValue(*unschedulable)}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("patch node %s: %w", n.Name, err)
	}
	if _, err := kube.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: "kamino"}); err != nil {
		return fmt.Errorf("patch node %s: %w", n.Name, err)
	}
	return nil
}

// cordonValue is null for false, as kubectl uncordon leaves it: the field is gone, not false.
func cordonValue(unschedulable bool) any {
	if unschedulable {
		return true
	}
	return nil
}

func ptr[T any](v T) *T { return &v }
