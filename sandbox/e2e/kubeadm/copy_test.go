package kubeadm

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestCopy captures a node, and then a node from its image, with the method that Kamino chooses. Both donors serve all the time with
// their pods. Only Kamino deletes the Nodes of the workshops.
func TestCopy(t *testing.T) {
	if sandboxtest.CurrentCloud() != pool.AWS {
		t.Skip("this test runs on AWS")
	}
	t.Parallel()
	e := newEnv(t, "name=copied,nodes=2")
	identities := map[string]map[string]string{}
	donor := e.Machines[0]
	for round := range 2 {
		version, before, requests := fmt.Sprintf("%s%02d", time.Now().UTC().Format("2006.01.02"), round+2), e.State(), e.countRequests()
		pod := e.runPod(donor.Node)
		identities[donor.Node] = e.identityOf(donor)
		e.Start("capture", donor.Node, "--version", version, "--trial", string(v1alpha1.TrialOff), "-f", sandboxtest.SettingsFile(t, "")).
			ExpectExit(0, "node "+donor.Node+" is no longer reserved, and stayed in service", "out of service for 0s")
		e.AssertCopied(before, donor.Node)
		if now := e.countRequests(); now != requests+1 {
			t.Errorf("the workshop asked for %d certificates", now-requests)
		}
		if now := e.podOf(donor.Node); now.UID != pod.UID || now.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("the pod of the donor is %+v", now.Status)
		}
		if now := e.Machine(donor.Node); now.BootID != donor.BootID || now.MachineID != donor.MachineID {
			t.Errorf("donor %s was rebooted or rebuilt", donor.Node)
		}
		donor = e.Grow()
		e.assertCopy(donor, version, identities)
	}
}

// runPod runs a pod on a node.
func (e env) runPod(node string) *corev1.Pod {
	e.Helper()
	_, err := e.Kube().CoreV1().Pods("default").Create(e.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "serves-" + node},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "registry.example/app:1"}}},
	}, metav1.CreateOptions{})
	e.Must(err)
	e.Eventually("the pod runs", func() (bool, string) {
		phase := e.podOf(node).Status.Phase
		return phase == corev1.PodRunning, string(phase)
	})
	return e.podOf(node)
}

func (e env) podOf(node string) *corev1.Pod {
	e.Helper()
	pod, err := e.Kube().CoreV1().Pods("default").Get(e.Context(), "serves-"+node, metav1.GetOptions{})
	e.Must(err)
	return pod
}
