package kubelet

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/internal/agent"
	"github.com/kamino-dev/kamino/internal/trial/probe"
)

// asKamino makes the test binary run as kamino, so that pods run the real command.
const asKamino = "KUBELET_TEST_AS_KAMINO"

func TestMain(m *testing.M) {
	if os.Getenv(asKamino) != "" {
		os.Exit(agent.Main())
	}
	os.Exit(m.Run())
}

// kamino is the program of the image for nodes.
func kamino(t *testing.T) map[string]string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return script(t, asKamino+`=1 exec `+self+` "$@"`)
}

func probePod(name, node string, o probe.Options) *corev1.Pod {
	o.Listen, o.Key = "$(POD_IP)", "k-1"
	pod := simulated(name, node, "kamino.example.com/kamino:v1")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	c := &pod.Spec.Containers[0]
	c.Args = append(o.Args(), "--report=/dev/termination-log")
	c.TerminationMessagePath = "/dev/termination-log"
	c.Env = []corev1.EnvVar{{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "kamino", MountPath: "/var/lib/kamino", ReadOnly: true}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "kamino", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kamino"}}}}
	return pod
}

// report returns the report of an ended pod.
func (w *kubeletEnv) report(name string) *probe.Report {
	w.Helper()
	pod := w.eventuallyPod(name, "ends", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
	end := pod.Status.ContainerStatuses[0].State.Terminated
	r, err := probe.Read(end.Message)
	if err != nil {
		w.Fatalf("%s ended as %+v: %v", name, end, err)
	}
	return r
}

// TestPodsOfTwoNodesReachEachOther by the real command, over sockets.
func TestPodsOfTwoNodesReachEachOther(t *testing.T) {
	w := newKubeletEnv(t, kamino(t))
	api, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = api.Close() }()
	w.service.REST = &rest.Config{Host: "https://" + api.Addr().String()}
	root := w.disk()
	manifest := filepath.Join(root, "var/lib/kamino/generalize.json")
	if err := os.MkdirAll(filepath.Dir(manifest), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(manifest, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.boot("n1", w.disk())
	w.boot("n2", root)
	w.create(probePod("there", "n1", probe.Options{Serve: true}))
	there := w.eventuallyPod("there", "runs", podReady)
	asks := probe.Options{Peer: there.Status.PodIP, Inside: "kubernetes.default.svc", Resolver: "/etc/resolv.conf", Manifest: "/var/lib/kamino/generalize.json"}
	w.create(probePod("here", "n2", asks))
	want := &probe.Report{Digest: "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
	for _, s := range []probe.Connection{probe.Pod, probe.Back, probe.Service, probe.Inside} {
		want.Findings = append(want.Findings, probe.Finding{Subject: s})
	}
	if diff := cmp.Diff(want, w.report("here")); diff != "" {
		t.Error(diff)
	}
	here := w.pod("here")
	if here.Status.PodIP == there.Status.PodIP || !strings.HasPrefix(here.Status.PodIP, "127.") {
		t.Errorf("the pods have the addresses %s and %s", here.Status.PodIP, there.Status.PodIP)
	}
	if simulated := w.eventuallyPod(w.create(simulated("web", "n1", "web")).Name, "runs", podReady); !strings.HasPrefix(simulated.Status.PodIP, "10.") {
		t.Errorf("an unreachable pod has the address %s", simulated.Status.PodIP)
	}
}

// TestNeverPullPolicy: the pod starts only if its image is on the disk.
func TestNeverPullPolicy(t *testing.T) {
	w := newKubeletEnv(t, nil)
	w.boot("n1", w.disk())
	never := func(name string) *corev1.Pod {
		pod := simulated(name, "n1", "registry.example.com/other:v1")
		pod.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
		return w.create(pod)
	}
	never("early")
	w.eventuallyPod("early", "is refused", func(pod *corev1.Pod) bool {
		s := pod.Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "ErrImageNeverPull"
	})
	w.create(simulated("puller", "n1", "registry.example.com/other:v1"))
	w.eventuallyPod("puller", "runs", podReady)
	never("late")
	w.eventuallyPod("late", "runs", podReady)
}

func TestNamesOfTheCluster(t *testing.T) {
	s := &Service{Config: Config{REST: &rest.Config{Host: "https://10.9.8.7:6443"}}}
	for name, want := range map[string]string{
		"kubernetes.default.svc.cluster.local": "10.9.8.7", "registry.example.com": "192.0.2.1",
		"nobody.default.svc.cluster.local": "", "kubernetes.default.svc": "", "kubernetes": "", "broken.invalid": "",
	} {
		got, known := s.lookUp(name)
		if known != (want != "") || known && got.String() != want {
			t.Errorf("%s is at %s (%t), want %q", name, got, known, want)
		}
	}
	if s.answer([]byte("noise")) != nil {
		t.Error("noise is answered")
	}
}
