package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// reservations of a cluster that has Kamino's namespace.
func reservations(ctx context.Context, kube kubernetes.Interface) (Reservations, error) {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultNamespace}}
	if _, err := kube.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return Reservations{}, err
	}
	return Reservations{Kube: kube}, nil
}

// Reserve, Note and Release are the methods, for tests of one node.
func Reserve(ctx context.Context, kube kubernetes.Interface, n *corev1.Node, r v1alpha1.Reservation) error {
	s, err := reservations(ctx, kube)
	if err != nil {
		return err
	}
	_, err = s.Reserve(ctx, n, r)
	return err
}

func Note(ctx context.Context, kube kubernetes.Interface, n *corev1.Node, r v1alpha1.Reservation) error {
	s, err := reservations(ctx, kube)
	if err != nil {
		return err
	}
	_, err = s.Note(ctx, n, r)
	return err
}

func Release(ctx context.Context, kube kubernetes.Interface, n *corev1.Node, r v1alpha1.Reservation, marks *Marks) error {
	s, err := reservations(ctx, kube)
	if err != nil {
		return err
	}
	return s.Release(ctx, n, r, marks)
}
