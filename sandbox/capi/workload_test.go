package capi_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	kubetesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kubefake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
	"github.com/kamino-dev/kamino/internal/trial"
)

// kubelet is the version in the pool's spec.
const kubelet = "v1.37.1"

// workload is the cluster of the captured nodes: an API server in memory that loses no request, and kubelets under
// the control of the test.
type workload struct {
	t       testing.TB
	clock   *memory.Clock
	cloud   *memory.Cloud
	kube    *fake.Clientset
	tracker kubetesting.ObjectTracker
	objects client.Client
}

var (
	nodes   = corev1.SchemeGroupVersion.WithResource("nodes")
	pods    = corev1.SchemeGroupVersion.WithResource("pods")
	secrets = corev1.SchemeGroupVersion.WithResource("secrets")
)

func newWorkload(t testing.TB, clock *memory.Clock, cloud *memory.Cloud) *workload {
	w := &workload{t: t, clock: clock, cloud: cloud, kube: &fake.Clientset{}}
	w.tracker = kubetesting.NewObjectTracker(kubescheme.Scheme, kubescheme.Codecs.UniversalDecoder())
	w.kube.AddReactor("*", "*", w.react)
	w.must(w.tracker.Add(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.GeneralizeServiceAccount,
		Namespace: v1alpha1.DefaultGeneralizeNamespace}}))
	scheme := runtime.NewScheme()
	w.must(v1alpha1.AddToScheme(scheme))
	w.objects = kubefake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Prototype{}, &v1alpha1.NodeOrder{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			o.SetUID(uid())
			o.SetCreationTimestamp(metav1.NewTime(clock.Now()))
			return c.Create(ctx, o, options...)
		}}).Build()
	return w
}

func (w *workload) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

var uids atomic.Int64

// uid returns a UID like a real API server.
func uid() types.UID { return types.UID(fmt.Sprintf("uid-%d", uids.Add(1))) }

// react adds behaviour of a real API server that the fake lacks: evictions, selection of pods by node, and dry runs
// without effect. All access reviews are allowed.
func (w *workload) react(action kubetesting.Action) (bool, runtime.Object, error) {
	if create, is := action.(kubetesting.CreateActionImpl); is {
		switch o := create.GetObject().(type) {
		case *policyv1.Eviction:
			return true, nil, w.tracker.Delete(pods, action.GetNamespace(), o.Name)
		case *authorizationv1.LocalSubjectAccessReview:
			o.Status.Allowed = true
			return true, o, nil
		case *authorizationv1.SelfSubjectAccessReview:
			o.Status.Allowed = true
			return true, o, nil
		case metav1.Object:
			if len(create.CreateOptions.DryRun) > 0 {
				return true, create.GetObject(), nil
			}
			o.SetUID(uid())
		}
	}
	handled, result, err := kubetesting.ObjectReaction(w.tracker)(action)
	if list, is := result.(*corev1.PodList); is {
		fields := action.(kubetesting.ListAction).GetListRestrictions().Fields
		list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
			node, asked := fields.RequiresExactMatch("spec.nodeName")
			return asked && p.Spec.NodeName != node
		})
	}
	return handled, result, err
}

// all are the Nodes.
func (w *workload) all() []corev1.Node {
	list, err := w.tracker.List(nodes, corev1.SchemeGroupVersion.WithKind("Node"), "")
	w.must(err)
	return list.(*corev1.NodeList).Items
}

// runKubelets runs the kubelet of each machine. Cluster API deletes the Nodes of missing machines.
func (w *workload) runKubelets() {
	known := map[string]corev1.Node{}
	for _, n := range w.all() {
		known[n.Spec.ProviderID] = n
	}
	for _, m := range w.cloud.World().Instances {
		n, there := known[string(m.ID)]
		delete(known, string(m.ID))
		running := m.Power == cloud.PowerRunning
		switch {
		case !there && running:
			w.join(m)
			continue
		case !there:
			continue
		}
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
		if running {
			n.Status.Conditions[0].Status, n.Status.NodeInfo.BootID = corev1.ConditionTrue, m.BootID
		}
		w.must(w.tracker.Update(nodes, &n, ""))
	}
	for _, n := range known {
		w.must(w.tracker.Delete(nodes, "", n.Name))
	}
}

// join is the first registration of a machine, with a workload pod on its Node.
func (w *workload) join(m memory.InstanceView) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: strings.TrimPrefix(string(m.ID), string(idOf(""))), UID: uid(), CreationTimestamp: metav1.NewTime(w.clock.Now()),
		Labels: map[string]string{corev1.LabelOSStable: "linux"}, Annotations: map[string]string{cloud.MachineAnnotation: "its own"},
	}}
	n.Spec.ProviderID, n.Status.NodeInfo.BootID, n.Status.NodeInfo.KubeletVersion = string(m.ID), m.BootID, kubelet
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.clock.Now())}}
	w.must(w.tracker.Add(n))
	yes := true
	app := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "app-" + n.Name, Namespace: "default", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app", UID: "rs", Controller: &yes}}}}
	app.Spec.NodeName, app.Status.Phase = n.Name, corev1.PodRunning
	w.must(w.tracker.Add(app))
}

// ownPods are the pods in our namespace.
func (w *workload) ownPods() []corev1.Pod {
	list, err := w.tracker.List(pods, corev1.SchemeGroupVersion.WithKind("Pod"), v1alpha1.DefaultGeneralizeNamespace)
	w.must(err)
	return list.(*corev1.PodList).Items
}

// runPods runs the pods on the donor and on the workshop.
func (w *workload) runPods() {
	for _, pod := range w.ownPods() {
		if pod.Labels["app.kubernetes.io/component"] == "look" {
			pod.Status.Phase = corev1.PodSucceeded
			w.must(w.tracker.Update(pods, &pod, pod.Namespace))
			continue
		}
		order := &v1alpha1.NodeOrder{}
		err := w.objects.Get(context.Background(), client.ObjectKeyFromObject(&pod), order)
		switch {
		case apierrors.IsNotFound(err) || pod.Annotations[v1alpha1.OrderAnnotation] != string(order.UID):
			continue
		case err == nil && order.Spec.Method == v1alpha1.OrderQuiesce:
			w.quiesce(order, &pod)
		case err == nil && order.Spec.Method == v1alpha1.OrderCopy && order.Status.Report == "":
			w.clean(order, &pod)
		}
		w.must(err)
	}
}

// quiesce is the next step of the pod on the donor: the disk is quiet, then stands, and is writable again after the cloud's answer.
func (w *workload) quiesce(order *v1alpha1.NodeOrder, pod *corev1.Pod) {
	state, word := v1alpha1.MomentState(""), v1alpha1.Word(order.Annotations[v1alpha1.MomentAnnotation])
	if r, _ := v1alpha1.ReportOf(order, v1alpha1.OrderRecord{UID: order.UID, Key: order.Spec.Key, Pod: pod.UID}); r != nil {
		state = r.Moment.State
	}
	switch next := (v1alpha1.Moment{State: v1alpha1.MomentQuiet}); {
	case state == "":
		w.report(order, pod, v1alpha1.Report{Moment: &next})
	case state == v1alpha1.MomentQuiet && word == v1alpha1.WordProceed:
		next.State, next.Frozen = v1alpha1.MomentNow, true
		w.report(order, pod, v1alpha1.Report{Moment: &next})
	case state == v1alpha1.MomentNow && (word == v1alpha1.WordAccepted || word == v1alpha1.WordRefused):
		w.report(order, pod, v1alpha1.Report{Moment: &v1alpha1.Moment{State: v1alpha1.MomentOver, Frozen: true, InTime: word == v1alpha1.WordAccepted,
			FrozenFor: metav1.Duration{Duration: 150 * time.Millisecond}, MachineID: "machine", RootUUID: "root"}})
	}
}

// clean cleans an attached copy, and proves its state.
func (w *workload) clean(order *v1alpha1.NodeOrder, pod *corev1.Pod) {
	snapshot, device, _ := strings.Cut(order.Spec.Token, "@")
	if !w.cloud.CleanCopy(device) {
		return
	}
	w.report(order, pod, v1alpha1.Report{Proof: &v1alpha1.Proof{
		UID: order.Spec.Holder.UID, Order: order.UID, Profile: order.Spec.Generalize.Profile, ProfileVersion: "1", Rules: 7, Met: 7, Changed: 3,
		Search: &v1alpha1.Search{Files: 200, Bytes: 4096, Identities: 2, Kept: 1}, ManifestDigest: "sha256:0", At: metav1.NewTime(w.clock.Now()),
		Copy: &v1alpha1.CopiedDisk{Snapshot: snapshot, Device: device},
	}})
}

// report signs with the key of the pod.
func (w *workload) report(order *v1alpha1.NodeOrder, pod *corev1.Pod, report v1alpha1.Report) {
	found, err := w.tracker.Get(secrets, order.Namespace, order.Name)
	w.must(err)
	key, _, err := v1alpha1.OrderKey(found.(*corev1.Secret).Data["key"])
	w.must(err)
	report.Order, report.Pod = order.UID, pod.UID
	order.Status, err = report.Sign(key)
	w.must(err)
	w.must(w.objects.Status().Update(context.Background(), order))
}

// Check implements capture.TrialObserver.
func (w *workload) Check(context.Context, v1alpha1.Settings) ([]cloud.Refusal, error) {
	return nil, nil
}

// Observe implements capture.TrialObserver. No version is tried here.
func (w *workload) Observe(_ context.Context, subject trial.Subject) (trial.Observation, error) {
	return trial.Observation{Facts: subject.Facts}, nil
}

// Hold implements capture.TrialObserver, and cordons the Node of a workshop.
func (w *workload) Hold(_ context.Context, subject trial.Subject) (held trial.Held, err error) {
	for _, n := range w.all() {
		if !slices.ContainsFunc(subject.Instances, func(i cloud.Instance) bool { return string(i.ID) == n.Spec.ProviderID }) {
			continue
		}
		n.Spec.Unschedulable = true
		held = trial.Held{Node: &n, Ready: true, Known: []v1alpha1.TrialNodeRecord{{Instance: n.Spec.ProviderID, Node: n.Name, UID: n.UID, Cordoned: true}}}
		err = w.tracker.Update(nodes, &n, "")
	}
	return held, err
}

// Evidence implements capture.TrialObserver.
func (w *workload) Evidence(context.Context, string) string { return "" }

// Clean implements capture.TrialObserver.
func (w *workload) Clean(context.Context, trial.Subject) (left []string, err error) { return nil, nil }
