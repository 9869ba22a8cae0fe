package trialnode

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/internal/trial/probe"
)

const (
	// startTimeout is the time after which a container that does not start has a lasting problem.
	startTimeout = 2 * time.Minute
	// maxRuns limits the runs of a failing container.
	maxRuns = 4
)

// measure runs the pods of the trial, and adds their results to the facts.
func (a *attempt) measure(ctx context.Context, f *trial.Facts, node *corev1.Node, k *trialRecord) error {
	f.Network, f.Images = trial.Measure{Result: trial.Pending}, trial.Measure{Result: trial.Pending}
	pods, err := a.pods(ctx, k)
	if err != nil {
		return err
	}
	if err := a.advance(ctx, f.Now, node, k, pods); err != nil {
		return err
	}
	there, here, other := podStateOf(pods[onDisk], f.Now), podStateOf(pods[measuring], f.Now), podStateOf(pods[control], f.Now)
	alone := pods[peer] == nil && pods[control] == nil && len(a.neighbours(node)) == 0
	f.Network, f.Images = network(here, other, node.Name, alone, a.on(pods[control])), images(there, here, other, alone)
	f.Network = a.readLogs(ctx, nodeFailures(f.Network, here, other, pods), f.Now, node, k, pods)
	f.Performance = performance(a, here, other, node.Name, pods)
	if here.report != nil {
		f.Digest = here.report.Digest
	}
	f.Job, err = a.job(ctx, node, k)
	return err
}

// nodeFailures returns the failures for which the node is responsible. If the answering pod has left, that pod may be the cause.
func nodeFailures(m trial.Measure, here, control podState, pods map[string]*corev1.Pod) trial.Measure {
	if m.Result != trial.Failed || stays(pods) || failsWithoutPeer(here, control) {
		return m
	}
	return trial.Measure{Result: trial.Inconclusive, Says: m.Says + "; the answering pod has left meanwhile"}
}

// stays reports whether the measured pod still exists and answers.
func stays(pods map[string]*corev1.Pod) bool {
	with, by := pods[peer], pods[measuring]
	return answers(with) && by != nil && flagOf(by, peerFlag) == with.Status.PodIP
}

// failsWithoutPeer reports a failure on this node, without the answering pod, of a connection that works on the other node.
func failsWithoutPeer(here, control podState) bool {
	return slices.ContainsFunc(here.report.Findings, func(f probe.Finding) bool {
		return f.Says != "" && f.Subject != probe.Pod && f.Subject != probe.Back && control.report != nil && works(control.report, f.Subject)
	})
}

func (a *attempt) on(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	return pod.Spec.NodeName
}

// advance creates the pods that are due. The first pod shows whether an image is on the disk: the pull of another pod would
// add the image. Each attempt uses another answering node, if possible.
func (a *attempt) advance(ctx context.Context, now time.Time, node *corev1.Node, k *trialRecord, pods map[string]*corev1.Pod) error {
	neighbours := a.neighbours(node)
	absent := func(part string) bool {
		_, found := pods[part]
		return !found
	}
	if absent(onDisk) {
		if err := a.make(ctx, k, onDisk, a.pod(onDisk, node.Name, probe.Options{}, corev1.PullNever)); err != nil {
			return err
		}
	}
	if absent(peer) && len(neighbours) > 0 {
		if err := a.make(ctx, k, peer, a.peerPod(neighbours[int(max(a.Attempt, 1)-1)%len(neighbours)])); err != nil {
			return err
		}
	}
	serving := pods[peer]
	if serving != nil && isFinished(serving) && absent(measuring) {
		return a.removePod(ctx, serving) // the pod waited in vain
	}
	if !podStateOf(pods[onDisk], now).isFinal() || len(neighbours) > 0 && !answers(serving) {
		return nil
	}
	if absent(measuring) || absent(control) && serving != nil {
		return makeMeasuring(ctx, a, k, node, pods, neighbours)
	}
	return nil
}

// makeMeasuring creates the measuring pods. The control node is a node of the pool, if possible: other pools may have other
// machines.
func makeMeasuring(ctx context.Context, a *attempt, k *trialRecord, node *corev1.Node, pods map[string]*corev1.Pod, neighbours []string) error {
	serving, candidates := pods[peer], inPool(a, node, neighbours)
	compares := len(candidates) > 0 && serving != nil
	if !compares {
		candidates = neighbours
	}
	if _, found := pods[measuring]; !found {
		if err := a.make(ctx, k, measuring, a.measuringPod(measuring, node.Name, serving, compares)); err != nil {
			return err
		}
	}
	if _, found := pods[control]; !found && serving != nil {
		return a.make(ctx, k, control, a.measuringPod(control, controlling(candidates, serving.Spec.NodeName), serving, compares))
	}
	return nil
}

// answers reports whether the pod is ready for measurements.
func answers(pod *corev1.Pod) bool {
	return pod != nil && pod.Status.PodIP != "" && pod.Status.Phase == corev1.PodRunning
}

// controlling is the node for the control measurement, preferably not the answering node.
func controlling(neighbours []string, answering string) string {
	for _, n := range neighbours {
		if n != answering {
			return n
		}
	}
	return answering
}

func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// podState is the state of a measuring pod.
type podState struct {
	// report is the pod's report after a success; trouble is the reason of a failure.
	report  *probe.Report
	trouble string
	// started: the image was available. missing: the image is not on the disk and must not be pulled. unpulled is the
	// reason of a failed pull.
	started, missing bool
	unpulled         string
}

// isFinal reports whether the state is final.
func (s podState) isFinal() bool { return s.report != nil || s.trouble != "" || s.missing }

// podStateOf returns the state of a pod.
func podStateOf(pod *corev1.Pod, now time.Time) podState {
	var s podState
	if pod == nil {
		return s
	}
	late := now.Sub(pod.CreationTimestamp.Time) >= startTimeout
	if len(pod.Status.ContainerStatuses) > 0 {
		s.container(&pod.Status.ContainerStatuses[0], late)
	}
	if pod.Status.Phase == corev1.PodFailed && !s.isFinal() {
		s.trouble = "the kubelet gave up the pod: " + brief(pod.Status.Reason+" "+pod.Status.Message)
	}
	return s
}

func (s *podState) container(c *corev1.ContainerStatus, late bool) {
	s.started = c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
	last := c.State.Terminated
	if last == nil {
		last = c.LastTerminationState.Terminated
	}
	if end := c.State.Terminated; end != nil && end.ExitCode == 0 {
		var err error
		if s.report, err = probe.Read(end.Message); err != nil {
			s.report, s.trouble = nil, brief(err.Error())
		}
		return
	}
	if last != nil && c.RestartCount >= maxRuns-1 && c.State.Running == nil {
		s.trouble = fmt.Sprintf("the container ended %d times, the last time with exit code %d: %s", c.RestartCount+1, last.ExitCode, brief(last.Message))
		return
	}
	if c.State.Waiting == nil {
		return
	}
	says := brief(c.State.Waiting.Reason + ": " + c.State.Waiting.Message)
	switch c.State.Waiting.Reason {
	case "ErrImageNeverPull":
		s.missing = true
	case "ErrImagePull", "ImagePullBackOff":
		if late {
			s.unpulled, s.trouble = says, says
		}
	case "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		if late {
			s.trouble = says
		}
	}
}

// subjects are the failures in the words of a message.
var subjects = map[probe.Connection]string{
	probe.Pod: "no connection to a pod of another node", probe.Back: "no connection from a pod of another node",
	probe.Service: "no connection to the API server's Service", probe.Inside: "the name of a Service does not resolve",
}

// networkSubjects are the subjects that a report must contain.
var networkSubjects = []probe.Connection{probe.Pod, probe.Back, probe.Service, probe.Inside}

// network judges the connections of the node's pods. A failure counts only if another node succeeds with the same
// connection at the same time.
func network(here, control podState, node string, alone bool, from string) trial.Measure {
	switch {
	case alone:
		return trial.Measure{Result: trial.Skipped, Says: "there is no other node to measure with"}
	case here.trouble != "":
		return trial.Measure{Result: trial.Inconclusive, Says: "the measuring pod failed: " + here.trouble}
	case here.report == nil:
		return trial.Measure{Result: trial.Pending}
	}
	doubt := ""
	for _, f := range here.report.Findings {
		if f.Says == "" {
			continue
		}
		says := fmt.Sprintf("%s from node %s (%s)", subjects[f.Subject], node, brief(f.Says))
		switch {
		case control.trouble != "":
			doubt = says + ", and the control pod failed: " + control.trouble
		case control.report == nil:
			return trial.Measure{Result: trial.Pending}
		case works(control.report, f.Subject):
			return trial.Measure{Result: trial.Failed, Says: fmt.Sprintf("%s, but works from node %s", says, from)}
		default:
			doubt = fmt.Sprintf("%s, and from node %s also not", says, from)
		}
	}
	if doubt != "" {
		return trial.Measure{Result: trial.Inconclusive, Says: doubt}
	}
	if slices.ContainsFunc(networkSubjects, func(s probe.Connection) bool { return !works(here.report, s) }) {
		return trial.Measure{Result: trial.Inconclusive, Says: "the report of the measuring pod is incomplete"}
	}
	return trial.Measure{Result: trial.Passed,
		Says: fmt.Sprintf("pods on node %s connect to a pod of another node in both directions, to a Service, and resolve names", node)}
}

func works(r *probe.Report, subject probe.Connection) bool {
	for _, f := range r.Findings {
		if f.Subject == subject {
			return f.Says == ""
		}
	}
	return false
}

// performance compares the node with another node of the pool. Without such a node there is no result.
func performance(a *attempt, here, other podState, node string, pods map[string]*corev1.Pod) trial.Measure {
	measures := func(part string) bool { return pods[part] != nil && flagOf(pods[part], scratchFlag) != "" }
	switch {
	case pods[measuring] == nil:
		return trial.Measure{Result: trial.Pending}
	case !measures(measuring):
		return trial.Measure{}
	case here.trouble != "":
		return trial.Measure{Result: trial.Inconclusive, Says: "the measuring pod failed: " + here.trouble}
	case here.report == nil, pods[control] == nil:
		return trial.Measure{Result: trial.Pending}
	case !measures(control), other.trouble != "":
		return trial.Measure{}
	case other.report == nil:
		return trial.Measure{Result: trial.Pending}
	}
	h, c := here.report.Machine, other.report.Machine
	switch {
	case h == nil:
		return trial.Measure{Result: trial.Inconclusive, Says: "the report of the measuring pod is incomplete"}
	case c == nil, c.Says != "":
		return trial.Measure{}
	case h.Says != "":
		return trial.Measure{Result: trial.Failed,
			Says: fmt.Sprintf("node %s cannot write 16 MiB to the disk (%s), but node %s can", node, brief(h.Says), a.on(pods[control]))}
	}
	return trial.JudgePerformance(machineOf(h), machineOf(c), node, a.on(pods[control]), a.Attempt, a.Prototype.Spec.Settings.Trial.IgnoreDifferences)
}

func machineOf(m *probe.Machine) trial.Machine {
	return trial.Machine{Sync: time.Duration(m.SyncMillis) * time.Millisecond, Hashes: m.Hashes, OpenFiles: m.OpenFiles, Kernel: m.Kernel}
}

// images judges whether containers start. An image that is not on the disk shows nothing about the disk.
func images(there, here, control podState, alone bool) trial.Measure {
	var trouble string
	switch {
	case here.unpulled != "":
		trouble = "Kamino's image cannot be pulled: " + here.unpulled
	case there.trouble != "":
		trouble = "an image on the disk does not start: " + there.trouble
	case !there.isFinal() || !here.started:
		if here.trouble != "" {
			return trial.Measure{Result: trial.Inconclusive, Says: "the measuring pod did not start: " + here.trouble}
		}
		return trial.Measure{Result: trial.Pending}
	case there.missing:
		return trial.Measure{Result: trial.Passed, Says: "an image was pulled; no image was started without a pull, because Kamino's image is not on the disk"}
	default:
		return trial.Measure{Result: trial.Passed, Says: "an image on the disk started without a pull, and another image was pulled"}
	}
	switch {
	case alone:
		return trial.Measure{Result: trial.Inconclusive, Says: trouble + "; there is no other node for a comparison"}
	case control.started:
		return trial.Measure{Result: trial.Failed, Says: trouble + "; on another node the image works"}
	case control.trouble != "":
		return trial.Measure{Result: trial.Inconclusive, Says: trouble + "; on another node the image does not work either"}
	default:
		return trial.Measure{Result: trial.Pending}
	}
}
