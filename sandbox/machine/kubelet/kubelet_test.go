package kubelet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

func TestStartRegistersAReadyNode(t *testing.T) {
	w := newKubeletEnv(t, nil)
	w.boot("n1", w.disk())
	node := w.node("n1")
	if node.Spec.ProviderID != "azure:///n1" || node.Labels[corev1.LabelHostname] != "n1" || node.Status.NodeInfo.BootID != "boot-n1" {
		t.Errorf("node is %+v", node)
	}
	if readyStatus(node) != corev1.ConditionTrue || len(node.Status.Images) != len(disk.BaseImages) {
		t.Errorf("ready is %s with %d images", readyStatus(node), len(node.Status.Images))
	}
	lease, err := w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil || *lease.Spec.HolderIdentity != "n1" {
		t.Errorf("lease is %v (%v)", lease, err)
	}
}

// TestShutdownDuringCordon: the kubelet reports NotReady. The API server forbids changes of taints by kubelets.
// After a cordon, an update of the whole old Node would change taints.
func TestShutdownDuringCordon(t *testing.T) {
	w := newKubeletEnv(t, nil)
	k := w.boot("n1", w.disk())
	w.client.PrependReactor("update", "nodes", func(kubetesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), "n1", errors.New("it is not allowed to modify taints"))
	})
	k.Shutdown(t.Context())
	if got := readyStatus(w.node("n1")); got != corev1.ConditionFalse {
		t.Errorf("after its way down the node says %s", got)
	}
}

func TestPodRunsAndImageIsCached(t *testing.T) {
	w := newKubeletEnv(t, nil)
	root := w.disk()
	w.boot("n1", root)
	w.create(simulated("web", "n1", "registry.example.com/web:1"))
	pod := w.eventuallyPod("web", "becomes ready", podReady)
	if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" || pod.Status.ContainerStatuses[0].State.Running == nil {
		t.Errorf("status is %+v", pod.Status)
	}
	if !disk.HasImage(root, "registry.example.com/web:1") || !disk.HasPod(root, string(pod.UID)) {
		t.Error("the disk knows neither image nor pod")
	}
	w.remove("web")
	w.eventually("the pod is gone", func() bool { return w.pod("web").Name == "" && !disk.HasPod(root, string(pod.UID)) })
	if !disk.HasImage(root, "registry.example.com/web:1") {
		t.Error("the image left the cache with the pod")
	}
}

func TestBrokenImageBacksOff(t *testing.T) {
	w := newKubeletEnv(t, nil)
	w.boot("n1", w.disk())
	w.create(simulated("bad", "n1", "broken.invalid/x:1"))
	w.eventuallyPod("bad", "backs off", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodPending && len(pod.Status.ContainerStatuses) == 1 &&
			pod.Status.ContainerStatuses[0].State.Waiting != nil && pod.Status.ContainerStatuses[0].State.Waiting.Reason == "ImagePullBackOff"
	})
	w.remove("bad")
	w.eventually("the pod is gone", func() bool { return w.pod("bad").Name == "" })
}

func TestJobEnds(t *testing.T) {
	w := newKubeletEnv(t, nil)
	w.boot("n1", "")
	controller := true
	pod := simulated("job", "n1", "job:1")
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "job", UID: "j", Controller: &controller}}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "init:1"}}
	w.create(pod)
	w.eventuallyPod("job", "succeeds", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
}

func TestRebootRestartsPods(t *testing.T) {
	w := newKubeletEnv(t, nil)
	root := w.disk()
	k := w.boot("n1", root)
	w.create(simulated("web", "n1", "web:1"))
	w.eventuallyPod("web", "becomes ready", podReady)
	k.Shutdown(t.Context())
	if status := readyStatus(w.node("n1")); status != corev1.ConditionFalse {
		t.Errorf("after an orderly shutdown Ready is %s", status)
	}
	w.boot("n1", root)
	w.eventuallyPod("web", "is ready again", func(pod *corev1.Pod) bool {
		return podReady(pod) && pod.Status.ContainerStatuses[0].RestartCount == 1
	})
}

func TestDeletedPodsAreSwept(t *testing.T) {
	w := newKubeletEnv(t, nil)
	root := w.disk()
	k := w.boot("n1", root)
	pod := w.create(simulated("web", "n1", "web:1"))
	w.eventuallyPod("web", "becomes ready", podReady)
	k.Kill()
	if err := w.client.CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the watch has seen it", func() bool {
		return len(w.service.informer.GetIndexer().ListKeys()) == 0
	})
	w.boot("n1", root)
	if disk.HasPod(root, string(pod.UID)) || len(disk.Pods(root)) > 0 {
		t.Errorf("left on the disk: %v", disk.Pods(root))
	}
}

func TestPausedKubelet(t *testing.T) {
	w := newKubeletEnv(t, script(t, `while ! test -e "$1/root/go"; do sleep 0.01; done; touch "$1/root/over"; exit 4`))
	w.rootCA()
	root := w.disk()
	k := w.boot("n1", root)
	w.create(programPod("task", "/host"))
	w.eventuallyPod("task", "runs", podReady)
	k.Pause()
	w.eventually("the node is lost", func() bool { return readyStatus(w.node("n1")) == corev1.ConditionUnknown })
	if err := os.WriteFile(filepath.Join(root, "root/go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.eventually("the program ended", func() bool {
		_, err := os.Stat(filepath.Join(root, "root/over"))
		return err == nil
	})
	if phase := w.pod("task").Status.Phase; phase != corev1.PodRunning {
		t.Errorf("a paused kubelet reported %s", phase)
	}
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	pod := w.eventuallyPod("task", "is reported", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	if end := pod.Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 4 {
		t.Errorf("reported as %+v", pod.Status.ContainerStatuses[0].State)
	}
	w.eventually("the node is Ready", func() bool { return readyStatus(w.node("n1")) == corev1.ConditionTrue })
}

// TestRegistrationEndsSilence: a node that registers just before its time limit stays Ready.
func TestRegistrationEndsSilence(t *testing.T) {
	w := newKubeletEnv(t, nil)
	root := w.disk()
	w.boot("n1", root).Kill()
	again := w.service.Prepare(t.Context(), Node{Name: "n1", ProviderID: "azure:///n1", Root: root, Info: corev1.NodeSystemInfo{BootID: "again"}})
	t.Cleanup(again.Kill)
	if err := again.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.service.markLost("n1")
	if status := readyStatus(w.node("n1")); status != corev1.ConditionTrue {
		t.Errorf("a node that has just registered is Ready %s", status)
	}
}

func TestLastKubeletHasThePods(t *testing.T) {
	w := newKubeletEnv(t, nil)
	first, second := w.disk(), w.disk()
	w.boot("n1", first)
	clone := w.boot("n1", second)
	pod := w.create(simulated("web", "n1", "web:1"))
	w.eventually("the clone runs the pod", func() bool { return disk.HasPod(second, string(pod.UID)) })
	clone.Kill()
	w.eventually("the donor has it back", func() bool { return disk.HasPod(first, string(pod.UID)) })
}

func TestManyLightPods(t *testing.T) {
	w := newKubeletEnv(t, nil)
	const nodes = 60
	for i := range nodes {
		w.boot(fmt.Sprintf("n%d", i), "")
		w.create(simulated(fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i), "web:1"))
	}
	for i := range nodes {
		w.eventuallyPod(fmt.Sprintf("p%d", i), "becomes ready", podReady)
	}
}

func TestTranslate(t *testing.T) {
	m := mounts{"/host": "/tree", "/host/data": "/other", "/var/run/kamino": "/vol"}
	for text, want := range map[string]string{
		"/host": "/tree", "/host/etc": "/tree/etc", "/host/data/x": "/other/x", "/hosts": "/hosts",
		"--root=/host": "--root=/tree", "--root": "--root", "-f=/var/run/kamino/token": "-f=/vol/token", "a=/host": "a=/host", "": "",
	} {
		if got := m.translate(text); got != want {
			t.Errorf("translate(%q) = %q, want %q", text, got, want)
		}
	}
}
