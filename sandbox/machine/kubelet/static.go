package kubelet

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubelettypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// mirror creates the mirror pods of the node's static pods, and deletes those of earlier manifests. Like a kubelet, mirror
// only logs an error: the static pods run without the API server. Source: pkg/kubelet/pod/mirror_client.go.
func (k *Kubelet) mirror(ctx context.Context) {
	if err := k.mirrorAll(ctx); err != nil && ctx.Err() == nil {
		k.service.Log.Warn("static pods not mirrored", "node", k.node.Name, "error", err)
	}
}

func (k *Kubelet) mirrorAll(ctx context.Context) error {
	here := fields.OneTermEqualSelector("spec.nodeName", k.node.Name).String()
	list, err := k.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: here})
	if err != nil {
		return err
	}
	var mirrored []string
	for i := range list.Items {
		pod := &list.Items[i]
		hash, isMirror := pod.Annotations[kubelettypes.ConfigMirrorAnnotationKey]
		switch {
		case !isMirror || pod.Spec.NodeName != k.node.Name:
		case slices.ContainsFunc(k.node.Config.StaticPods, func(p corev1.Pod) bool {
			return p.Namespace == pod.Namespace && p.Name == pod.Name && p.Annotations[kubelettypes.ConfigMirrorAnnotationKey] == hash
		}):
			mirrored = append(mirrored, pod.Namespace+"/"+pod.Name)
		default:
			if err := k.removeMirror(ctx, pod); err != nil {
				return err
			}
		}
	}
	for i := range k.node.Config.StaticPods {
		pod := k.node.Config.StaticPods[i].DeepCopy()
		if slices.Contains(mirrored, pod.Namespace+"/"+pod.Name) {
			continue
		}
		if err := k.createMirror(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kubelet) removeMirror(ctx context.Context, pod *corev1.Pod) error {
	none := int64(0)
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete mirror pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// createMirror creates a mirror pod, which its Node owns.
func (k *Kubelet) createMirror(ctx context.Context, pod *corev1.Pod) error {
	node, err := k.client.CoreV1().Nodes().Get(ctx, k.node.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	yes := true
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: &yes}}
	if _, err := k.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create mirror pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
