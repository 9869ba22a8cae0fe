package trialnode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
	"github.com/kamino-dev/kamino/internal/trial"
)

// doubtful checks that the trial has no verdict on the version, and words of the message.
func (w *testEnv) doubtful(f trial.Facts, words ...string) {
	w.Helper()
	v := trial.Judge(f)
	if v.Result != trial.Inconclusive {
		w.Errorf("%s: %s", v.Result, v.Message)
	}
	for _, word := range words {
		if !strings.Contains(v.Message, word) {
			w.Errorf("%q is not in %q", word, v.Message)
		}
	}
}

// claiming gives a Node of another client the provider ID of the trial's instance.
func claiming(n *corev1.Node) { n.Spec.ProviderID = "cloud:///T-0" }

// TestASecondNodeNamesTheInstance: in any order, Kamino judges neither Node, and names both. A deleted Node has named the
// instance, too.
func TestASecondNodeNamesTheInstance(t *testing.T) {
	for name, play := range map[string]func(w *testEnv){
		"a NotReady one, first by name": func(w *testEnv) {
			w.node("t-0", true)
			w.node("a-0", false, claiming)
		},
		"a Ready one, and the instance's own is not": func(w *testEnv) {
			w.node("t-0", false)
			w.node("a-0", true, claiming)
		},
		"one that is seen first": func(w *testEnv) {
			w.node("a-0", false, claiming)
			w.observeUntil("it", func(f trial.Facts) bool { return f.Node == "a-0" })
			w.node("t-0", true)
		},
		"one that is seen first, and removed": func(w *testEnv) {
			w.node("a-0", true, claiming)
			w.observeUntil("it", func(f trial.Facts) bool { return f.Node == "a-0" })
			w.node("t-0", true)
			w.must(w.kube.CoreV1().Nodes().Delete(w.Context(), "a-0", metav1.DeleteOptions{}))
		},
		"one that is seen second": func(w *testEnv) {
			w.node("t-0", true)
			w.observeUntil("it", func(f trial.Facts) bool { return f.Ready })
			w.node("a-0", true, claiming)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			play(w)
			w.at(30 * time.Minute)
			f := w.observeUntil("the doubt", func(f trial.Facts) bool {
				v := trial.Judge(f)
				return strings.Contains(v.Message, "a-0") && strings.Contains(v.Message, "t-0") || v.Result == trial.Failed || v.Result == trial.Passed
			})
			w.doubtful(f, "a-0", "t-0")
			for _, n := range w.nodes() {
				if !n.Spec.Unschedulable {
					t.Errorf("node %s takes pods", n.Name)
				}
			}
		})
	}
}

// TestTheNodeIsDeletedByAnotherClient: afterwards the kubelet registers again or not, or another client uses its name.
func TestTheNodeIsDeletedByAnotherClient(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprint("again ", again), func(t *testing.T) { testDeleted(t, again) })
	}
}

func testDeleted(t *testing.T, again bool) {
	w := newTestEnv(t)
	w.node("t-0", true)
	w.observeUntil("the node", func(f trial.Facts) bool { return f.Ready })
	uid := string(w.get("t-0").UID)
	w.must(w.kube.CoreV1().Nodes().Delete(t.Context(), "t-0", metav1.DeleteOptions{}))
	if again {
		w.node("t-0", false)
	}
	w.at(30 * time.Minute)
	f := w.observeUntil("the doubt", func(f trial.Facts) bool { return !f.Ready })
	w.doubtful(f, "t-0 (UID "+uid+")", "deleted")
}

// TestAForgedTwin is older, Ready, and names an existing instance, but has no kubelet.
func TestAForgedTwin(t *testing.T) {
	w := newTestEnv(t)
	w.node("w-1", true)
	w.node("t-0", true)
	w.heart("t-0")
	twin := w.get("w-1")
	twin.Status.NodeInfo.MachineID = w.get("t-0").Status.NodeInfo.MachineID
	_, err := w.kube.CoreV1().Nodes().UpdateStatus(t.Context(), twin, metav1.UpdateOptions{})
	w.must(err)
	of := func() twins {
		it, twin := w.get("t-0"), *w.get("w-1")
		twin.CreationTimestamp = metav1.NewTime(it.CreationTimestamp.Add(-time.Hour))
		a := &attempt{nodeWriter: nodeWriter{objects{Observer: w.tryout}}, nodes: []corev1.Node{*it, twin}}
		found := a.twins(it)
		w.must(proveKubelets(t.Context(), a, it, &found))
		return found
	}
	if got := of(); len(got.proven) > 0 || len(got.doubtful) != 1 || got.doubtful[0] != "node w-1, whose lease kube-node-lease/w-1 no kubelet renews" {
		t.Errorf("%+v", got)
	}
	w.heart("w-1")
	if got := of(); len(got.proven) != 1 || len(got.doubtful) > 0 {
		t.Errorf("with its kubelet: %+v", got)
	}
}

// heart renews the Lease of a Node's kubelet.
func (w *testEnv) heart(name string) {
	w.Helper()
	leases := w.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	_, err := leases.Create(w.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { w.must(leases.Delete(context.WithoutCancel(w.Context()), name, metav1.DeleteOptions{})) })
}

// TestAForgedNodeAlone: the instance's kubelet never comes, and another client creates the Node. Kamino creates no pod
// there, and the attempt is inconclusive for any content of that Node.
func TestAForgedNodeAlone(t *testing.T) {
	for _, ready := range []bool{true, false} {
		t.Run(fmt.Sprint("Ready ", ready), func(t *testing.T) {
			w := newTestEnv(t)
			w.node("w-1", true)
			w.heart("w-1")
			w.node("t-0", ready)
			f := w.observeUntil("the Node", func(f trial.Facts) bool { return f.Node == "t-0" })
			if v := trial.Judge(f); v.Result != trial.Pending {
				t.Errorf("its kubelet may come: %s: %s", v.Result, v.Message)
			}
			f = w.at(30*time.Minute).observeUntil("it", nil)
			w.doubtful(f, "node t-0", "kube-node-lease/t-0")
			if len(w.parts()) > 0 {
				t.Errorf("pods were made: %v", w.parts())
			}
			if !w.get("t-0").Spec.Unschedulable {
				t.Error("it takes pods")
			}
		})
	}
}

// TestKubeletReplacesForgedNode under a known name. Earlier content of the Node does not count.
func TestKubeletReplacesForgedNode(t *testing.T) {
	w := newTestEnv(t)
	w.node("w-1", true)
	w.heart("w-1")
	w.node("t-0", true)
	w.observeUntil("the Node", func(f trial.Facts) bool { return f.Unproven != "" })
	w.heart("t-0")
	w.ready("t-0", false, noon)
	f := w.at(5*time.Minute).observeUntil("its kubelet", func(f trial.Facts) bool { return f.Unproven == "" && !f.Ready })
	if v := trial.Judge(f); f.WasReady || v.Result != trial.Pending {
		t.Errorf("was Ready %t, %s: %s", f.WasReady, v.Result, v.Message)
	}
}

// TestForgedNodesHideNoDaemonSet: Nodes without a kubelet would make each DaemonSet look unhealthy, and the trial would
// skip the DaemonSet.
func TestForgedNodesHideNoDaemonSet(t *testing.T) {
	w := newTestEnv(t)
	w.node("w-1", true)
	w.heart("w-1")
	w.node("t-0", true)
	w.heart("t-0")
	for i := range 9 {
		w.node(fmt.Sprint("forged-", i), i < 3)
	}
	labels := map[string]string{"app": "cni"}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "cni", Namespace: w.tryout.Namespace}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}},
	}}
	set, err := w.kube.AppsV1().DaemonSets(set.Namespace).Create(t.Context(), set, metav1.CreateOptions{})
	w.must(err)
	set.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 11, CurrentNumberScheduled: 10, NumberReady: 1}
	_, err = w.kube.AppsV1().DaemonSets(set.Namespace).UpdateStatus(t.Context(), set, metav1.UpdateOptions{})
	w.must(err)
	f := w.observeUntil("the DaemonSet", func(f trial.Facts) bool { return len(f.Daemons) > 0 })
	if f.Daemons[0].Name != set.Namespace+"/cni" || f.Daemons[0].Ready {
		t.Errorf("%+v", f.Daemons)
	}
}

// TestAKubeletWithoutItsNode: if the cloud names the Node, the kubelet's Lease shows that a client has deleted the Node,
// also without an earlier look.
func TestAKubeletWithoutItsNode(t *testing.T) {
	w := newTestEnv(t)
	w.subject.Instances[0].Host = "t-0"
	if f := w.at(30*time.Minute).observeUntil("nothing", nil); trial.Judge(f).Result != trial.Failed {
		t.Errorf("without a Lease: %+v", trial.Judge(f))
	}
	w.heart("t-0")
	w.doubtful(w.observeUntil("nothing", nil), "kube-node-lease/t-0", "no Node")
}

// TestReadsThatAreDenied: any missing permission neither passes nor fails a trial, and the verdict names the permission.
func TestReadsThatAreDenied(t *testing.T) {
	for _, resource := range []string{"nodes", "leases", "daemonsets", "pods", "configmaps", "jobs"} {
		t.Run(resource, func(t *testing.T) {
			w := newTestEnv(t)
			w.subject.Prototype.Spec.Settings.Trial.Job = "job"
			w.node("t-0", true)
			w.tryout.Kube = denied(t, resource)
			_, err := w.lookOnce()
			if err == nil {
				t.Fatal("a look without the right to it is none")
			}
			if v := trial.Unseen(1, err.Error()); v.Result != trial.Pending {
				t.Errorf("%s: %s", v.Result, v.Message)
			}
			if v := trial.Unseen(100, err.Error()); v.Result != trial.Inconclusive || !strings.Contains(v.Message, "no right to "+resource) {
				t.Errorf("%s: %s", v.Result, v.Message)
			}
		})
	}
}

// denied is a client without permission to read one resource.
func denied(t *testing.T, resource string) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(apitest.Server(t))
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return denying{next, resource} })
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

type denying struct {
	next     http.RoundTripper
	resource string
}

func (d denying) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet || !slices.Contains(strings.Split(r.URL.Path, "/"), d.resource) {
		return d.next.RoundTrip(r)
	}
	status := apierrors.NewForbidden(schema.GroupResource{Resource: d.resource}, "", fmt.Errorf("no right to %s", d.resource)).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	text, err := json.Marshal(status)
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), Request: r,
	}, err
}

// TestTwinsThatAreNotProven: only the older twin's own Node with a live kubelet proves which twin had the ID first.
func TestTwinsThatAreNotProven(t *testing.T) {
	for want, change := range map[string]func(*corev1.Node){
		"":                          func(*corev1.Node) {},
		", which is not older":      func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon) },
		", which is not Ready":      func(n *corev1.Node) { n.Status.Conditions = nil },
		", which names no instance": func(n *corev1.Node) { n.Spec.ProviderID = "" },
	} {
		node := func(name string, at time.Time) corev1.Node {
			n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-" + "x", CreationTimestamp: metav1.NewTime(at)}}
			n.UID += "-" + n.UID
			n.Spec.ProviderID = "cloud:///" + name
			n.Status.NodeInfo = corev1.NodeSystemInfo{MachineID: "m", SystemUUID: "s-" + name}
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			return n
		}
		it, twin := node("t-0", noon), node("w-1", noon.Add(-time.Hour))
		twin.UID = "another"
		change(&twin)
		got := (&attempt{nodes: []corev1.Node{it, twin}}).twins(&it)
		switch {
		case want == "" && (len(got.proven) != 1 || got.instances["w-1"] != "cloud:///w-1" || len(got.doubtful) > 0):
			t.Errorf("%+v", got)
		case want != "" && (len(got.proven) > 0 || len(got.doubtful) != 1 || got.doubtful[0] != "node w-1"+want):
			t.Errorf("%q: %+v", want, got)
		}
	}
}

// written writes label and annotation of a trial on a Node as another client.
func (w *testEnv) written(name, text string) {
	w.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": map[string]string{v1alpha1.TrialKey: string(w.subject.Prototype.UID)}, "annotations": map[string]string{v1alpha1.TrialKey: text},
	}})
	w.must(err)
	_, err = w.kube.CoreV1().Nodes().Patch(w.Context(), name, "application/merge-patch+json", patch, metav1.PatchOptions{})
	w.must(err)
}

// forgery is an annotation that claims any Node for the trial, long Ready and bound to its instance. Earlier versions
// trusted the annotation.
func (w *testEnv) forgery(name string) string {
	n := w.get(name)
	stamp := ""
	if len(n.Status.Conditions) > 0 {
		stamp = n.Status.Conditions[0].LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z")
	}
	text, err := json.Marshal(map[string]any{
		"prototype": w.subject.Prototype.Name, "uid": w.subject.Prototype.UID, "trial": w.subject.Spec.Name, "boot": n.Status.NodeInfo.BootID,
		"going": true, "cordoned": true,
		"ready": len(n.Status.Conditions) > 0 && n.Status.Conditions[0].Status == corev1.ConditionTrue, "since": noon.Add(-time.Hour), "stamp": stamp,
		"firstReady": noon.Add(-time.Hour),
	})
	w.must(err)
	return string(text)
}

// TestMarkOnAnotherNodeIsIgnored: the end of a trial ignores marks on other Nodes, does not wait, and changes no other
// Node.
func TestMarkOnAnotherNodeIsIgnored(t *testing.T) {
	for _, ready := range []bool{true, false} {
		for _, garbled := range []bool{false, true} {
			t.Run(fmt.Sprintf("Ready %t garbled %t", ready, garbled), func(t *testing.T) { testForeignMark(t, ready, garbled) })
		}
	}
}

func testForeignMark(t *testing.T, ready, garbled bool) {
	w := newTestEnv(t)
	w.node("t-0", true)
	w.node("w-1", ready)
	w.observeUntil("the node", func(f trial.Facts) bool { return f.Ready })
	text := w.forgery("w-1")
	if garbled {
		text = "{"
	}
	w.written("w-1", text)
	before := w.get("w-1").ResourceVersion
	for _, instances := range []int{1, 0} { // before its instance goes, and after that
		w.subject.Instances = w.subject.Instances[:instances]
		w.ready("t-0", instances > 0, noon)
		left, err := w.tryout.Clean(t.Context(), w.subject)
		if err != nil || waits(left) {
			t.Errorf("left %v, %v", left, err)
		}
	}
	names := map[string]bool{}
	for _, n := range w.nodes() {
		names[n.Name] = true
	}
	if !names["w-1"] || names["t-0"] {
		t.Fatalf("there are %v", names)
	}
	if w.get("w-1").ResourceVersion != before {
		t.Errorf("the Node was written")
	}
}

// waits reports whether an end says that something is left.
func waits(left any) bool {
	switch l := left.(type) {
	case bool:
		return l
	case []string:
		return len(l) > 0
	}
	return true
}

// TestAMarkOnTheTrialsNodeIsNotBelieved: a mark can neither fake an hour of Ready nor a lost Ready. An invalid mark neither
// stops the looks nor keeps a node out of service.
func TestAMarkOnTheTrialsNodeIsNotBelieved(t *testing.T) {
	for _, ready := range []bool{true, false} {
		t.Run(fmt.Sprint("Ready ", ready), func(t *testing.T) {
			w := newTestEnv(t)
			w.node("t-0", ready)
			w.written("t-0", w.forgery("t-0"))
			f := w.observeUntil("the node", func(f trial.Facts) bool { return f.Node == "t-0" })
			if !f.Changed.Equal(noon) || f.WasReady != ready {
				t.Errorf("it counts as so since %s, and as Ready before: %t", f.Changed, f.WasReady)
			}
		})
	}
	t.Run("garbled", testGarbledMark)
}

func testGarbledMark(t *testing.T) {
	w := newTestEnv(t)
	before := w.node("t-0", true)
	w.observeUntil("the node", func(f trial.Facts) bool { return f.Ready })
	w.written("t-0", "{")
	if f, err := w.tryout.Observe(t.Context(), w.subject); err != nil || !f.Facts.Ready {
		t.Errorf("%+v, %v", f.Facts, err)
	}
	w.written("t-0", "{")
	w.subject.Instances, w.subject.Overdue = nil, true
	if left, err := w.tryout.Clean(t.Context(), w.subject); err != nil || waits(left) {
		t.Errorf("left %v, %v", left, err)
	}
	w.untouched(before)
}

// TestMarksDoNotLeaveATrialAlone: with a mark, a cordon or a label on all other nodes, the trial still measures the
// network.
func TestMarksDoNotLeaveATrialAlone(t *testing.T) {
	for name, change := range map[string]func(*corev1.Node){
		"label":       func(n *corev1.Node) { n.Labels[v1alpha1.TrialKey] = "x" },
		"reservation": func(n *corev1.Node) { n.Annotations = map[string]string{v1alpha1.ReservationAnnotation: "{}"} },
		"cordon":      func(n *corev1.Node) { n.Spec.Unschedulable = true },
		"system":      func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "plan9" },
	} {
		t.Run(name, func(t *testing.T) {
			w, alone := newTestEnv(t), 0
			w.node("w-1", true, change)
			w.node("t-0", true)
			w.observeUntil("a pod on the other node", func(f trial.Facts) bool {
				if f.Network.Result == trial.Skipped && len(w.nodes()) == 2 {
					alone++
				}
				return w.part(peer) != nil || alone > 20
			})
			if w.part(peer) == nil {
				t.Errorf("there are %v", w.parts())
			}
		})
	}
}

// TestAMarkDoesNotChooseTheNodeToMeasureWith: marks on all nodes but one would select that node. Only a reservation with a
// Lease counts.
func TestAMarkDoesNotChooseTheNodeToMeasureWith(t *testing.T) {
	marks := map[string]string{v1alpha1.TrialKey: "x", v1alpha1.ReservationAnnotation: "{}"}
	free, marked := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "b"}},
		corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a", Labels: marks, Annotations: marks}}
	for i, n := range []*corev1.Node{&free, &marked} {
		n.Spec.ProviderID = fmt.Sprint("cloud:///", i)
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	for want, confirmed := range map[string]map[types.UID]v1alpha1.Reservation{"a b": {}, "b": {"a": {}}} {
		a := &attempt{nodeWriter: nodeWriter{objects{Observer: &Observer{}}}, nodes: []corev1.Node{free, marked}, reserved: confirmed}
		if got := strings.Join(a.neighbours(&corev1.Node{}), " "); got != want {
			t.Errorf("confirmed %v: %s, want %s", confirmed, got, want)
		}
	}
}

// TestNodeThatStaysReadyEnds: the instance is gone, and another client keeps the Node's status.
func TestNodeThatStaysReadyEnds(t *testing.T) {
	w := newTestEnv(t)
	before := w.node("t-0", true)
	w.observeUntil("the node", func(f trial.Facts) bool { return f.Ready })
	w.subject.Instances = nil
	if left, err := w.tryout.Clean(t.Context(), w.subject); err != nil || !waits(left) || !strings.Contains(strings.Join(left, ""), "t-0") {
		t.Errorf("%v, %v", left, err)
	}
	w.subject.Overdue = true
	if left, err := w.tryout.Clean(t.Context(), w.subject); err != nil || waits(left) {
		t.Errorf("overdue: %v, %v", left, err)
	}
	w.untouched(before)
}

// TestANodeOfAnotherHost: if the cloud names the instance's Node, Kamino judges no other Node.
func TestANodeOfAnotherHost(t *testing.T) {
	w := newTestEnv(t)
	w.subject.Instances[0].Host = "t-0"
	w.node("a-0", true, claiming)
	f := w.at(30*time.Minute).observeUntil("it", func(f trial.Facts) bool { return f.Node == "a-0" })
	w.doubtful(f, "a-0", "host name t-0")
	if len(w.parts()) > 0 {
		t.Errorf("pods on a node that is not the trial's: %v", w.parts())
	}
	w.must(w.kube.CoreV1().Nodes().Delete(t.Context(), "a-0", metav1.DeleteOptions{}))
	own := newTestEnv(t)
	own.subject.Instances[0].Host = "t-0"
	own.node("t-0", true)
	if f := own.observeUntil("its own", func(f trial.Facts) bool { return f.Ready }); f.Doubt != "" {
		t.Error(f.Doubt)
	}
}

// TestANodeWithoutAProviderID is the trial's by its name, system UUID or address. Kamino cordons, names and removes the
// Node.
func TestANodeWithoutAProviderID(t *testing.T) {
	for by, change := range map[string]func(*cloud.Instance){
		"name":        func(i *cloud.Instance) { i.Host = "t-0" },
		"system UUID": func(i *cloud.Instance) { i.SystemUUID = "S-T-0" },
		"address":     func(i *cloud.Instance) { i.Addresses = []string{"10.0.0.7"} },
	} {
		t.Run(by, func(t *testing.T) { testNodeWithoutProviderID(t, change) })
	}
}

func testNodeWithoutProviderID(t *testing.T, change func(*cloud.Instance)) {
	w := newTestEnv(t)
	change(&w.subject.Instances[0])
	w.node("w-1", true, func(n *corev1.Node) { n.Spec.ProviderID = "" }) // of another instance without a provider ID
	w.heart("w-1")
	w.node("t-0", true, func(n *corev1.Node) { n.Spec.ProviderID = "" })
	w.addressed("t-0", "10.0.0.7")
	w.doubtful(w.at(30*time.Minute).observeUntil("it", func(f trial.Facts) bool { return f.Node == "t-0" && f.Unproven != "" }), "t-0", "no kubelet")
	w.heart("t-0")
	f := w.observeUntil("its kubelet", func(f trial.Facts) bool { return f.Unproven == "" })
	if v := trial.Judge(f); v.Result != trial.Failed || !strings.HasPrefix(v.Message, "Registered: node t-0 has no provider ID") {
		t.Errorf("%s: %s", v.Result, v.Message)
	}
	if !w.get("t-0").Spec.Unschedulable || w.get("w-1").Spec.Unschedulable {
		t.Error("users' pods are placed on the Node, or another Node is cordoned")
	}
	n := w.get("t-0")
	n.Spec.ProviderID = "cloud:///t-0"
	_, err := w.kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
	w.must(err)
	if f := w.observeUntil("its provider ID", func(f trial.Facts) bool { return !f.WithoutProviderID }); f.Doubt != "" ||
		trial.Judge(f).Result == trial.Failed {
		t.Errorf("%+v", trial.Judge(f))
	}
}

func (w *testEnv) addressed(name, address string) {
	w.Helper()
	n := w.get(name)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	_, err := w.kube.CoreV1().Nodes().UpdateStatus(w.Context(), n, metav1.UpdateOptions{})
	w.must(err)
}

// TestTheEndOfANodeWithoutAProviderID: the record proves the Node after the end of the instance.
func TestTheEndOfANodeWithoutAProviderID(t *testing.T) {
	for _, recorded := range []bool{true, false} {
		w := newTestEnv(t)
		w.subject.Instances[0].Host = "t-0"
		w.node("t-0", false, func(n *corev1.Node) { n.Spec.ProviderID = "" })
		w.node("w-1", false, func(n *corev1.Node) { n.Spec.ProviderID = "" })
		if recorded {
			w.observeUntil("it", func(f trial.Facts) bool { return f.Node == "t-0" })
		}
		w.subject.Instances = nil
		if w.clean() {
			t.Error("something is left")
		}
		var names []string
		for _, n := range w.nodes() {
			names = append(names, n.Name)
		}
		if slices.Contains(names, "t-0") == recorded || !slices.Contains(names, "w-1") {
			t.Errorf("recorded %t: there are %v", recorded, names)
		}
		w.must(w.kube.CoreV1().Nodes().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	}
}

// TestAnOlderNodeIsNotTheInstances: a leftover Node of another instance may have the same address.
func TestAnOlderNodeIsNotTheInstances(t *testing.T) {
	w := newTestEnv(t)
	w.node("t-0", true, func(n *corev1.Node) { n.Spec.ProviderID = "" })
	w.subject.Instances[0].Host, w.subject.Instances[0].CreatedAt = "t-0", time.Now().Add(2*time.Minute)
	if f := w.observeUntil("nothing", nil); f.Node != "" || w.get("t-0").Spec.Unschedulable {
		t.Errorf("judged is %s", f.Node)
	}
}
