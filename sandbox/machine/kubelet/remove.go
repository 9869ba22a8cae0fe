package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProviderOf tells which instance a Node belongs to; empty if there is no such Node.
func (s *Service) ProviderOf(ctx context.Context, name string) (string, error) {
	node, err := s.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return node.Spec.ProviderID, nil
}

// RemoveNode does what a cloud's node lifecycle controller and the pod garbage collector do once an
// instance is gone: Node, Lease and pods go. A Node of that name that is another instance's stays.
func (s *Service) RemoveNode(ctx context.Context, name, providerID string) error {
	owner, err := s.ProviderOf(ctx, name)
	if err != nil || owner != providerID {
		return err
	}
	if err := s.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); ignoreMissing(err) != nil {
		return err
	}
	err = s.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, name, metav1.DeleteOptions{})
	if ignoreMissing(err) != nil {
		return err
	}
	objects, err := s.informer.GetIndexer().ByIndex(byNode, name)
	if err != nil {
		return err
	}
	now := int64(0)
	for _, object := range objects {
		pod := object.(*corev1.Pod)
		err := s.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
		if ignoreMissing(err) != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
