package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProviderOf returns the provider ID of a Node; empty if the Node does not exist.
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

// RemoveNode deletes Node, Lease and pods of a deleted instance, like a cloud's node lifecycle controller and the pod
// garbage collector. A Node with another provider ID stays.
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
