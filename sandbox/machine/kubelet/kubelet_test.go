package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// world is an API server in memory with a kubelet service on it.
type world struct {
	*testing.T
	client  *fake.Clientset
	service *Service
	dir     string
}

func newWorld(t *testing.T, binaries map[string]string) *world {
	t.Helper()
	w := &world{T: t, client: fake.NewClientset(), dir: t.TempDir()}
	w.client.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		request := create.GetObject().(*authenticationv1.TokenRequest).DeepCopy()
		request.Status = authenticationv1.TokenRequestStatus{Token: "token-of-" + create.Name, ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Hour))}
		return true, request, nil
	})
	w.client.PrependReactor("update", "pods", w.keepDeletion)
	w.service = New(Config{
		Client: w.client, REST: &rest.Config{Host: "https://192.0.2.1:6443"}, Clock: clock.Clock{Scale: 2000},
		Binaries: binaries, Broken: []string{"broken.invalid"}, Dir: w.dir,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.service.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

// keepDeletion refuses a status that is based on what a pod was before its deletion was ordered: the
// client in memory compares no resource versions and would undo the order.
func (w *world) keepDeletion(action clienttesting.Action) (bool, runtime.Object, error) {
	update := action.(clienttesting.UpdateActionImpl)
	pod := update.GetObject().(*corev1.Pod)
	stored, err := w.client.Tracker().Get(update.GetResource(), pod.Namespace, pod.Name)
	if err != nil {
		return true, nil, err
	}
	if stored.(*corev1.Pod).DeletionTimestamp == nil || pod.DeletionTimestamp != nil {
		return false, nil, nil
	}
	return true, nil, apierrors.NewConflict(update.GetResource().GroupResource(), pod.Name, errors.New("it was changed meanwhile"))
}

// boot starts a kubelet on a lived-in disk; on none if root is empty.
func (w *world) boot(name, root string) *Kubelet {
	w.Helper()
	k := w.service.Prepare(w.Context(), Node{
		Name: name, ProviderID: "azure:///" + name, IP: "10.240.0.4", Root: root,
		Info: corev1.NodeSystemInfo{BootID: "boot-" + name, MachineID: "machine-" + name},
	})
	w.Cleanup(k.Kill)
	if err := k.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
	return k
}

func (w *world) disk() string {
	w.Helper()
	root := filepath.Join(w.TempDir(), "disk")
	if _, err := disk.LivedIn(root, disk.Static, disk.Facts{}); err != nil {
		w.Fatal(err)
	}
	return root
}

func (w *world) create(pod *corev1.Pod) *corev1.Pod {
	w.Helper()
	if pod.Namespace == "" {
		pod.Namespace = "default"
	}
	pod.UID = types.UID("uid-" + pod.Name)
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	created, err := w.client.CoreV1().Pods(pod.Namespace).Create(w.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return created
}

func simulated(name, node, image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: image}}},
	}
}

// remove asks for a pod's deletion as the API server shows it to a kubelet.
func (w *world) remove(name string) {
	w.Helper()
	pod := w.pod(name)
	now, grace := metav1.Now(), int64(30)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	if _, err := w.client.CoreV1().Pods("default").Update(w.Context(), pod, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) pod(name string) *corev1.Pod {
	pod, err := w.client.CoreV1().Pods("default").Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		return &corev1.Pod{}
	}
	return pod
}

func (w *world) node(name string) *corev1.Node {
	w.Helper()
	node, err := w.client.CoreV1().Nodes().Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return node
}

// eventually polls until a state of the world is reached.
func (w *world) eventually(what string, reached func() bool) {
	w.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for !reached() {
		if time.Now().After(deadline) {
			w.Fatalf("never came: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (w *world) eventuallyPod(name, what string, reached func(*corev1.Pod) bool) *corev1.Pod {
	w.Helper()
	var last *corev1.Pod
	w.eventually(fmt.Sprintf("pod %s %s", name, what), func() bool {
		last = w.pod(name)
		return last.Name != "" && reached(last)
	})
	return last
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func readyStatus(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

func TestStartRegistersAReadyNode(t *testing.T) {
	w := newWorld(t, nil)
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

func TestPodRunsAndImageStaysOnTheDisk(t *testing.T) {
	w := newWorld(t, nil)
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
	w := newWorld(t, nil)
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
	w := newWorld(t, nil)
	w.boot("n1", "")
	controller := true
	pod := simulated("job", "n1", "job:1")
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "job", UID: "j", Controller: &controller}}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "init:1"}}
	w.create(pod)
	w.eventuallyPod("job", "succeeds", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
}

// script is a program for containers, and the map that runs it.
func script(t *testing.T, text string) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"kamino.example.com/kamino": path}
}

func programPod(name string, args ...string) *corev1.Pod {
	pod := simulated(name, "n1", "kamino.example.com/kamino:v1")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.HostNetwork = true
	pod.Spec.ServiceAccountName = "kamino-generalize"
	pod.Spec.Containers[0].Args = args
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "host", MountPath: "/host"}, {Name: "access", MountPath: "/var/run/kamino"}}
	seconds := int64(600)
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
		{Name: "access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
		}}}},
	}
	return pod
}

func (w *world) rootCA() {
	w.Helper()
	_, err := w.client.CoreV1().ConfigMaps("default").Create(w.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "the authority"},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
}

func TestProgramSeesTheMachine(t *testing.T) {
	w := newWorld(t, script(t, `
test "$1" = generalize || exit 2
cat "$3/etc/hostname" "${4#--token-file=}" "$5" > "$3/root/seen" || exit 3
echo "$KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT $NODE $LITERAL" >> "$3/root/seen"
echo working
exit 7
`))
	w.rootCA()
	root := w.disk()
	w.boot("n1", root)
	pod := programPod("generalize", "generalize", "--root", "/host", "--token-file=/var/run/kamino/token", "/var/run/kamino/ca.crt")
	pod.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	pod.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
		{Name: "LITERAL", Value: "on-$(NODE)"},
	}
	w.create(pod)
	ended := w.eventuallyPod("generalize", "fails", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	end := ended.Status.ContainerStatuses[0].State.Terminated
	if end == nil || end.ExitCode != 7 || end.Reason != "Error" || strings.TrimSpace(end.Message) != "working" {
		t.Errorf("it ended as %+v", end)
	}
	seen, err := os.ReadFile(filepath.Join(root, "root/seen"))
	want := disk.Hostname(root) + "\ntoken-of-kamino-generalizethe authority192.0.2.1 6443 n1 on-n1\n"
	if err != nil || string(seen) != want {
		t.Errorf("the program saw %q (%v), want %q", seen, err, want)
	}
}

// TestProgramFindsItsServiceAccount: client libraries look under a fixed path, for which a kubeconfig
// stands in.
func TestProgramFindsItsServiceAccount(t *testing.T) {
	w := newWorld(t, script(t, `cp "$KUBECONFIG" "$1/root/kubeconfig"; exec sleep 600`))
	w.rootCA()
	root := w.disk()
	w.boot("n1", root)
	pod := programPod("controller", "/host")
	pod.Spec.Containers[0].VolumeMounts[1].MountPath = accountMount
	w.create(pod)
	w.eventuallyPod("controller", "runs", podReady)
	w.eventually("the program has copied its kubeconfig", func() bool {
		info, err := os.Stat(filepath.Join(root, "root/kubeconfig"))
		return err == nil && info.Size() > 0
	})
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(root, "root/kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(config.BearerTokenFile)
	if err != nil || string(token) != "token-of-kamino-generalize" || config.Host != "https://192.0.2.1:6443" {
		t.Errorf("its API server is %s, its token %q (%v)", config.Host, token, err)
	}
	if ca, err := os.ReadFile(config.CAFile); err != nil || string(ca) != "the authority" {
		t.Errorf("its authority is %q (%v)", ca, err)
	}
}

func TestProgramIsRunAgain(t *testing.T) {
	w := newWorld(t, script(t, `echo once >> "$1/root/runs"; test "$(wc -l < "$1/root/runs")" -ge 3 && exec sleep 600; exit 1`))
	w.rootCA()
	root := w.disk()
	w.boot("n1", root)
	pod := programPod("loop", "/host")
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	w.create(pod)
	w.eventuallyPod("loop", "runs for the third time", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].RestartCount == 2 && podReady(pod)
	})
	w.remove("loop")
	w.eventually("the pod is gone", func() bool { return w.pod("loop").Name == "" })
}

func TestKillTakesProgramsWithIt(t *testing.T) {
	w := newWorld(t, script(t, `sleep 600 & echo $! > "$1/root/child"; wait`))
	w.rootCA()
	root := w.disk()
	k := w.boot("n1", root)
	w.create(programPod("long", "/host"))
	w.eventuallyPod("long", "runs", podReady)
	w.eventually("the program runs", func() bool {
		text, err := os.ReadFile(filepath.Join(root, "root/child"))
		return err == nil && strings.HasSuffix(string(text), "\n")
	})
	text, err := os.ReadFile(filepath.Join(root, "root/child"))
	if err != nil {
		t.Fatal(err)
	}
	k.Kill()
	// The grandchild was adopted by init, which reaps it: its entry disappears or is a zombie's.
	w.eventually("the program's child is dead", func() bool {
		status, err := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/status")
		return err != nil || strings.Contains(string(status), "State:\tZ")
	})
	if left, err := filepath.Glob(filepath.Join(w.dir, volumeDir, "*")); err != nil || len(left) > 0 {
		t.Errorf("volumes outlived the power: %v (%v)", left, err)
	}
	w.eventually("the node is lost", func() bool { return readyStatus(w.node("n1")) == corev1.ConditionUnknown })
	if pod := w.pod("long"); pod.Status.Phase != corev1.PodRunning {
		t.Errorf("somebody reported the pod's end after the power was gone: %s", pod.Status.Phase)
	}
}

func TestRebootOfAPodThatIsNotRestarted(t *testing.T) {
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("runtime knows it: %v", known), func(t *testing.T) {
			w := newWorld(t, script(t, `echo ran >> "$1/root/runs"; exec sleep 600`))
			w.rootCA()
			root := w.disk()
			k := w.boot("n1", root)
			w.create(programPod("once", "/host"))
			running := w.eventuallyPod("once", "runs", podReady)
			k.Kill()
			if !known {
				if err := disk.RemovePod(root, disk.PodRecord{UID: string(running.UID)}); err != nil {
					t.Fatal(err)
				}
			}
			w.boot("n1", root)
			runs := func() int {
				text, _ := os.ReadFile(filepath.Join(root, "root/runs"))
				return strings.Count(string(text), "ran")
			}
			if known {
				w.eventuallyPod("once", "fails", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
				if runs() != 1 {
					t.Errorf("it ran %d times", runs())
				}
				return
			}
			w.eventually("it runs once more", func() bool { return runs() == 2 })
		})
	}
}

func TestRebootRestartsPods(t *testing.T) {
	w := newWorld(t, nil)
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

func TestPodsThatWentMeanwhileAreSwept(t *testing.T) {
	w := newWorld(t, nil)
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

func TestPausedKubeletIsSilentAndReportsLater(t *testing.T) {
	w := newWorld(t, script(t, `while ! test -e "$1/root/go"; do sleep 0.01; done; touch "$1/root/over"; exit 4`))
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

func TestTheLastOfANameHasThePods(t *testing.T) {
	w := newWorld(t, nil)
	first, second := w.disk(), w.disk()
	w.boot("n1", first)
	clone := w.boot("n1", second)
	pod := w.create(simulated("web", "n1", "web:1"))
	w.eventually("the clone runs the pod", func() bool { return disk.HasPod(second, string(pod.UID)) })
	clone.Kill()
	w.eventually("the donor has it back", func() bool { return disk.HasPod(first, string(pod.UID)) })
}

func TestManyLightPods(t *testing.T) {
	w := newWorld(t, nil)
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
