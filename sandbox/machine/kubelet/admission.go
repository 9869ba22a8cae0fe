package kubelet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	kubelettypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// admit refuses a pod that the node cannot run: the pod fails. A critical pod is never refused. Source: Admit in
// pkg/kubelet/eviction/eviction_manager.go, and pkg/kubelet/lifecycle/predicate.go.
func (w *worker) admit(ctx context.Context, pod *corev1.Pod) (refused bool, err error) {
	config := &w.kubelet.node.Config
	if config.Allocatable == nil {
		return false, nil
	}
	reason, message := "", ""
	switch {
	case kubelettypes.IsCriticalPod(pod):
	case config.DiskPressure:
		reason, message = "Evicted", "Pod was rejected: The node had condition: [DiskPressure]. "
	default:
		reason, message = w.kubelet.lacks(pod)
	}
	if reason == "" {
		w.kubelet.mu.Lock()
		defer w.kubelet.mu.Unlock()
		w.kubelet.admitted[w.uid] = true
		return false, nil
	}
	w.kubelet.event(ctx, pod, corev1.EventTypeWarning, reason, message)
	refusedPod, now := pod.DeepCopy(), metav1.Now()
	refusedPod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: message, StartTime: &now}
	_, err = w.kubelet.client.CoreV1().Pods(w.namespace).UpdateStatus(ctx, refusedPod, metav1.UpdateOptions{})
	return true, ignoreMissing(err)
}

// lacks names the resource that admitted pods leave too little of for a pod; empty if there is enough.
func (k *Kubelet) lacks(pod *corev1.Pod) (reason, message string) {
	objects, err := k.service.informer.GetIndexer().ByIndex(byNode, k.node.Name)
	if err != nil {
		return "", ""
	}
	used := map[corev1.ResourceName]resource.Quantity{}
	add := func(requests corev1.ResourceList) {
		for name, request := range requests {
			sum := used[name]
			sum.Add(request)
			used[name] = sum
		}
	}
	for i := range k.node.Config.StaticPods {
		add(requests(&k.node.Config.StaticPods[i]))
	}
	k.mu.Lock()
	for _, object := range objects {
		other := object.(*corev1.Pod)
		over := kubelettypes.IsMirrorPod(other) || other.Status.Phase == corev1.PodSucceeded || other.Status.Phase == corev1.PodFailed
		if over || other.UID == pod.UID || !k.admitted[other.UID] {
			continue
		}
		add(requests(other))
	}
	k.mu.Unlock()
	wanted := requests(pod)
	for _, name := range []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory} {
		request, sum, all := wanted[name], used[name], k.node.Config.Allocatable[name]
		total := sum.DeepCopy()
		total.Add(request)
		if request.IsZero() || total.Cmp(all) <= 0 {
			continue
		}
		amount := (*resource.Quantity).Value
		if name == corev1.ResourceCPU {
			amount = (*resource.Quantity).MilliValue
		}
		return "OutOf" + string(name), fmt.Sprintf("Pod was rejected: Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
			name, amount(&request), amount(&sum), amount(&all))
	}
	return "", ""
}

// requests of a pod, and the pod itself.
func requests(pod *corev1.Pod) corev1.ResourceList {
	list := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	list[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return list
}

// sandboxProblem is the error of the runtime for the pod's sandbox; empty if the runtime can create one.
func (k *Kubelet) sandboxProblem(pod *corev1.Pod) string {
	switch config := &k.node.Config; {
	case config.Cgroup != "":
		return "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox: failed to create containerd task: failed to create shim task: OCI runtime create failed: " + config.Cgroup
	case config.Rootfs != "":
		return "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox: failed to create containerd task: failed to create shim task: failed to mount rootfs component: " + config.Rootfs
	case config.Sandbox != "" && !pod.Spec.HostNetwork:
		return "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox: " + config.Sandbox
	}
	return ""
}

// withoutSandbox reports a pod whose sandbox cannot be created. The sandbox never tries again during this boot.
func (w *worker) withoutSandbox(ctx context.Context, pod *corev1.Pod, problem string) error {
	w.begun = true
	w.kubelet.event(ctx, pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", problem)
	return w.report(ctx, pod)
}
