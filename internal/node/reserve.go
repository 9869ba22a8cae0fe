package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// held has the annotations that keep other tools from removing a reserved node, with the protecting values.
var held = map[string]string{
	v1alpha1.ScaleDownDisabledAnnotation: "true",
	v1alpha1.DoNotDisruptAnnotation:      "true",
}

// NewReservation records the current state of the node, so that Release can restore the state. protection is the cloud's
// token for the state of the instance in the pool; empty if Kamino does not change the state.
func NewReservation(holder v1alpha1.Holder, n *corev1.Node, protection string, now metav1.Time) v1alpha1.Reservation {
	before := map[string]*string{}
	for key := range held {
		before[key] = nil
		if value, found := n.Annotations[key]; found {
			before[key] = &value
		}
	}
	return v1alpha1.Reservation{
		Holder: holder, ReservedAt: now,
		Unschedulable: n.Spec.Unschedulable, Protection: protection, Annotations: before,
	}
}

// Reserve reserves the node for the holder: first the Lease, then the Node with the protecting annotations, and returns the
// Node as written. Another holder, or a changed Node, is a conflict.
func (s Reservations) Reserve(ctx context.Context, n *corev1.Node, r v1alpha1.Reservation) (*corev1.Node, error) {
	if err := unheld(n, r.Holder); err != nil {
		return nil, err
	}
	made, err := s.grant(ctx, n, r)
	if err != nil {
		return nil, err
	}
	written, err := shadow(ctx, s.Kube, n, r)
	if made != nil && (apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err)) {
		return nil, errors.Join(err, s.Drop(ctx, *made)) // the Node was not written, and will not be
	}
	return written, err
}

// Note writes a changed reservation to the Lease, then to the Node, over any other reservation: the caller must know that the
// node is reserved. Note returns the Node as written, and a conflict for a changed Node.
func (s Reservations) Note(ctx context.Context, n *corev1.Node, r v1alpha1.Reservation) (*corev1.Node, error) {
	if err := s.Renew(ctx, n, r); err != nil {
		return nil, err
	}
	return shadow(ctx, s.Kube, n, r)
}

// shadow writes the reservation on the Node.
func shadow(ctx context.Context, kube kubernetes.Interface, n *corev1.Node, r v1alpha1.Reservation) (*corev1.Node, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("reserve node %s: %w", n.Name, err)
	}
	annotations := map[string]*string{v1alpha1.ReservationAnnotation: ptr(string(text))}
	for key, value := range held {
		if _, known := r.Annotations[key]; known { // Release restores recorded annotations only
			annotations[key] = ptr(value)
		}
	}
	return patch(ctx, kube, n, change{annotations: annotations})
}

// Cordon marks the node unschedulable.
func Cordon(ctx context.Context, kube kubernetes.Interface, n *corev1.Node) error {
	_, err := patch(ctx, kube, n, change{unschedulable: ptr(true)})
	return err
}

// Serve restores the recorded schedulability of the node, and nothing else: the node stays reserved. Serve returns a
// conflict if the node has another reservation or has changed since the read.
func (s Reservations) Serve(ctx context.Context, n *corev1.Node, r v1alpha1.Reservation) error {
	if err := unheld(n, r.Holder); err != nil {
		return err
	}
	_, err := patch(ctx, s.Kube, n, change{unschedulable: &r.Unschedulable})
	return err
}

// Marks are labels and annotations that Release writes in the same update. A nil annotation removes the key.
type Marks struct {
	Labels      map[string]string
	Annotations map[string]*string
}

// Release restores the node with Restore. Then Release deletes the Lease.
func (s Reservations) Release(ctx context.Context, n *corev1.Node, r v1alpha1.Reservation, marks *Marks) error {
	if err := s.Restore(ctx, n, r, marks); err != nil {
		return err
	}
	return s.End(ctx, n, r.Holder)
}

// Restore restores the recorded state of the node, removes the reservation and writes the marks in one update. The Lease stays:
// DropOf deletes the Lease. Another reservation, or a changed Node, is a conflict.
func (s Reservations) Restore(ctx context.Context, n *corev1.Node, r v1alpha1.Reservation, marks *Marks) error {
	if err := unheld(n, r.Holder); err != nil {
		return err
	}
	annotations := map[string]*string{v1alpha1.ReservationAnnotation: nil}
	for key, value := range r.Annotations {
		annotations[key] = value
	}
	c := change{annotations: annotations, unschedulable: &r.Unschedulable}
	if marks != nil {
		c.labels = marks.Labels
		maps.Copy(annotations, marks.Annotations)
	}
	_, err := patch(ctx, s.Kube, n, c)
	return err
}

// Clear removes the reservation and the protecting annotations from a Node, and uncordons the Node. Use Clear if no
// record can be trusted: Clear restores no values and keeps the Lease.
func Clear(ctx context.Context, kube kubernetes.Interface, n *corev1.Node) error {
	annotations := map[string]*string{v1alpha1.ReservationAnnotation: nil}
	for key := range held {
		annotations[key] = nil
	}
	_, err := patch(ctx, kube, n, change{annotations: annotations, unschedulable: ptr(false)})
	return err
}

// Mark writes annotations on a node; nil removes a key. Mark returns a conflict if the node has changed since the read.
func Mark(ctx context.Context, kube kubernetes.Interface, n *corev1.Node, annotations map[string]*string) error {
	_, err := patch(ctx, kube, n, change{annotations: annotations})
	return err
}

// unheld returns a conflict if the node has a reservation of another holder or an unreadable reservation.
func unheld(n *corev1.Node, holder v1alpha1.Holder) error {
	other, err := v1alpha1.ReservationOf(n.Annotations)
	if err == nil && other != nil && !other.Same(holder) {
		err = fmt.Errorf("the node is held by %s", other.Holder)
	}
	if err != nil {
		return apierrors.NewConflict(corev1.Resource("nodes"), n.Name, err)
	}
	return nil
}

// Restored reports whether the node has no reservation and is as before the reservation.
func Restored(n *corev1.Node, r v1alpha1.Reservation) bool {
	_, locked := n.Annotations[v1alpha1.ReservationAnnotation]
	return !locked && AsBefore(n, r)
}

// AsBefore reports whether the cordon and the annotations of the node are as before the reservation, as far as the holder
// changes them.
func AsBefore(n *corev1.Node, r v1alpha1.Reservation) bool {
	if r.Untouched {
		return true
	}
	for key, before := range r.Annotations {
		now, found := n.Annotations[key]
		if found != (before != nil) || found && now != *before {
			return false
		}
	}
	return n.Spec.Unschedulable == r.Unschedulable
}

// change is a patch of a node: annotations (nil removes a key), labels and the cordon. Unset fields stay.
type change struct {
	annotations   map[string]*string
	labels        map[string]string
	unschedulable *bool
}

// patch merges the change into the node, and returns the Node as written. The resource version makes the API server
// refuse a concurrent write.
func patch(ctx context.Context, kube kubernetes.Interface, n *corev1.Node, c change) (*corev1.Node, error) {
	if err := ownLabels(n.Name, c.labels); err != nil {
		return nil, err
	}
	metadata := map[string]any{"resourceVersion": n.ResourceVersion, "uid": n.UID}
	if c.annotations != nil {
		metadata["annotations"] = c.annotations
	}
	if c.labels != nil {
		metadata["labels"] = c.labels
	}
	body := map[string]any{"metadata": metadata}
	if c.unschedulable != nil {
		body["spec"] = map[string]any{"unschedulable": cordonValue(*c.unschedulable)}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("patch node %s: %w", n.Name, err)
	}
	written, err := kube.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: "kamino"})
	if err != nil {
		return nil, fmt.Errorf("patch node %s: %w", n.Name, err)
	}
	return written, nil
}

// cordonValue is null for false: `kubectl uncordon` also removes the field.
func cordonValue(unschedulable bool) any {
	if unschedulable {
		return true
	}
	return nil
}

func ptr[T any](v T) *T { return &v }
