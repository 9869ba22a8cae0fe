package capture

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// podNamespaceOf returns the namespace of the capture's pod and Order: the recorded namespace, else the configured one.
func podNamespaceOf(w *observed, configured string) string {
	if o := w.record.Order; o != nil && o.Namespace != "" {
		return o.Namespace
	}
	return configured
}

// findOrder finds the namespace of an Order without a recorded namespace. Earlier versions created the Order, by
// default, in the engine's namespace. There the engine may have no permission to read Orders.
func (e *Engine) findOrder(ctx context.Context, w *observed) error {
	o := w.record.Order
	if o == nil || o.Namespace != "" || e.podNamespace() == e.namespace() {
		return nil
	}
	key := client.ObjectKey{Namespace: e.namespace(), Name: podName(w.p)}
	order := &v1alpha1.Order{}
	err := e.Client.Get(ctx, key, order)
	there := err == nil && order.UID == o.UID
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("read order %s: %w", key, err)
	}
	if !there { // the pod is deleted after its Order
		pod, err := e.Kube.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("read pod %s: %w", key, err)
		}
		there = err == nil && pod.Annotations[v1alpha1.OrderAnnotation] == string(o.UID)
	}
	if there {
		found := *o
		found.Namespace = key.Namespace
		w.record.Order = &found
	}
	return nil
}
