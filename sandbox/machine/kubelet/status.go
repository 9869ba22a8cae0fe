package kubelet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// report writes the pod's status if the status has changed. An inactive kubelet reports nothing, and a deleted pod
// needs no report.
func (w *worker) report(ctx context.Context, seen *corev1.Pod) error {
	if !w.kubelet.isActive() {
		return nil
	}
	pods := w.kubelet.client.CoreV1().Pods(w.namespace)
	pod := seen.DeepCopy()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		status := w.status(pod)
		if equality.Semantic.DeepEqual(status, pod.Status) {
			return nil
		}
		pod.Status = status
		_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			return err
		}
		latest, getErr := pods.Get(ctx, w.name, metav1.GetOptions{})
		if getErr != nil {
			return getErr
		}
		if latest.UID != w.uid {
			return nil
		}
		pod = latest
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// status is the current status of the pod.
func (w *worker) status(pod *corev1.Pod) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.InitContainerStatuses, status.ContainerStatuses = nil, nil
	initialized, ready := true, true
	for _, c := range w.containers {
		one := c.status()
		if c.init {
			status.InitContainerStatuses = append(status.InitContainerStatuses, one)
			initialized = initialized && c.ready
			continue
		}
		status.ContainerStatuses = append(status.ContainerStatuses, one)
		ready = ready && c.ready
	}
	status.Phase = w.phase(pod)
	status.HostIP = w.kubelet.node.IP
	status.HostIPs = []corev1.HostIP{{IP: w.kubelet.node.IP}}
	if w.ip != "" {
		status.PodIP, status.PodIPs = w.ip, []corev1.PodIP{{IP: w.ip}}
	}
	if status.StartTime == nil {
		now := metav1.Now()
		status.StartTime = &now
	}
	ready = ready && status.Phase == corev1.PodRunning
	finished := status.Phase == corev1.PodSucceeded
	setPodCondition(&status, corev1.PodScheduled, true, "")
	setPodCondition(&status, corev1.PodReadyToStartContainers, w.ip != "" && !finished, "")
	setPodCondition(&status, corev1.PodInitialized, initialized, "ContainersNotInitialized")
	reason := "ContainersNotReady"
	if finished {
		reason = "PodCompleted"
	}
	setPodCondition(&status, corev1.ContainersReady, ready, reason)
	setPodCondition(&status, corev1.PodReady, ready && gatesOpen(pod), reason)
	return status
}

func (c *container) status() corev1.ContainerStatus {
	running := c.state.Running != nil
	status := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, Ready: c.ready, Started: &running,
		RestartCount: c.restarts, State: c.state, LastTerminationState: c.last, ContainerID: containerID(c),
	}
	if c.state.Waiting == nil {
		status.ImageID = c.spec.Image + "@sha256:" + disk.Digest(c.spec.Image)
	}
	return status
}

// phase follows the API's words: Pending until every container has started once, then Running, and a
// last word once all have ended and none will run again.
func (w *worker) phase(pod *corev1.Pod) corev1.PodPhase {
	pending, alive, bad := false, false, false
	for _, c := range w.containers {
		switch {
		case c.failed():
			alive, bad = pod.Spec.RestartPolicy != corev1.RestartPolicyNever, true
		case !c.lasting():
		case c.state.Waiting != nil:
			pending = pending || c.last.Terminated == nil
			alive = true
		case c.state.Running != nil:
			alive = true
		case c.sidecar:
		default:
			alive = alive || restarts(pod, c)
			bad = bad || c.state.Terminated.ExitCode != 0
		}
	}
	switch {
	case bad && !alive:
		return corev1.PodFailed
	case pending:
		return corev1.PodPending
	case alive:
		return corev1.PodRunning
	default:
		return corev1.PodSucceeded
	}
}

func setPodCondition(status *corev1.PodStatus, kind corev1.PodConditionType, value bool, reason string) {
	text := corev1.ConditionTrue
	if value {
		reason = ""
	} else {
		text = corev1.ConditionFalse
	}
	i := slices.IndexFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, LastTransitionTime: metav1.Now()})
		i = len(status.Conditions) - 1
	}
	condition := &status.Conditions[i]
	if condition.Status != text {
		condition.Status, condition.LastTransitionTime = text, metav1.Now()
	}
	condition.Reason = reason
}

func gatesOpen(pod *corev1.Pod) bool {
	for _, gate := range pod.Spec.ReadinessGates {
		open := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		})
		if !open {
			return false
		}
	}
	return true
}

// podIP returns an address of the simulated pod network, or the node's address. A pod that is a real process gets a
// reachable address of the host.
func (k *Kubelet) podIP(pod *corev1.Pod) string {
	if pod.Spec.HostNetwork {
		return k.node.IP
	}
	n := k.service.nextIP.Add(1)
	if slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return k.service.program(c.Image) != "" }) {
		return k.service.reachable(n)
	}
	return fmt.Sprintf("10.%d.%d.%d", 244+(n>>16)%8, n>>8&0xff, n&0xff)
}

// event writes an Event about a pod. A lost Event is no failure.
func (k *Kubelet) event(ctx context.Context, pod *corev1.Pod, kind, reason, message string) {
	now := metav1.Now()
	_, err := k.client.CoreV1().Events(pod.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: pod.Name + ".", Namespace: pod.Namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		},
		Type: kind, Reason: reason, Message: message, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName},
	}, metav1.CreateOptions{})
	if err != nil && ctx.Err() == nil {
		k.service.Log.Debug("event not written", "pod", pod.Namespace+"/"+pod.Name, "error", err)
	}
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}
