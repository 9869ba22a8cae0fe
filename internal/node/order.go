package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

const (
	// HostMount and CredentialMount are the directories of the host and of the credentials in Kamino's pods on nodes.
	HostMount, CredentialMount = "/host", "/var/run/kamino"
	// SecretKey is the key of the private key in the Secret of a NodeOrder.
	SecretKey = "key"
	// tokenSeconds is the lifetime of the pod's token, the shortest that the API server grants.
	tokenSeconds = 600
)

// OrderPod returns the pod that carries out a NodeOrder, and that has its name: privileged, with the verb and the arguments of
// kamino-node. NodeName binds the pod without scheduler and despite the cordon.
func OrderPod(order *v1alpha1.NodeOrder, image, verb string, args ...string) *corev1.Pod {
	yes, no, root := true, false, int64(0)
	args = append([]string{verb}, args...)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: order.Name, Namespace: order.Namespace, Labels: order.Labels, Annotations: map[string]string{v1alpha1.OrderAnnotation: string(order.UID)},
		},
		Spec: corev1.PodSpec{
			NodeName:                     order.Spec.NodeName,
			RestartPolicy:                corev1.RestartPolicyNever,
			ServiceAccountName:           v1alpha1.GeneralizeServiceAccount,
			AutomountServiceAccountToken: &no,
			EnableServiceLinks:           &no,
			HostNetwork:                  true, // independent of the pod network, which stops with its agents
			HostPID:                      true,
			PriorityClassName:            "system-node-critical",
			Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name:            verb,
				Image:           image,
				ImagePullPolicy: corev1.PullIfNotPresent,
				Args: append(args,
					"--order", order.Namespace+"/"+order.Name, "--order-uid", string(order.UID),
					"--token-file", CredentialMount+"/token", "--ca-file", CredentialMount+"/ca.crt",
					"--key-file", CredentialMount+"/key", "--pod-uid-file", CredentialMount+"/pod-uid",
				),
				SecurityContext:          &corev1.SecurityContext{Privileged: &yes, RunAsUser: &root},
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				VolumeMounts: []corev1.VolumeMount{
					{Name: "host", MountPath: HostMount},
					{Name: "credential", MountPath: CredentialMount, ReadOnly: true},
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
				{Name: "credential", VolumeSource: corev1.VolumeSource{Projected: credentials(order.Name)}},
			},
		},
	}
}

// credentials is a volume in memory: the container runtime would write arguments and environment variables onto the disk. A
// missing key must not block the pod's start, because the pod reports the missing key, and the kubelet would only wait.
func credentials(secret string) *corev1.ProjectedVolumeSource {
	seconds, yes := int64(tokenSeconds), true
	return &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
			Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
		}},
		{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Optional: &yes, Items: []corev1.KeyToPath{{Key: SecretKey, Path: "key"}},
		}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "pod-uid", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}},
		}}},
	}}
}

// StartLimit is the time for the pod of a NodeOrder to start, with the pull of its image.
const StartLimit = 10 * time.Minute

// IsStuck reports whether a pod has not started in time. Without the key of its NodeOrder it never starts, and Kamino may not read keys.
func IsStuck(pod *corev1.Pod, now time.Time) bool {
	waits := pod.Status.Phase == "" || pod.Status.Phase == corev1.PodPending
	return waits && !pod.CreationTimestamp.IsZero() && now.Sub(pod.CreationTimestamp.Time) > StartLimit
}

// CreateOrderKey stores the private key of a NodeOrder in a Secret that only the NodeOrder's pod mounts. The Secret has the
// NodeOrder as owner.
func CreateOrderKey(ctx context.Context, kube kubernetes.Interface, order *v1alpha1.NodeOrder, private []byte) error {
	return CreateKey(ctx, kube, metav1.ObjectMeta{
		Name: order.Name, Namespace: order.Namespace, Labels: order.Labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeOrder", Name: order.Name, UID: order.UID}},
	}, private)
}

// CreateKey stores a key in an immutable Secret, which replaces a Secret of the name.
func CreateKey(ctx context.Context, kube kubernetes.Interface, meta metav1.ObjectMeta, key []byte) error {
	immutable := true
	secret, secrets := &corev1.Secret{ObjectMeta: meta, Immutable: &immutable, Data: map[string][]byte{SecretKey: key}}, kube.CoreV1().Secrets(meta.Namespace)
	_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // of an order or a pod that is gone
		if err := DeleteKey(ctx, kube, meta.Namespace, meta.Name); err != nil {
			return err
		}
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("create secret %s/%s: %w", meta.Namespace, meta.Name, err)
	}
	return nil
}

// DeleteKey deletes the Secret with a key. A missing Secret is no error.
func DeleteKey(ctx context.Context, kube kubernetes.Interface, namespace, name string) error {
	err := kube.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete secret %s/%s: %w", namespace, name, err)
	}
	return nil
}
