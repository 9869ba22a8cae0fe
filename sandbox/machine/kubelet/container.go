package kubelet

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// container is a container of a pod. Init containers come first, in the order of their starts.
type container struct {
	spec    *corev1.Container
	init    bool
	sidecar bool

	process  *process
	started  metav1.Time
	ready    bool
	restarts int32
	state    corev1.ContainerState
	last     corev1.ContainerState
}

// newContainers takes the state of an earlier boot from the pod's status: containers start again, with a higher
// restart count.
func newContainers(pod *corev1.Pod) []*container {
	before := map[string]corev1.ContainerStatus{}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		before[status.Name] = status
	}
	var containers []*container
	add := func(spec *corev1.Container, init bool) {
		always := spec.RestartPolicy != nil && *spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
		c := &container{spec: spec, init: init, sidecar: init && always, state: waiting("ContainerCreating", "")}
		if status := before[spec.Name]; status.State.Running != nil {
			c.restarts = status.RestartCount + 1
			c.started = status.State.Running.StartedAt
			c.last = terminated(c, 255, "Unknown", "", c.started)
		} else if status.Name != "" {
			c.restarts, c.last = status.RestartCount, status.LastTerminationState
		}
		containers = append(containers, c)
	}
	for i := range pod.Spec.InitContainers {
		add(&pod.Spec.InitContainers[i], true)
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i], false)
	}
	return containers
}

// lasting containers run as long as the pod does; plain init containers run first and end.
func (c *container) lasting() bool { return !c.init || c.sidecar }

// failed: an init container failed, so later containers must not start.
func (c *container) failed() bool {
	return c.init && c.state.Terminated != nil && c.state.Terminated.ExitCode != 0
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func terminated(c *container, code int32, reason, message string, started metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, Message: message, StartedAt: started, FinishedAt: metav1.Now(),
		ContainerID: containerID(c),
	}}
}

func containerID(c *container) string {
	if c.started.IsZero() {
		return ""
	}
	return "containerd://" + digest(c.spec.Name, c.started.UTC().Format(time.RFC3339Nano))
}

// run starts a container, and waits for the end of a plain init container.
func (w *worker) run(ctx context.Context, pod *corev1.Pod, c *container) error {
	service := w.kubelet.service
	program := service.program(c.spec.Image)
	if w.crashes(pod, c) {
		return w.crash(ctx, c)
	}
	if program == "" {
		w.waits.Note("start", c.spec.Name, service.Latencies.ContainerStart)
		if err := service.Clock.Sleep(ctx, service.Latencies.ContainerStart); err != nil {
			return err
		}
		return w.simulate(ctx, pod, c)
	}
	if err := w.start(ctx, pod, c, program); err != nil {
		c.state = waiting("CreateContainerError", err.Error())
		c.ready = false
		service.Log.Warn("container not started", "pod", w.namespace+"/"+w.name, "container", c.spec.Name, "error", err)
		return nil
	}
	if c.lasting() {
		return nil
	}
	select {
	case <-c.process.done:
		w.reap()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// simulate runs a container without a program. A container of a Job succeeds after a while, a plain init container at
// once, and other containers run forever.
func (w *worker) simulate(ctx context.Context, pod *corev1.Pod, c *container) error {
	service := w.kubelet.service
	c.started = metav1.Now()
	if !c.lasting() {
		c.state, c.ready = terminated(c, 0, "Completed", "", c.started), true
		return nil
	}
	if probe := c.spec.ReadinessProbe; probe != nil && probe.InitialDelaySeconds > 0 {
		c.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: c.started}}
		if err := w.report(ctx, pod); err != nil {
			return err
		}
		if err := service.Clock.Sleep(ctx, time.Duration(probe.InitialDelaySeconds)*time.Second); err != nil {
			return err
		}
	}
	c.state, c.ready = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: c.started}}, true
	if owner := metav1.GetControllerOf(pod); owner == nil || owner.Kind != "Job" || c.sidecar {
		return nil
	}
	if err := w.report(ctx, pod); err != nil {
		return err
	}
	if err := service.Clock.Sleep(ctx, service.Latencies.JobRun); err != nil {
		return err
	}
	c.state, c.ready = terminated(c, 0, "Completed", "", c.started), false
	return nil
}

// start runs a container as a process on the host.
func (w *worker) start(ctx context.Context, pod *corev1.Pod, c *container, program string) error {
	if w.volumes == nil {
		return fmt.Errorf("pod %s/%s has no volumes yet", w.namespace, w.name)
	}
	order, err := w.volumes.order(ctx, pod, c, program)
	if err != nil {
		return err
	}
	process, err := startProcess(order)
	if err != nil {
		return err
	}
	c.process, c.started, c.ready = process, metav1.Now(), true
	c.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: c.started}}
	w.mu.Lock()
	w.processes[process] = true
	w.mu.Unlock()
	watched := w.kubelet.spawn(func(context.Context) {
		<-process.done
		w.mu.Lock()
		delete(w.processes, process)
		w.mu.Unlock()
		w.kick(nil)
	})
	if !watched {
		process.kill()
		<-process.done
	}
	return nil
}

// reap notes the ends of processes.
func (w *worker) reap() {
	for _, c := range w.containers {
		if c.process == nil || c.state.Running == nil || !c.process.hasEnded() {
			continue
		}
		code, reason := c.process.code, "Completed"
		if code != 0 {
			reason = "Error"
		}
		c.state, c.ready = terminated(c, code, reason, c.process.message(c.spec), c.started), code == 0 && !c.lasting()
	}
}

// observe reports the results of processes, and restarts processes that must run forever.
func (w *worker) observe(ctx context.Context, pod *corev1.Pod) error {
	w.reap()
	if err := w.report(ctx, pod); err != nil {
		return err
	}
	ctx, cancel := w.wait(ctx)
	defer cancel()
	for _, c := range w.containers {
		if c.state.Terminated == nil || !c.lasting() || !restarts(pod, c) {
			continue
		}
		c.last, c.restarts = c.state, c.restarts+1
		c.state = waiting("CrashLoopBackOff", "back-off restarting failed container "+c.spec.Name)
		if err := w.report(ctx, pod); err != nil {
			return stopped(ctx, err)
		}
		if err := w.kubelet.service.Clock.Sleep(ctx, backOff(c.restarts)); err != nil {
			return stopped(ctx, err)
		}
		if err := w.run(ctx, pod, c); err != nil {
			return stopped(ctx, err)
		}
		if err := w.report(ctx, pod); err != nil {
			return stopped(ctx, err)
		}
	}
	return nil
}

func restarts(pod *corev1.Pod, c *container) bool {
	switch pod.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
		return c.sidecar
	case corev1.RestartPolicyOnFailure:
		return c.sidecar || c.state.Terminated.ExitCode != 0
	default:
		return true
	}
}

// backOff before the n-th restart: ten seconds, doubled each time, at most five minutes.
func backOff(n int32) time.Duration {
	return min(10*time.Second<<min(n-1, 5), 5*time.Minute)
}
