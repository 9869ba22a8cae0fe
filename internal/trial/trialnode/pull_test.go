package trialnode

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/trial"
)

// TestPulled: a pull counts against the node only if another node pulls the image. A container that cannot be created
// proves the pull.
func TestPulled(t *testing.T) {
	a := (&Observer{}).attempt(trial.Subject{Prototype: &v1alpha1.Prototype{}})
	a.Prototype.Spec.Settings.Trial.Pull = "registry.example.com/team/app:1"
	late := metav1.NewTime(noon.Add(-time.Hour))
	state := func(status corev1.PodStatus) *corev1.PodStatus { return &status }
	notFound := ended(128, "exec: no such file")
	notFound.Phase = corev1.PodFailed
	refused := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods"}
	for name, test := range map[string]struct {
		here, other *corev1.PodStatus
		alone       bool
		want        trial.Result
		says        string
	}{
		"no pod yet":          {nil, nil, false, trial.Pending, ""},
		"not yet":             {state(waitingFor("ContainerCreating")), nil, false, trial.Pending, ""},
		"pulled, no program":  {state(notFound), nil, false, trial.Passed, ""},
		"pulled, alone":       {state(notFound), nil, true, trial.Passed, ""},
		"pulled, as root":     {state(waitingFor("CreateContainerConfigError")), nil, false, trial.Passed, ""},
		"pulled, not created": {state(waitingFor("RunContainerError")), nil, false, trial.Passed, ""},
		"not pulled":          {state(waitingFor("ImagePullBackOff")), state(notFound), false, trial.Failed, "the image of settings.trial.pull cannot be pulled: ImagePullBackOff: as it is; node pull-control-node pulls the image"},
		"not pulled, root":    {state(waitingFor("ErrImagePull")), state(waitingFor("CreateContainerConfigError")), false, trial.Failed, "node pull-control-node pulls"},
		"elsewhere yet":       {state(waitingFor("ErrImagePull")), nil, false, trial.Pending, ""},
		"nowhere":             {state(waitingFor("ErrImagePull")), state(waitingFor("ErrImagePull")), false, trial.Inconclusive, "cannot pull the image either"},
		"not pulled, alone":   {state(waitingFor("ErrImagePull")), nil, true, trial.Inconclusive, "no other node"},
		"refused":             {state(refused), state(notFound), false, trial.Inconclusive, "did not start: the kubelet gave up the pod: OutOfpods"},
		"no name of an image": {state(waitingFor("InvalidImageName")), state(waitingFor("InvalidImageName")), false, trial.Inconclusive, "did not start: InvalidImageName"},
	} {
		pods := map[string]*corev1.Pod{}
		for part, status := range map[string]*corev1.PodStatus{pulling: test.here, pullingControl: test.other} {
			if status != nil {
				pods[part] = pullingPod(a, part, part+"-node")
				pods[part].CreationTimestamp, pods[part].Status = late, *status
			}
		}
		got := pulled(pods, noon, test.alone)
		if got.Result != test.want || !strings.Contains(got.Says, test.says) || (got.Says == "") != (test.says == "") {
			t.Errorf("%s: %+v, want %s %q", name, got, test.want, test.says)
		}
		if got := pulled(pods, late.Time, test.alone); got.Result == trial.Failed {
			t.Errorf("%s: failed at once: %+v", name, got)
		}
	}
}
