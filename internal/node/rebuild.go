package node

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TakeForRebuild writes onto the node, in one update, that it is being rebuilt and how it is now: the same lock
// that a capture takes, so that neither takes a node from the other. A conflict is returned if the node has
// changed since it was read.
func TakeForRebuild(ctx context.Context, kube kubernetes.Interface, n *corev1.Node, r v1alpha1.Rebuild) error {
	holder := v1alpha1.Holder{Kind: v1alpha1.HolderReplacement, Name: v1alpha1.RebuildHolder, UID: v1alpha1.RebuildHolder}
	reservation, err := json.Marshal(NewReservation(holder, n, false, r.StartedAt))
	if err != nil {
		return fmt.Errorf("take node %s: %w", n.Name, err)
	}
	rebuild, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("take node %s: %w", n.Name, err)
	}
	annotations := map[string]*string{
		v1alpha1.ReservationAnnotation: ptr(string(reservation)),
		v1alpha1.RebuildAnnotation:     ptr(string(rebuild)),
	}
	for key, value := range held {
		annotations[key] = ptr(value)
	}
	return patch(ctx, kube, n, annotations, nil)
}

// GiveBackFromRebuild gives the node back as it was taken, in one update; with a version, that becomes the value
// of its VersionLabel.
func GiveBackFromRebuild(ctx context.Context, kube kubernetes.Interface, n *corev1.Node, version string) error {
	annotations := map[string]*string{v1alpha1.ReservationAnnotation: nil, v1alpha1.RebuildAnnotation: nil}
	unschedulable := false
	reservation, err := v1alpha1.ReservationOf(n.Annotations)
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	if reservation != nil {
		unschedulable = reservation.Unschedulable
		for key, value := range reservation.Annotations {
			annotations[key] = value
		}
	}
	var labels map[string]string
	if version != "" {
		labels = map[string]string{v1alpha1.VersionLabel: v1alpha1.VersionLabelValue(version)}
	}
	return patchLabelled(ctx, kube, n, annotations, labels, &unschedulable)
}

// Rebuilding reads what a node that is being rebuilt carries; nil for any other node, also one that a capture
// holds.
func Rebuilding(n *corev1.Node) (*v1alpha1.Rebuild, error) {
	reservation, err := v1alpha1.ReservationOf(n.Annotations)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", n.Name, err)
	}
	if reservation == nil || !reservation.Is(v1alpha1.HolderReplacement) {
		return nil, nil
	}
	rebuild, err := v1alpha1.RebuildOf(n.Annotations)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", n.Name, err)
	}
	if rebuild == nil { // a hand removed the other half
		rebuild = &v1alpha1.Rebuild{StartedAt: metav1.NewTime(reservation.ReservedAt.Time)}
	}
	return rebuild, nil
}
