package trialnode

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/internal/trial/probe"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m)) }

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// testEnv is a cluster with a real API server, and simulated nodes and kubelets.
type testEnv struct {
	*testing.T
	kube   kubernetes.Interface
	tryout *Observer
	// subject of the looks, as from the engine.
	subject trial.Subject
	faults  *faults
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	config := rest.CopyConfig(apitest.Server(t))
	config.QPS, config.Burst = 1000, 1000
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w := &testEnv{T: t, kube: kube, faults: &faults{}}
	lossy := rest.CopyConfig(config)
	lossy.Wrap(func(next http.RoundTripper) http.RoundTripper { w.faults.next = next; return w.faults })
	lossyKube, err := kubernetes.NewForConfig(lossy)
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kamino-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.tryout = &Observer{
		Kube: lossyKube, Namespace: namespace.Name, Image: "kamino.example.com/kamino:v1",
		Same: func(a, b cloud.InstanceID) bool { return strings.EqualFold(string(a), string(b)) },
	}
	w.subject = trial.Subject{
		Prototype: &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "pool-2026.11.22", UID: types.UID("uid-of-" + namespace.Name)}},
		Spec:      cloud.TrialSpec{Name: "pool-2026.11.22-1"}, Attempt: 1,
		Instances: []cloud.Instance{{ID: "cloud:///T-0", CreatedAt: noon.Add(-3 * time.Minute)}},
		Facts:     trial.Facts{Now: noon, Begun: noon.Add(-5 * time.Minute), Instance: trial.Instance{Running: noon.Add(-3 * time.Minute)}, Proven: "sha256:a"},
	}
	t.Cleanup(func() {
		// All tests of the package share the API server: remove cluster-wide objects.
		w.must(kube.CoreV1().Nodes().DeleteCollection(context.WithoutCancel(t.Context()), metav1.DeleteOptions{}, metav1.ListOptions{}))
	})
	return w
}

func (w *testEnv) must(err error) {
	w.Helper()
	if err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
}

func (w *testEnv) nodes() []corev1.Node {
	w.Helper()
	list, err := w.kube.CoreV1().Nodes().List(w.T.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return list.Items
}

// node registers a Node as a kubelet does.
func (w *testEnv) node(name string, ready bool, change ...func(*corev1.Node)) *corev1.Node {
	w.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}},
		Spec:       corev1.NodeSpec{ProviderID: "cloud:///" + name},
	}
	for _, c := range change {
		c(node)
	}
	made, err := w.kube.CoreV1().Nodes().Create(w.Context(), node, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	made.Spec.Taints = nil
	// The API server adds a taint to each new node, which a controller removes.
	if made, err = w.kube.CoreV1().Nodes().Update(w.Context(), made, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
	made.Status.NodeInfo = corev1.NodeSystemInfo{MachineID: "m-" + name, SystemUUID: "s-" + name, BootID: "b-" + name, KernelVersion: "6.1"}
	made.Status.Images = make([]corev1.ContainerImage, 2)
	for i := range made.Status.Images {
		made.Status.Images[i].Names = []string{fmt.Sprint("image-", i)}
	}
	if _, err := w.kube.CoreV1().Nodes().UpdateStatus(w.Context(), made, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
	return w.ready(name, ready, noon)
}

func (w *testEnv) get(name string) *corev1.Node {
	w.Helper()
	node, err := w.kube.CoreV1().Nodes().Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return node
}

// ready is a kubelet's report with the kubelet's own time.
func (w *testEnv) ready(name string, ready bool, stamp time.Time) *corev1.Node {
	w.Helper()
	node := w.get(name)
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(stamp)}}
	node, err := w.kube.CoreV1().Nodes().UpdateStatus(w.Context(), node, metav1.UpdateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return node
}

func (w *testEnv) recordOf(name string) trialRecord {
	w.Helper()
	for _, k := range w.subject.Known {
		if k.Node == name {
			return k
		}
	}
	w.Fatalf("nothing is known of node %s", name)
	return trialRecord{}
}

// lookOnce keeps the results of the look for the next look, as the engine's record does.
func (w *testEnv) lookOnce() (trial.Observation, error) {
	observation, err := w.tryout.Observe(w.Context(), w.subject)
	w.subject.Known = observation.Known
	return observation, err
}

// at moves the engine's clock.
func (w *testEnv) at(after time.Duration) *testEnv {
	w.subject.Facts.Now = noon.Add(after)
	return w
}

// observeUntil repeats until the lists, which may be old, show the expected state.
func (w *testEnv) observeUntil(what string, until func(trial.Facts) bool) trial.Facts {
	w.Helper()
	var last trial.Observation
	var err error
	for range 200 {
		if last, err = w.lookOnce(); err != nil {
			w.Fatal(err)
		}
		if until == nil || until(last.Facts) {
			return last.Facts
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.Fatalf("%s: never; last %+v", what, last.Facts)
	return last.Facts
}

func (w *testEnv) clean() (left bool) {
	w.Helper()
	still, err := w.tryout.Clean(w.Context(), w.subject)
	if err != nil {
		w.Fatal(err)
	}
	return len(still) > 0
}

// part returns a pod of the trial; nil if absent.
func (w *testEnv) part(part string) *corev1.Pod {
	w.Helper()
	a := &attempt{nodeWriter: nodeWriter{objects{w.tryout, w.subject}}}
	pod, err := w.kube.CoreV1().Pods(w.tryout.Namespace).Get(w.Context(), a.name(part), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return pod
}

func (w *testEnv) parts() []string {
	w.Helper()
	var names []string
	for _, part := range measuringParts {
		if w.part(part) != nil {
			names = append(names, part)
		}
	}
	return names
}

// becomes sets a pod's status as a kubelet.
func (w *testEnv) becomes(part string, status corev1.PodStatus) {
	w.Helper()
	pod := w.part(part)
	if pod == nil {
		w.Fatalf("there is no pod %s, only %v", part, w.parts())
	}
	pod.Status = status
	if _, err := w.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(w.Context(), pod, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func waitingFor(reason string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "probe", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "as it is"}},
	}}}
}

func running(ip string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "probe", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon)}},
	}}}
}

func ended(code int32, message string) corev1.PodStatus {
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodRunning // it is started again
	}
	return corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "probe", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}},
	}}}
}

// reported is the end of a measuring pod, with its failures.
func reported(digest string, failed ...probe.Connection) corev1.PodStatus {
	r := probe.Report{Digest: digest}
	for _, s := range []probe.Connection{probe.Pod, probe.Back, probe.Service, probe.Inside} {
		f := probe.Finding{Subject: s}
		if slices.Contains(failed, s) {
			f.Says = "i/o timeout"
		}
		r.Findings = append(r.Findings, f)
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return ended(0, string(text))
}

// faults loses one writing call, before or after its effect.
type faults struct {
	next http.RoundTripper

	mu     sync.Mutex
	calls  int
	lose   int
	behind bool
	lost   string
}

// arm selects the n-th writing call from now on.
func (f *faults) arm(n int, behind bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.lose, f.behind, f.lost = 0, n, behind, ""
}

func (f *faults) what() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

type lostCall struct{ call string }

func (e lostCall) Error() string { return "lost: " + e.call }

func (f *faults) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	if r.Method != http.MethodGet {
		f.calls++
	}
	hit, behind := r.Method != http.MethodGet && f.calls == f.lose, f.behind
	if hit {
		f.lost = r.Method + " " + r.URL.Path
	}
	f.mu.Unlock()
	if hit && !behind {
		return nil, lostCall{r.Method + " " + r.URL.Path}
	}
	response, err := f.next.RoundTrip(r)
	if hit && err == nil {
		_ = response.Body.Close()
		return nil, lostCall{r.Method + " " + r.URL.Path}
	}
	return response, err
}

// untouched compares a node with its earlier state.
func (w *testEnv) untouched(before *corev1.Node) {
	w.Helper()
	now := w.get(before.Name)
	if !maps.Equal(now.Labels, before.Labels) || now.Spec.Unschedulable != before.Spec.Unschedulable || now.Annotations[v1alpha1.TrialKey] != "" {
		w.Errorf("node %s was released as %v %v %t, and was %v %t", now.Name, now.Labels, now.Annotations, now.Spec.Unschedulable, before.Labels,
			before.Spec.Unschedulable)
	}
}
