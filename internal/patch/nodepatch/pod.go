package nodepatch

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/patch/plan"
)

// podName is the name of the NodeOrder, its key and its pod. The UID of the holder makes the name unique in the namespace.
func podName(t Task) string {
	sum := sha256.Sum256([]byte(string(t.Holder.UID) + "\n" + t.Node))
	return "patch-" + hex.EncodeToString(sum[:10])
}

func labels(t Task) map[string]string {
	return map[string]string{
		v1alpha1.PrototypeLabel: v1alpha1.LabelValue(t.Holder.Name), v1alpha1.PrototypeUIDLabel: string(t.Holder.UID),
		"app.kubernetes.io/name": "kamino", "app.kubernetes.io/component": "patch", "app.kubernetes.io/managed-by": "kamino",
	}
}

// newOrder is the NodeOrder of an action.
func newOrder(t Task, a plan.Action, namespace, boot, key string) *v1alpha1.NodeOrder {
	order := &v1alpha1.NodeOrder{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(t), Namespace: namespace, Labels: labels(t),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Prototype", Name: t.Holder.Name, UID: t.Holder.UID}},
		},
		Spec: v1alpha1.NodeOrderSpec{
			Holder: t.Holder, NodeName: t.Node, Method: v1alpha1.OrderReboot, Token: boot, PodName: podName(t), Key: key,
		},
	}
	if a == plan.OrderPatch {
		patches := t.Patches
		patches.Drained = true
		order.Spec.Method, order.Spec.Patch = v1alpha1.OrderPatch, &patches
	}
	return order
}

// newPod is the pod that carries out the order.
func newPod(t Task, r Record, namespace, image string) *corev1.Pod {
	order := &v1alpha1.NodeOrder{ObjectMeta: metav1.ObjectMeta{Name: podName(t), Namespace: namespace, Labels: labels(t), UID: r.Order.UID}}
	order.Spec.NodeName = t.Node
	return node.OrderPod(order, image, "patch", "--root", node.HostMount)
}
