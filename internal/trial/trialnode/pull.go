package trialnode

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/internal/trial/probe"
)

// absentProgram is in no image: a pod with this command pulls an image and runs nothing.
const absentProgram = "/kamino-trial-pulls-this-image-only"

// afterPull are the reasons of a container that waits although its image is on the node.
var afterPull = []string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff"}

// pullingPod pulls the user's image. The image needs no program, and gets no account, address or argument.
func pullingPod(a *attempt, part, node string) *corev1.Pod {
	pod := a.pod(part, node, probe.Options{}, corev1.PullAlways)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	c := &pod.Spec.Containers[0]
	c.Name, c.Image, c.Command, c.Args, c.Env = "pull", a.Prototype.Spec.Settings.Trial.Pull, []string{absentProgram}, nil, nil
	if part == pullingControl {
		return visiting(pod)
	}
	return pod
}

// hasPulled reports whether the image of the pod's container is on the node.
func hasPulled(pod *corev1.Pod, s podState) bool {
	if s.started || pod == nil {
		return s.started
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && slices.Contains(afterPull, c.State.Waiting.Reason)
	})
}

// pulled judges the pull of the user's image, which counts against the node only if another node pulls the image.
func pulled(pods map[string]*corev1.Pod, now time.Time, alone bool) trial.Measure {
	here, other := podStateOf(pods[pulling], now), podStateOf(pods[pullingControl], now)
	says := "the image of settings.trial.pull cannot be pulled: " + here.unpulled
	switch {
	case hasPulled(pods[pulling], here):
		return trial.Measure{Result: trial.Passed}
	case here.unpulled == "" && here.trouble != "":
		return trial.Measure{Result: trial.Inconclusive, Says: "the pod with the image of settings.trial.pull did not start: " + here.trouble}
	case here.unpulled == "":
		return trial.Measure{Result: trial.Pending}
	case alone:
		return trial.Measure{Result: trial.Inconclusive, Says: says + "; there is no other node for a comparison"}
	case hasPulled(pods[pullingControl], other):
		return trial.Measure{Result: trial.Failed, Says: says + "; node " + pods[pullingControl].Spec.NodeName + " pulls the image"}
	case other.trouble != "":
		return trial.Measure{Result: trial.Inconclusive, Says: says + "; another node cannot pull the image either"}
	}
	return trial.Measure{Result: trial.Pending}
}
