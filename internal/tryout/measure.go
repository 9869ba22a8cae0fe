package tryout

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/probe"
	"github.com/kamino-dev/kamino/internal/trial"
)

const (
	// stubborn is how long a container may not start before that is taken for more than a moment's trouble.
	stubborn = 2 * time.Minute
	// mostRuns of a container that fails.
	mostRuns = 4
)

// measure by pods, and complete the facts by what they say.
func (a *attempt) measure(ctx context.Context, f *trial.Facts, node *corev1.Node, k *kept) error {
	f.Network, f.Images = trial.Measure{Result: trial.Pending}, trial.Measure{Result: trial.Pending}
	pods, err := a.pods(ctx, k)
	if err != nil {
		return err
	}
	if err := a.advance(ctx, f.Now, node, k, pods); err != nil {
		return err
	}
	there, here, other := read(pods[onDisk], f.Now), read(pods[measuring], f.Now), read(pods[control], f.Now)
	alone := pods[peer] == nil && pods[control] == nil && len(a.neighbours(node)) == 0
	f.Network, f.Images = network(here, other, node.Name, alone, a.on(pods[control]), a.asked()), images(there, here, other, alone)
	f.Network = held(f.Network, here, other, pods)
	if here.report != nil {
		f.Digest = here.report.Digest
	}
	f.Job, err = a.job(ctx, node, k)
	return err
}

// held is what is held against the node of what was measured: not what the pod that answers may be the cause of, by having left.
func held(m trial.Measure, here, control sight, pods map[string]*corev1.Pod) trial.Measure {
	if m.Result != trial.Failed || stays(pods) || failsWithoutPeer(here, control) {
		return m
	}
	return trial.Measure{Result: trial.Inconclusive, Says: m.Says + "; the pod that answered has left meanwhile"}
}

// stays tells whether the pod that the trial node was measured with is still there, and answers.
func stays(pods map[string]*corev1.Pod) bool {
	with, by := pods[peer], pods[measuring]
	return answers(with) && by != nil && flagOf(by, peerFlag) == with.Status.PodIP
}

// failsWithoutPeer tells of what works on the other node and not here, and takes no pod that answers.
func failsWithoutPeer(here, control sight) bool {
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

// advance makes the pods that are due. First is the one that shows whether an image is on the disk, which the pull of another
// would bring there. Each attempt has another node answer, if there is one.
func (a *attempt) advance(ctx context.Context, now time.Time, node *corev1.Node, k *kept, pods map[string]*corev1.Pod) error {
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
	if serving != nil && over(serving) && absent(measuring) {
		return a.removePod(ctx, serving) // it waited in vain
	}
	if !read(pods[onDisk], now).over() || len(neighbours) > 0 && !answers(serving) {
		return nil
	}
	if absent(measuring) {
		if err := a.make(ctx, k, measuring, a.measuringPod(measuring, node.Name, serving)); err != nil {
			return err
		}
	}
	if absent(control) && serving != nil {
		return a.make(ctx, k, control, a.measuringPod(control, controlling(neighbours, serving.Spec.NodeName), serving))
	}
	return nil
}

// answers tells whether the pod is there to be measured from.
func answers(pod *corev1.Pod) bool {
	return pod != nil && pod.Status.PodIP != "" && pod.Status.Phase == corev1.PodRunning
}

// controlling is the node to measure from, best another than the one that answers.
func controlling(neighbours []string, answering string) string {
	for _, n := range neighbours {
		if n != answering {
			return n
		}
	}
	return answering
}

func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// sight of a pod that measures.
type sight struct {
	// report, once it ended well and said something; trouble is why it will not.
	report  *probe.Report
	trouble string
	// started: its image was there. missing: it is not, and must not be pulled. unpulled is why it cannot be pulled.
	started, missing bool
	unpulled         string
}

// over tells that nothing more will be seen.
func (s sight) over() bool { return s.report != nil || s.trouble != "" || s.missing }

// read what a pod has come to.
func read(pod *corev1.Pod, now time.Time) sight {
	var s sight
	if pod == nil {
		return s
	}
	late := now.Sub(pod.CreationTimestamp.Time) >= stubborn
	if len(pod.Status.ContainerStatuses) > 0 {
		s.container(&pod.Status.ContainerStatuses[0], late)
	}
	if pod.Status.Phase == corev1.PodFailed && !s.over() {
		s.trouble = "the kubelet gave it up: " + brief(pod.Status.Reason+" "+pod.Status.Message)
	}
	return s
}

func (s *sight) container(c *corev1.ContainerStatus, late bool) {
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
	if last != nil && c.RestartCount >= mostRuns-1 && c.State.Running == nil {
		s.trouble = fmt.Sprintf("it ended %d times, the last time with exit code %d: %s", c.RestartCount+1, last.ExitCode, brief(last.Message))
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

// subjects as sentences have them.
var subjects = map[probe.Subject]string{
	probe.Pod: "a pod of another node is not reached", probe.Back: "a pod of another node does not reach it",
	probe.Service: "the API server's Service is not reached", probe.Inside: "the name of a Service is not found",
	probe.Outside: "a name outside the cluster is not found",
}

// asked are the subjects that a pod which measures has to speak of.
func (a *attempt) asked() []probe.Subject {
	asked := []probe.Subject{probe.Pod, probe.Back, probe.Service, probe.Inside}
	if a.outside() != "" {
		asked = append(asked, probe.Outside)
	}
	return asked
}

// network is what the node's pods reach. Only what works on another node, by the same means and at the same time, is held
// against this one.
func network(here, control sight, node string, alone bool, from string, asked []probe.Subject) trial.Measure {
	switch {
	case alone:
		return trial.Measure{Result: trial.Skipped, Says: "there is no other node to measure with"}
	case here.trouble != "":
		return trial.Measure{Result: trial.Inconclusive, Says: "the pod that measures did not: " + here.trouble}
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
			doubt = says + ", and the pod that controls that did not measure: " + control.trouble
		case control.report == nil:
			return trial.Measure{Result: trial.Pending}
		case works(control.report, f.Subject):
			return trial.Measure{Result: trial.Failed, Says: fmt.Sprintf("%s, and works from node %s", says, from)}
		default:
			doubt = fmt.Sprintf("%s, and neither from node %s", says, from)
		}
	}
	if doubt != "" {
		return trial.Measure{Result: trial.Inconclusive, Says: doubt}
	}
	if slices.ContainsFunc(asked, func(s probe.Subject) bool { return !works(here.report, s) }) {
		return trial.Measure{Result: trial.Inconclusive, Says: "the pod that measures did not say all that it was asked"}
	}
	return trial.Measure{Result: trial.Passed, Says: fmt.Sprintf("pods on node %s reach a pod of another node, a Service and names, and are reached", node)}
}

func works(r *probe.Report, subject probe.Subject) bool {
	for _, f := range r.Findings {
		if f.Subject == subject {
			return f.Says == ""
		}
	}
	return false
}

// images is whether containers start. An image that is not on the disk shows nothing of the disk.
func images(there, here, control sight, alone bool) trial.Measure {
	var trouble string
	switch {
	case here.unpulled != "":
		trouble = "Kamino's image cannot be pulled: " + here.unpulled
	case there.trouble != "":
		trouble = "an image that is on the disk does not start: " + there.trouble
	case !there.over() || !here.started:
		if here.trouble != "" {
			return trial.Measure{Result: trial.Inconclusive, Says: "the pod that measures did not start: " + here.trouble}
		}
		return trial.Measure{Result: trial.Pending}
	case there.missing:
		return trial.Measure{Result: trial.Passed, Says: "an image was pulled; Kamino's own is not on the disk, so that nothing was started without a pull"}
	default:
		return trial.Measure{Result: trial.Passed, Says: "an image that is on the disk started without a pull, and one was pulled"}
	}
	switch {
	case alone:
		return trial.Measure{Result: trial.Inconclusive, Says: trouble + "; there is no other node to see whether it is this one's fault"}
	case control.started:
		return trial.Measure{Result: trial.Failed, Says: trouble + "; on another node it works"}
	case control.trouble != "":
		return trial.Measure{Result: trial.Inconclusive, Says: trouble + "; on another node it does not work either"}
	default:
		return trial.Measure{Result: trial.Pending}
	}
}
