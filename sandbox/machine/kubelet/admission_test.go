package kubelet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/sandbox/machine/bootconfig"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// bootEdited starts a kubelet with the configuration of an edited disk; change may be nil.
func (w *kubeletEnv) bootEdited(edit func(root string) error, change func(*bootconfig.Config)) *Kubelet {
	w.Helper()
	root := w.disk()
	if err := disk.WriteFile(filepath.Join(root, "run/systemd/resolve/stub-resolv.conf"), []byte("nameserver 127.0.0.53\n"), 0o644); err != nil {
		w.Fatal(err)
	}
	if edit != nil {
		if err := edit(root); err != nil {
			w.Fatal(err)
		}
	}
	config, err := bootconfig.Read(root, bootconfig.Machine{Hostname: "node", IP: "10.240.0.4", Now: time.Now()})
	if err != nil {
		w.Fatal(err)
	}
	if change != nil {
		change(&config)
	}
	k := w.service.Prepare(w.Context(), Node{Name: "node", IP: "10.240.0.4", Root: root, Config: config})
	w.Cleanup(k.Kill)
	if err := k.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
	return k
}

// event waits for the message of an Event about a pod.
func (w *kubeletEnv) event(pod, reason string) (message string) {
	w.Helper()
	w.eventually("event "+reason+" of pod "+pod, func() bool {
		events, err := w.client.CoreV1().Events("default").List(w.Context(), metav1.ListOptions{})
		if err != nil {
			w.Fatal(err)
		}
		for _, event := range events.Items {
			if event.InvolvedObject.Name == pod && event.Reason == reason {
				message = event.Message
				return true
			}
		}
		return false
	})
	return message
}

func TestDiskPressureRejectsPods(t *testing.T) {
	w := newKubeletEnv(t, nil)
	w.bootEdited(func(root string) error { return os.Truncate(filepath.Join(root, "var/log/kern.log"), 28<<30) }, nil)
	w.create(simulated("pod", "node", "app:1"))
	critical, priority := simulated("critical", "node", "app:1"), int32(2000001000)
	critical.Spec.Priority = &priority
	w.create(critical)
	pod := w.eventuallyPod("pod", "failed", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	if pod.Status.Reason != "Evicted" || !strings.Contains(pod.Status.Message, "The node had condition: [DiskPressure].") {
		t.Errorf("the pod has %s: %s", pod.Status.Reason, pod.Status.Message)
	}
	w.eventuallyPod("critical", "is ready", podReady)
}

func TestPodsBeyondTheAllocatableAreRejected(t *testing.T) {
	w := newKubeletEnv(t, nil)
	w.bootEdited(nil, func(c *bootconfig.Config) { c.Allocatable[corev1.ResourcePods] = resource.MustParse("2") })
	w.create(simulated("first", "node", "app:1"))
	w.eventuallyPod("first", "is ready", podReady)
	big := simulated("big", "node", "app:1")
	big.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
	w.create(big)
	w.eventuallyPod("big", "has no CPU", func(pod *corev1.Pod) bool { return pod.Status.Reason == "OutOfcpu" })
	w.create(simulated("second", "node", "app:1"))
	w.eventuallyPod("second", "is ready", podReady)
	w.create(simulated("third", "node", "app:1"))
	pod := w.eventuallyPod("third", "failed", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	want := "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"
	if pod.Status.Reason != "OutOfpods" || pod.Status.Message != want {
		t.Errorf("the pod has %s: %s", pod.Status.Reason, pod.Status.Message)
	}
}

func TestPodsWithoutASandbox(t *testing.T) {
	w := newKubeletEnv(t, nil)
	w.bootEdited(func(root string) error { return os.Remove(filepath.Join(root, "opt/cni/bin/azure-vnet")) }, nil)
	w.create(simulated("pod", "node", "app:1"))
	host := simulated("host", "node", "app:1")
	host.Spec.HostNetwork = true
	w.create(host)
	if message := w.event("pod", "FailedCreatePodSandBox"); !strings.Contains(message, `failed to find plugin "azure-vnet" in path [/opt/cni/bin]`) {
		t.Error(message)
	}
	w.eventuallyPod("host", "is ready", podReady)
	status := w.pod("pod").Status
	if status.Phase != corev1.PodPending || status.ContainerStatuses[0].State.Waiting.Reason != "ContainerCreating" {
		t.Errorf("the pod has %+v", status)
	}
}

func TestPodsWithoutTheSnapshottersModule(t *testing.T) {
	w := newKubeletEnv(t, nil)
	w.bootEdited(nil, func(c *bootconfig.Config) { c.Rootfs = "no such device" })
	pod := simulated("pod", "node", "app:1")
	pod.Spec.HostNetwork = true
	w.create(pod)
	if message := w.event("pod", "FailedCreatePodSandBox"); !strings.HasSuffix(message, "failed to mount rootfs component: no such device") {
		t.Error(message)
	}
}

// TestStaticPods: a static pod runs, and leaves other pods only the rest of the node. A start with another manifest
// replaces the mirror pod.
func TestStaticPods(t *testing.T) {
	w := newKubeletEnv(t, nil)
	manifest := func(cpu string) func(string) error {
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: hog}\nspec: {containers: [{name: main, image: hog, resources: {requests: {cpu: " + cpu + "}}}]}\n"
		return func(root string) error {
			return disk.WriteFile(filepath.Join(root, "etc/kubernetes/manifests/hog.yaml"), []byte(text), 0o644)
		}
	}
	k := w.bootEdited(manifest("1900m"), nil)
	w.eventuallyPod("hog-node", "is ready", podReady)
	pod := simulated("pod", "node", "app:1")
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	w.create(pod)
	w.eventuallyPod("pod", "has no CPU", func(pod *corev1.Pod) bool { return pod.Status.Reason == "OutOfcpu" })
	owner := metav1.GetControllerOf(w.pod("hog-node"))
	if owner == nil || owner.Kind != "Node" || owner.Name != "node" {
		t.Errorf("the owner is %+v", owner)
	}
	k.Kill()
	k = w.bootEdited(manifest("1"), nil)
	w.eventuallyPod("hog-node", "is replaced", func(pod *corev1.Pod) bool {
		return podReady(pod) && pod.Spec.Containers[0].Resources.Requests.Cpu().String() == "1"
	})
	k.Kill()
	w.bootEdited(nil, nil)
	w.eventually("the mirror pod is gone", func() bool { return w.pod("hog-node").Name == "" })
}

func TestPullsWithoutAuthorities(t *testing.T) {
	w := newKubeletEnv(t, nil)
	w.bootEdited(func(root string) error { return os.Remove(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")) }, nil)
	w.create(simulated("pod", "node", "registry.example.com/app:1"))
	w.create(simulated("cached", "node", disk.BaseImages[0]))
	if message := w.event("pod", "Failed"); !strings.HasSuffix(message, "x509: certificate signed by unknown authority") {
		t.Error(message)
	}
	always := simulated("always", "node", disk.BaseImages[0])
	always.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
	w.create(always)
	// The client in memory keeps a single Event with a generated name.
	for _, name := range []string{"pod", "always"} {
		w.eventuallyPod(name, "waits", func(pod *corev1.Pod) bool {
			statuses := pod.Status.ContainerStatuses
			return len(statuses) > 0 && statuses[0].State.Waiting != nil && statuses[0].State.Waiting.Reason == "ImagePullBackOff"
		})
	}
	w.eventuallyPod("cached", "is ready", podReady)
}

// TestPodsResolver: a wrong address of the cluster's name server leaves pods without names, except with the host's.
func TestPodsResolver(t *testing.T) {
	w := newKubeletEnv(t, nil)
	for _, test := range []struct {
		config bootconfig.Config
		policy corev1.DNSPolicy
		dead   bool
	}{
		{bootconfig.Config{}, corev1.DNSClusterFirst, false},
		{bootconfig.Config{NoClusterDNS: true}, corev1.DNSClusterFirst, true},
		{bootconfig.Config{NoClusterDNS: true}, corev1.DNSDefault, false},
	} {
		w.eventually("the name server runs", func() bool {
			w.service.mu.Lock()
			defer w.service.mu.Unlock()
			return w.service.names != nil
		})
		v := &volumes{kubelet: &Kubelet{service: w.service, node: Node{Config: test.config}}, dir: t.TempDir()}
		path, err := v.resolver(&corev1.Pod{Spec: corev1.PodSpec{DNSPolicy: test.policy}})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(text), deadNameServer) != test.dead {
			t.Errorf("%+v, %s: %q (%v)", test.config, test.policy, text, err)
		}
	}
}
