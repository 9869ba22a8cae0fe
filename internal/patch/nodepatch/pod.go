package nodepatch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/patch/plan"
)

const (
	hostMount  = "/host"
	credential = "/var/run/kamino"
	orderKey   = "key"
	// tokenSeconds is the lifetime of the pod's token, the shortest that the API server grants.
	tokenSeconds = 600
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

// newPod is the pod that carries out the order. NodeName binds the pod without scheduler and despite the cordon.
func newPod(t Task, r Record, namespace, image string) *corev1.Pod {
	order := &v1alpha1.NodeOrder{ObjectMeta: metav1.ObjectMeta{Name: podName(t), Namespace: namespace, Labels: labels(t), UID: r.Order.UID}}
	order.Spec.NodeName = t.Node
	return podOf(order, image)
}

// podOf is the pod of a NodeOrder, with the name of the NodeOrder.
func podOf(order *v1alpha1.NodeOrder, image string) *corev1.Pod {
	yes, no, root, seconds := true, false, int64(0), int64(tokenSeconds)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: order.Name, Namespace: order.Namespace, Labels: order.Labels, Annotations: map[string]string{v1alpha1.OrderAnnotation: string(order.UID)},
		},
		Spec: corev1.PodSpec{
			NodeName: order.Spec.NodeName, RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: v1alpha1.GeneralizeServiceAccount,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no, HostNetwork: true, HostPID: true,
			PriorityClassName: "system-node-critical", Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "patch", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
				Args: []string{
					"patch", "--root", hostMount, "--order", fmt.Sprintf("%s/%s", order.Namespace, order.Name), "--order-uid", string(order.UID),
					"--token-file", credential + "/token", "--ca-file", credential + "/ca.crt", "--key-file", credential + "/key", "--pod-uid-file", credential + "/pod-uid",
				},
				SecurityContext:          &corev1.SecurityContext{Privileged: &yes, RunAsUser: &root},
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				VolumeMounts: []corev1.VolumeMount{{Name: "host", MountPath: hostMount},
					{Name: "credential", MountPath: credential, ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{
				{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
				{Name: "credential", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
						Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
					{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: order.Name},
						Optional: &yes, Items: []corev1.KeyToPath{{Key: orderKey, Path: "key"}}}},
					{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "pod-uid",
						FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}}}},
				}}}},
			},
		},
	}
}
