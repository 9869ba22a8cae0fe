package nodepatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/internal/patch/plan"
	"github.com/kamino-dev/kamino/internal/testing/apitest/inmemory"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const nodeName = "node-1"

var levels = []string{patch.Level(nil), patch.Level([]patch.Installed{{Name: "openssl", Version: "2"}})}

// bootID is the ID of a boot of the node.
func bootID(n int) string { return fmt.Sprintf("6d4f8b6e-0000-4000-8000-%012d", n) }

// testEnv is a cluster with one reserved node. The test plays the pod and the host.
type testEnv struct {
	*testing.T
	now    time.Time
	kube   *fake.Clientset
	orders client.Client // of the test
	task   Task
	record Record
	p      *Patcher

	// report is the answer of the host; nil never answers. boots counts the boots, and installs the runs of the unit.
	report          *patch.Report
	boots, installs int
	// dead: the node does not come back. unhealthy is the answer of Patcher.Unhealthy.
	dead      bool
	unhealthy string
	// forged replaces the key of the signature.
	forged bool

	// schedule decides about the writes of the Patcher.
	schedule *memory.Schedule
	// between is called after each pass.
	between func(pass int)
	did     []string
	served  bool // the node was in service under the last boot
	pods    int
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	s := &testEnv{T: t, now: time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC), schedule: memory.NewSchedule(nil), boots: 1}
	s.report = &patch.Report{
		Method: patch.Patch, Token: bootID(1), Manager: patch.APT, Before: levels[0], After: levels[1], Health: patch.Healthy,
		Installed: []patch.Change{{Name: "openssl", From: "1", To: "2"}}, Repositories: []patch.Repository{{ID: "main", Read: true}},
		Reboot: patch.RebootNeed{Need: patch.NotNeeded},
	}
	clock := func() time.Time { return s.now }
	server := inmemory.New(clock)
	s.orders = server.Client(nil)
	s.kube = fake.NewClientset()
	s.kube.PrependReactor("list", "pods", s.podsOfNode)
	s.kube.PrependReactor("create", "pods", s.createPod)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "node-uid", Annotations: map[string]string{}}}
	n.Status.NodeInfo.BootID = bootID(1)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	s.must(s.kube.Tracker().Add(n))
	yes := true
	app := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "default",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app", UID: "rs", Controller: &yes}}}}
	app.Spec.NodeName, app.Status.Phase = nodeName, corev1.PodRunning
	s.must(s.kube.Tracker().Add(app))
	s.task = Task{
		Holder: v1alpha1.Holder{Name: "pool1-2026.03.14", UID: "holder"}, Node: nodeName, NodeUID: "node-uid",
		Patches: v1alpha1.OrderPatches{Patches: v1alpha1.PatchSecurity, Hold: patch.DefaultHold()},
		Limits:  Limits{Patch: 30 * time.Minute, Reboot: 15 * time.Minute, Soak: time.Hour, SoakTimeout: 3 * time.Hour},
	}
	s.task.Drain.Timeout.Duration = 15 * time.Minute
	reservations := node.Reservations{Kube: s.kube, Namespace: "kamino-system", Now: clock}
	_, err := reservations.Reserve(t.Context(), n, node.NewReservation(s.task.Holder, n, "", metav1.NewTime(s.now)))
	s.must(err)
	s.kube.PrependReactor("*", "*", s.lose)
	s.p = &Patcher{
		Client: server.Client(s.loseOrder), Kube: s.kube, Reservations: reservations, Namespace: "kamino-generalize", Image: "kamino:test", Now: clock,
		Unhealthy: func(context.Context, string) (string, error) { return s.unhealthy, nil },
	}
	return s
}

func (s *testEnv) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// pass makes a pass of a process. A lost write is an error, or ends the process.
func (s *testEnv) pass(do func() error) {
	s.Helper()
	var err error
	if memory.RunUntilCrash(func() { err = do() }); err != nil && !cloud.Is(err, cloud.Unavailable) {
		s.Fatal(err)
	}
}

// lose gives a write of the Patcher the fate of the schedule. The test itself writes to the tracker.
func (s *testEnv) lose(a kubetesting.Action) (handled bool, made runtime.Object, err error) {
	if a.GetVerb() == "get" || a.GetVerb() == "list" {
		return false, nil, nil
	}
	outcome := s.schedule.Next(a.GetVerb() + " " + a.GetResource().Resource)
	if outcome == memory.Pass() {
		return false, nil, nil
	}
	return true, nil, outcome.Apply(func() error {
		if _, err := s.apply(a); err != nil {
			s.Fatal(err)
		}
		return nil
	})
}

// apply does the effect of a write.
func (s *testEnv) apply(a kubetesting.Action) (runtime.Object, error) {
	if handled, result, err := s.createPod(a); handled {
		return result, err
	}
	_, result, err := kubetesting.ObjectReaction(s.kube.Tracker())(a)
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return result, err
}

func (s *testEnv) loseOrder(c inmemory.Call, effect func() error) error {
	if c.Verb == "get" {
		return effect()
	}
	return s.schedule.Next(c.Verb + " nodeorders").Apply(effect)
}

// Save implements Store.
func (s *testEnv) Save(_ context.Context, r Record) error {
	text, err := json.Marshal(r)
	s.must(err)
	return s.schedule.Next("save").Apply(func() error {
		s.record = Record{}
		return json.Unmarshal(text, &s.record)
	})
}

func (s *testEnv) podsOfNode(a kubetesting.Action) (bool, runtime.Object, error) {
	_, result, err := kubetesting.ObjectReaction(s.kube.Tracker())(a)
	if list, ok := result.(*corev1.PodList); ok {
		name, asked := a.(kubetesting.ListAction).GetListRestrictions().Fields.RequiresExactMatch("spec.nodeName")
		list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return asked && p.Spec.NodeName != name })
	}
	return true, result, err
}

// createPod evicts a pod, or gives a new pod its UID.
func (s *testEnv) createPod(a kubetesting.Action) (bool, runtime.Object, error) {
	create, is := a.(kubetesting.CreateAction)
	if !is || a.GetResource().Resource != "pods" {
		return false, nil, nil
	}
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	if eviction, is := create.GetObject().(*policyv1.Eviction); is {
		return true, nil, s.kube.Tracker().Delete(resource, a.GetNamespace(), eviction.Name)
	}
	pod := create.GetObject().(*corev1.Pod).DeepCopy()
	s.pods++
	pod.UID = types.UID(fmt.Sprint("pod-", s.pods))
	return true, pod, s.kube.Tracker().Create(resource, pod, a.GetNamespace())
}

func (s *testEnv) node() *corev1.Node {
	s.Helper()
	object, err := s.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", nodeName)
	s.must(err)
	return object.(*corev1.Node).DeepCopy()
}

func (s *testEnv) change(change func(*corev1.Node)) {
	s.Helper()
	n := s.node()
	change(n)
	s.must(s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
}

// pod is the pod of the order; nil without a pod.
func (s *testEnv) pod() *corev1.Pod {
	s.Helper()
	object, err := s.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), s.p.Namespace, podName(s.task))
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must(err)
	return object.(*corev1.Pod).DeepCopy()
}

func (s *testEnv) setPod(pod *corev1.Pod) {
	s.Helper()
	s.must(s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace))
}

func (s *testEnv) order() *v1alpha1.NodeOrder {
	s.Helper()
	order := &v1alpha1.NodeOrder{}
	err := s.orders.Get(s.Context(), client.ObjectKey{Namespace: s.p.Namespace, Name: podName(s.task)}, order)
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must(err)
	return order
}

// host plays the pod and the host for a minute.
func (s *testEnv) host() {
	s.Helper()
	s.now = s.now.Add(time.Minute)
	n, pod, order := s.node(), s.pod(), s.order()
	if s.boots > 1 && !s.dead && n.Status.NodeInfo.BootID != bootID(s.boots) {
		s.change(func(n *corev1.Node) {
			n.Status.NodeInfo.BootID, n.Status.Conditions[0].Status = bootID(s.boots), corev1.ConditionTrue
		})
		if pod != nil { // the pod died with its boot
			pod.Status.Phase = corev1.PodFailed
			s.setPod(pod)
		}
	}
	s.served = s.served || s.boots > 1 && !n.Spec.Unschedulable && n.Status.NodeInfo.BootID == bootID(s.boots)
	if pod == nil || order == nil || pod.Status.Phase != "" || pod.Annotations[v1alpha1.OrderAnnotation] != string(order.UID) || order.Spec.Token != bootID(s.boots) {
		return
	}
	if order.Spec.Method == v1alpha1.OrderReboot {
		s.reboot()
		return
	}
	if s.report == nil {
		return
	}
	if s.installs == 0 { // a second pod finds the unit
		s.installs++
	}
	s.sign(order, pod)
}

func (s *testEnv) reboot() {
	s.Helper()
	s.boots++
	s.change(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
}

// sign writes the report of the pod.
func (s *testEnv) sign(order *v1alpha1.NodeOrder, pod *corev1.Pod) {
	s.Helper()
	object, err := s.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("secrets"), order.Namespace, order.Name)
	if apierrors.IsNotFound(err) {
		return
	}
	s.must(err)
	text := object.(*corev1.Secret).Data[node.SecretKey]
	if s.forged {
		text, _, err = v1alpha1.NewOrderKey()
		s.must(err)
	}
	key, _, err := v1alpha1.OrderKey(text)
	s.must(err)
	encoded, err := s.report.Encode()
	s.must(err)
	status, err := (&v1alpha1.Report{Order: order.UID, Pod: pod.UID, Patch: encoded}).Sign(key)
	s.must(err)
	before := order.DeepCopy()
	order.Status = status
	s.must(s.orders.Status().Patch(s.Context(), order, client.MergeFrom(before)))
}

// run makes passes to the end.
func (s *testEnv) run() {
	s.Helper()
	for pass := range 600 {
		var got Pass
		s.pass(func() (err error) {
			got, err = s.p.Pass(s.Context(), s.task, s.record, s)
			return err
		})
		if message := got.Decision.String(); message != "" && (len(s.did) == 0 || s.did[len(s.did)-1] != message) {
			s.did = append(s.did, message)
		}
		if got.Done {
			return
		}
		s.host()
		if s.between != nil {
			s.between(pass)
		}
	}
	s.Fatalf("the patch does not end: %v", s.did)
}

// wantEnd checks the end of a patch: failure, annotations, and nothing left behind.
func (s *testEnv) wantEnd(failure plan.Reason, marks map[string]string) {
	s.Helper()
	if s.record.Failure != string(failure) {
		s.Errorf("the failure is %q, want %q: %v", s.record.Failure, failure, s.did)
	}
	if s.pod() != nil || s.order() != nil {
		s.Error("the pod or the order is left")
	}
	if _, err := s.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("secrets"), s.p.Namespace, podName(s.task)); !apierrors.IsNotFound(err) {
		s.Errorf("the key is left: %v", err)
	}
	n := s.node()
	for _, key := range []string{v1alpha1.PatchedAtAnnotation, v1alpha1.PatchLevelAnnotation, v1alpha1.RebootPendingAnnotation,
		v1alpha1.PatchFailedAnnotation} {
		value, found := n.Annotations[key]
		if want, wanted := marks[key]; found != wanted || wanted && want != "*" && value != want {
			s.Errorf("annotation %s is %q, want %q", key, value, want)
		}
	}
}
