package kubelet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// kubeletEnv is an API server in memory with a kubelet service.
type kubeletEnv struct {
	*testing.T
	client  *fake.Clientset
	service *Service
	dir     string
}

func newKubeletEnv(t *testing.T, binaries map[string]string) *kubeletEnv {
	t.Helper()
	w := &kubeletEnv{T: t, client: fake.NewClientset(), dir: t.TempDir()}
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

// keepDeletion refuses a status update that is based on a pod before its deletion. The client in memory compares no
// resource versions, and would undo the deletion.
func (w *kubeletEnv) keepDeletion(action clienttesting.Action) (bool, runtime.Object, error) {
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
func (w *kubeletEnv) boot(name, root string) *Kubelet {
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

func (w *kubeletEnv) disk() string {
	w.Helper()
	root := filepath.Join(w.TempDir(), "disk")
	if _, err := disk.UsedNode(root, disk.Static, disk.TemplateValues{}); err != nil {
		w.Fatal(err)
	}
	return root
}

func (w *kubeletEnv) create(pod *corev1.Pod) *corev1.Pod {
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

// remove orders a pod's deletion as the API server shows the deletion to a kubelet.
func (w *kubeletEnv) remove(name string) {
	w.Helper()
	pod := w.pod(name)
	now, grace := metav1.Now(), int64(30)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	if _, err := w.client.CoreV1().Pods("default").Update(w.Context(), pod, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w *kubeletEnv) pod(name string) *corev1.Pod {
	pod, err := w.client.CoreV1().Pods("default").Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		return &corev1.Pod{}
	}
	return pod
}

func (w *kubeletEnv) node(name string) *corev1.Node {
	w.Helper()
	node, err := w.client.CoreV1().Nodes().Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return node
}

// eventually polls until a state of the world is reached. A test that gives up shows all nodes and pods.
func (w *kubeletEnv) eventually(what string, reached func() bool) {
	w.Helper()
	deadline := time.Now().Add(2 * time.Minute) // only ends a test that hangs
	for !reached() {
		if time.Now().After(deadline) {
			nodes, err := w.client.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
			pods, err2 := w.client.CoreV1().Pods("").List(w.Context(), metav1.ListOptions{})
			w.Fatalf("never came: %s (%v)\nnodes %+v\npods %+v", what, errors.Join(err, err2), nodes, pods)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (w *kubeletEnv) eventuallyPod(name, what string, reached func(*corev1.Pod) bool) *corev1.Pod {
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
