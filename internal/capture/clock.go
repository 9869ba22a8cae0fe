package capture

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// refuseClock checks the donor's clock by what its kubelet writes into the node's Lease every few seconds: the proof
// that its disk is generalized carries that clock's time, and one that seems old proves nothing. Who may not read
// the Lease, or finds none, refuses nothing.
func (e *Engine) refuseClock(ctx context.Context, w *world, _ []v1alpha1.Prototype) ([]cloud.Refusal, error) {
	if w.node == nil {
		return nil, nil
	}
	lease, err := e.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, w.node.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read lease %s/%s: %w", corev1.NamespaceNodeLease, w.node.Name, err)
	case lease.Spec.RenewTime == nil:
		return nil, nil
	}
	ahead := lease.Spec.RenewTime.Sub(e.writtenAt(lease))
	if ahead.Abs() <= maxClockDifference {
		return nil, nil
	}
	relation := "behind"
	if ahead > 0 {
		relation = "ahead of"
	}
	return []cloud.Refusal{cloud.Refuse(DonorClockOff,
		fmt.Sprintf("the clock of node %s is %s %s the API server's, so that a proof from it could not be believed", w.node.Name, ahead.Abs().Round(time.Minute), relation),
		"set it right, with chrony for instance, or capture another node")}, nil
}

// writtenAt is when the Lease was last written, by the API server's own clock; by this process's where that is not told.
func (e *Engine) writtenAt(lease *coordinationv1.Lease) time.Time {
	var last time.Time
	for _, entry := range lease.ManagedFields {
		if entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	if last.IsZero() {
		return e.now()
	}
	return last
}
