package kubelet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// worker handles a pod from start to end. A worker has a goroutine only during work, so that thousands of running
// pods cost nothing.
type worker struct {
	kubelet         *Kubelet
	namespace, name string
	uid             types.UID

	mu sync.Mutex
	// running and again: one loop at a time, and another round if something happened meanwhile.
	running, again bool
	// deleted cuts waits short once the pod's end is ordered.
	deleted context.CancelFunc
	ordered bool
	// processes of the pod that still need a wait.
	processes map[*process]bool

	// Only the loop uses the following fields.
	begun      bool
	ip         string
	containers []*container
	volumes    *volumes

	// waits until the containers run.
	waits clock.Waits
}

func newWorker(k *Kubelet, pod *corev1.Pod) *worker {
	return &worker{kubelet: k, namespace: pod.Namespace, name: pod.Name, uid: pod.UID, processes: map[*process]bool{}}
}

// kick wakes the worker after a change of the pod, or (nil) after another event.
func (w *worker) kick(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pod != nil && pod.DeletionTimestamp != nil {
		w.ordered = true
		if w.deleted != nil {
			w.deleted()
		}
	}
	if w.running {
		w.again = true
		return
	}
	w.running = w.kubelet.spawn(w.loop)
}

func (w *worker) loop(ctx context.Context) {
	for {
		err := w.step(ctx)
		if err != nil && ctx.Err() == nil {
			w.kubelet.service.Log.Warn("pod not synchronized, trying again", "pod", w.namespace+"/"+w.name, "error", err)
			_ = w.kubelet.service.Clock.Sleep(ctx, 10*time.Second)
		}
		w.mu.Lock()
		if ctx.Err() != nil || !w.again && err == nil {
			w.running = false
			w.mu.Unlock()
			return
		}
		w.again = false
		w.mu.Unlock()
	}
}

// step performs the next step for the pod's state.
func (w *worker) step(ctx context.Context) error {
	if !w.kubelet.isActive() {
		return nil
	}
	pod, err := w.latest()
	switch {
	case err != nil:
		return err
	case pod == nil:
		w.stopProcesses(ctx)
		return w.cleanUp()
	case pod.DeletionTimestamp != nil:
		return w.end(ctx, pod)
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return nil
	case !w.begun:
		return w.begin(ctx, pod)
	default:
		return w.observe(ctx, pod)
	}
}

// latest is the pod in the watch's cache; nil if the pod is gone or replaced by a namesake.
func (w *worker) latest() (*corev1.Pod, error) {
	object, found, err := w.kubelet.service.informer.GetIndexer().GetByKey(w.namespace + "/" + w.name)
	if err != nil || !found {
		return nil, err
	}
	pod := object.(*corev1.Pod)
	if pod.UID != w.uid {
		return nil, nil
	}
	return pod, nil
}

// wait is a context that also ends when the pod's deletion is ordered.
func (w *worker) wait(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deleted = cancel
	if w.ordered {
		cancel()
	}
	return ctx, cancel
}

// begin takes the pod from Pending to Running: images, volumes, init containers, containers.
func (w *worker) begin(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := w.wait(ctx)
	defer cancel()
	// A failed try may have left processes.
	w.stopProcesses(ctx)
	w.containers = newContainers(pod)
	if w.lostInReboot(pod) {
		w.begun = true
		for _, c := range w.containers {
			c.state = terminated(c, 255, "Error", "the node was rebooted", c.started)
		}
		return w.report(ctx, pod)
	}
	if refused, err := w.admit(ctx, pod); refused || err != nil {
		return stopped(ctx, err)
	}
	if !pod.Spec.HostNetwork && !w.kubelet.networkReady() {
		return errNoNetwork
	}
	if problem := w.kubelet.sandboxProblem(pod); problem != "" {
		return stopped(ctx, w.withoutSandbox(ctx, pod, problem))
	}
	w.ip = w.kubelet.podIP(pod)
	if err := w.report(ctx, pod); err != nil {
		return stopped(ctx, err)
	}
	if pulled, err := w.pull(ctx, pod); err != nil || !pulled {
		return stopped(ctx, err)
	}
	if err := w.mount(ctx, pod); err != nil {
		return stopped(ctx, err)
	}
	if err := w.runAll(ctx, pod); err != nil || ctx.Err() != nil {
		return stopped(ctx, err)
	}
	w.begun = true
	if err := w.record(pod); err != nil {
		return err
	}
	return stopped(ctx, w.report(ctx, pod))
}

// runAll runs the containers in their order, up to a failed container.
func (w *worker) runAll(ctx context.Context, pod *corev1.Pod) error {
	for _, c := range w.containers {
		if ctx.Err() != nil {
			return nil
		}
		if err := w.run(ctx, pod, c); err != nil {
			return err
		}
		if c.failed() {
			return nil
		}
	}
	return nil
}

// stopped drops the error of work that the pod's deletion interrupted: the next step continues.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// lostInReboot: the pod ran during an earlier boot and must not run again. Like a real kubelet, the worker asks the
// container runtime: a pod without a record on the disk runs again.
func (w *worker) lostInReboot(pod *corev1.Pod) bool {
	if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || len(pod.Status.ContainerStatuses) == 0 {
		return false
	}
	ran := false
	for _, status := range pod.Status.ContainerStatuses {
		ran = ran || status.State.Waiting == nil
	}
	root := w.kubelet.node.Root
	return ran && (root == "" || disk.HasPod(root, string(w.uid)))
}

// pull fetches missing images into the warm cache. pull returns false if an image is not available.
func (w *worker) pull(ctx context.Context, pod *corev1.Pod) (bool, error) {
	k := w.kubelet
	for _, c := range w.containers {
		if k.service.broken(c.spec.Image) {
			return false, w.refuse(ctx, pod, c, fmt.Sprintf("failed to pull image %q: not found", c.spec.Image))
		}
		problem := k.node.Config.PullProblem(c.spec.Image)
		present := k.node.Root != "" && disk.HasImage(k.node.Root, c.spec.Image)
		// With "Always", the runtime asks the registry for the digest of an image on the disk.
		if present && (c.spec.ImagePullPolicy != corev1.PullAlways || problem == "") {
			if err := w.read(ctx, c.spec.Image); err != nil {
				return false, err
			}
			continue
		}
		if c.spec.ImagePullPolicy == corev1.PullNever {
			c.state = waiting("ErrImageNeverPull", fmt.Sprintf("Container image %q is not present with pull policy of Never", c.spec.Image))
			w.begun = true
			return false, w.report(ctx, pod)
		}
		w.waits.Note("pull", c.spec.Image, k.service.Latencies.ImagePull)
		if err := k.download(ctx, c.spec.Image); err != nil {
			return false, err
		}
		if problem != "" {
			return false, w.refuse(ctx, pod, c, fmt.Sprintf("failed to pull and unpack image %[1]q: failed to resolve reference %[1]q: %[2]s", c.spec.Image, problem))
		}
		if err := k.addImage(c.spec.Image); err != nil {
			return false, err
		}
	}
	return true, nil
}

// read waits for the first read of an image from a new disk.
func (w *worker) read(ctx context.Context, image string) error {
	if w.kubelet.node.FirstRead == nil {
		return nil
	}
	took := w.kubelet.node.FirstRead(image)
	w.waits.Note("read", image, took)
	return w.kubelet.service.Clock.Sleep(ctx, took)
}

// Waits are what a pod waited for until its containers ran; nil for an unknown pod.
func (k *Kubelet) Waits(pod types.UID) []clock.Wait {
	k.mu.Lock()
	w := k.workers[pod]
	k.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.waits.List()
}

// refuse reports an image that cannot be pulled: first the failure, then the back-off. The sandbox never tries again.
func (w *worker) refuse(ctx context.Context, pod *corev1.Pod, c *container, text string) error {
	c.state = waiting("ErrImagePull", text)
	if err := w.report(ctx, pod); err != nil {
		return err
	}
	w.kubelet.event(ctx, pod, corev1.EventTypeWarning, "Failed", text)
	if err := w.kubelet.service.Clock.Sleep(ctx, 10*time.Second); err != nil {
		return err
	}
	c.state = waiting("ImagePullBackOff", "Back-off pulling image \""+c.spec.Image+"\": "+text)
	w.begun = true
	return w.report(ctx, pod)
}

// download waits for an image, with its trace on the disk.
func (k *Kubelet) download(ctx context.Context, image string) (err error) {
	if k.node.Root != "" && k.isActive() {
		done, err := disk.BeginPull(k.node.Root, image)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
	}
	return k.service.Clock.Sleep(ctx, k.service.Latencies.ImagePull)
}

// addImage adds an image to the warm cache. A lock serializes pods that start together.
func (k *Kubelet) addImage(image string) error {
	if k.node.Root == "" || !k.isActive() {
		return nil
	}
	k.cache.Lock()
	defer k.cache.Unlock()
	return disk.AddImage(k.node.Root, image)
}

func (s *Service) broken(image string) bool {
	for _, part := range s.Broken {
		if strings.Contains(image, part) {
			return true
		}
	}
	return false
}

// record writes the pod to the machine's disk, where a real node's kubelet and runtime keep it.
func (w *worker) record(pod *corev1.Pod) error {
	if w.kubelet.node.Root == "" || !w.kubelet.isActive() {
		return nil
	}
	return disk.AddPod(w.kubelet.node.Root, w.podRecord(pod.Spec.HostNetwork))
}

func (w *worker) podRecord(hostNetwork bool) disk.PodRecord {
	record := disk.PodRecord{UID: string(w.uid), Namespace: w.namespace, Name: w.name}
	if !hostNetwork {
		record.IP = w.ip
	}
	return record
}

// end stops the pod and deletes the pod object.
func (w *worker) end(ctx context.Context, pod *corev1.Pod) error {
	grace := 30 * time.Second
	if pod.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	}
	latencies, timing := w.kubelet.service.Latencies, w.kubelet.service.Clock
	limit, cancel := context.WithTimeout(ctx, max(timing.Real(grace), time.Second))
	hadProcesses := w.stopProcesses(limit)
	cancel()
	if !hadProcesses && w.begun {
		if err := timing.Sleep(ctx, min(grace, latencies.ContainerStop)); err != nil {
			return err
		}
	}
	if hadProcesses {
		w.reap()
		if err := w.report(ctx, pod); err != nil {
			return err
		}
	}
	none := int64(0)
	err := w.kubelet.client.CoreV1().Pods(w.namespace).Delete(ctx, w.name, metav1.DeleteOptions{
		GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &w.uid},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	return w.cleanUp()
}

// cleanUp removes the pod's data on the disk and in the kubelet.
func (w *worker) cleanUp() error {
	w.kubelet.forget(w)
	w.volumes.remove()
	if w.kubelet.node.Root == "" {
		return nil
	}
	return disk.RemovePod(w.kubelet.node.Root, w.podRecord(false))
}
