package capture

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	kubetesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/apitest/inmemory"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const (
	donorName = "donor"
	// ourspace is the engine's namespace, podspace that of the generalize pods.
	ourspace = v1alpha1.DefaultNamespace
	podspace = v1alpha1.DefaultGeneralizeNamespace
)

// ourCluster is the ID of the engine's cluster.
const ourCluster = "our-cluster"

// ours are the tags of a thing of the engine's cluster, whose Prototype is gone.
func ours() map[string]string { return map[string]string{cloud.TagCluster: ourCluster} }

func (s *testEnv) id(context.Context) (string, error) { return ourCluster, nil }

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// testEnv is the environment of an engine: a cloud and an API server in memory, and kubelets that the test moves. Each
// call of the engine can be lost.
type testEnv struct {
	t     testing.TB
	clock *memory.Clock
	cloud *memory.Cloud
	pool  cloud.PoolID
	donor cloud.InstanceID
	peer  cloud.InstanceID

	kube    *fake.Clientset
	objects kubetesting.ObjectTracker
	clean   client.Client // not subject to faults: the world's own hand
	faulty  client.Client
	wrapped cloud.Provider

	// lose decides the fate of the engine's n-th call (from 0), by its name.
	lose  func(n int, what string) memory.Outcome
	calls []string

	// blocked is for how many evictions a budget says no.
	blocked int
	// admits is the API server's answer to dry runs of a pod; denies is the number of refused creations for lack of
	// permission.
	admits error
	// mayTry is the API server's answer to the dry run of a patch, and mayMark to a patch of another Node than the donor.
	mayTry, mayMark error
	denies          int
	// lacks are the permissions, as "verb resource", that the API server denies to all accounts.
	lacks []string
	// finds is the obstacle that the disk inspection reports; blind stops the kubelet from running the inspection.
	finds *corev1.PodStatus
	// summary is the result of the inspection of another node.
	summary *corev1.PodStatus
	blind   bool
	// hung: the donor's kubelet does not come up again. deaf: the kubelet does not run the pod. lingering: the donor
	// does not power off after its proof.
	hung, deaf, lingering bool
	// uids numbers what API servers number.
	uids int
	// unscheduled and protected are how the donor was before.
	cordoned, protected bool
	// apart: the recipes are objects apart from the disks' cloud, of another implementation.
	apart bool
	// owner writes the pool's recipe.
	owner string
	// instant: a snapshot is taken as soon as it is asked for, and complete only when the donor could be back.
	instant bool
	// holdless pools have no automatic scale-in, and so no protection.
	holdless bool
	// contents is the list that the pod reports; empty without a list.
	contents string
	// lineage is the version that the pool's instances were built from; empty for a generic image.
	lineage string
	// unreadable are the parts of the bootstrap that the cloud never returns.
	unreadable []string
	// lonely keeps the kubelets of the pool's new instances from joining; tidy has the cluster delete the Nodes of instances
	// that are gone.
	lonely, tidy bool
	// tryout observes trial nodes; nil without a TrialObserver.
	tryout TrialObserver
	// settings of the capture, if unusual.
	settings   func(*v1alpha1.Prototype)
	wipeStatus bool // lose the status at every restart
	// podNamespace of the engine; empty for its default.
	podNamespace string
	engine       *Engine
	name         string
	restarts     int
	// patches plays the host of a pioneer; nil without a pioneer.
	patches *patchHost
	// donorNode is the name of the donor's Node, and first the instance of the Node donorName. They differ once a pool has grown
	// by its donor.
	donorNode string
	first     cloud.InstanceID
	// onRestart is called with each new process.
	onRestart func()
}

type option func(*testEnv)

func newTestEnv(t testing.TB, options ...option) *testEnv {
	t.Helper()
	s := &testEnv{t: t, clock: memory.NewClock(noon)}
	for _, o := range options {
		o(s)
	}
	copying := 6 * time.Second
	if s.instant {
		copying = 3 * time.Minute
	}
	s.cloud = memory.New(memory.Config{Now: s.clock.Now, NoHold: s.holdless, Apart: s.apart, Instant: s.instant, Latency: memory.Latency{
		Stop: 10 * time.Second, GuestOff: 3 * time.Second, Start: 20 * time.Second, Snapshot: copying,
		Image: 20 * time.Second, Delete: 5 * time.Second,
	}})
	s.pool = s.cloud.AddPool(
		memory.PoolSpec{
			Name:       "pool1",
			MaxSize:    10,
			Bootstrap:  []string{"customData", "vmssCSE"},
			Extensions: []string{"billing"},
			Owner:      s.owner,
			Unreadable: s.unreadable,
		},
	)
	if s.lineage != "" {
		s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: s.lineage, Tags: ours()})
		s.cloud.ChangeRecipe(s.pool, string(s.pool)+"/versions/"+s.lineage, "customData", "vmssCSE")
	}
	s.donor = s.cloud.AddInstance(s.pool, "0")
	s.peer, s.first, s.donorNode = s.cloud.AddInstance(s.pool, "1"), s.donor, donorName
	if s.protected {
		s.must(s.cloud.ProtectFromScaleIn(t.Context(), s.donor, cloud.TokenUnprotected))
	}
	s.buildCluster(s.peer)
	provider := memory.NewFaulty(s.cloud, func(c memory.Call) memory.Outcome { return s.next(c.Op + " " + c.Resource) })
	s.wrapped = provider.Provider
	s.restart()
	return s
}

func (s *testEnv) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// next numbers a call and returns its fate. An instance may be removed only after the copy of its disk, or after a
// failure or deletion.
func (s *testEnv) next(what string) memory.Outcome {
	if strings.HasPrefix(what, "EnsureRemoved ") {
		s.mayRemove()
	}
	n := len(s.calls)
	s.calls = append(s.calls, what)
	if s.lose == nil {
		return memory.Pass()
	}
	return s.lose(n, what)
}

func (s *testEnv) buildCluster(peer cloud.InstanceID) {
	donor := s.node(donorName, s.donor)
	donor.Spec.Unschedulable = s.cordoned
	objects := []runtime.Object{
		donor, s.node("peer", peer),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.GeneralizeServiceAccount, Namespace: podspace}},
	}
	for i := range 3 {
		objects = append(objects, appPod(fmt.Sprintf("app-%d", i)))
	}
	// fake.NewClientset also keeps field managers, at a cost of a quarter of the suite's time.
	s.kube, s.objects = &fake.Clientset{}, kubetesting.NewObjectTracker(kubescheme.Scheme, kubescheme.Codecs.UniversalDecoder())
	for _, o := range objects {
		s.must(s.objects.Add(o))
	}
	s.kube.AddReactor("*", "*", s.react)
	server := inmemory.New(s.clock.Now)
	s.clean = server.Client(nil)
	s.faulty = server.Client(func(call inmemory.Call, effect func() error) error { return outcome(s.next(call.String()), effect) })
}

func (s *testEnv) node(name string, id cloud.InstanceID) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("node-" + name), Labels: map[string]string{corev1.LabelOSStable: "linux"},
		Annotations: map[string]string{"theirs": "stays", v1alpha1.DoNotDisruptAnnotation: "false"},
	}}
	if s.apart {
		n.Annotations[memory.PoolAnnotation] = "pool1"
	}
	n.Spec.ProviderID = string(id)
	n.Status.NodeInfo.BootID = s.cloud.BootID(id)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func appPod(name string) *corev1.Pod {
	yes := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app", UID: "rs", Controller: &yes}}}}
	pod.Spec.NodeName = donorName
	pod.Status.Phase = corev1.PodRunning
	return pod
}

// restart is a new process: a new engine that knows nothing.
func (s *testEnv) restart() {
	s.engine = &Engine{
		PodNamespace:  s.podNamespace,
		Client:        s.faulty,
		Kube:          s.kube,
		Cloud:         cloud.InCluster(s.wrapped, s.id),
		Image:         "kamino:test",
		Now:           s.clock.Now,
		Log:           logr.Discard(),
		TrialObserver: s.tryout,
	}
	if s.onRestart != nil {
		s.onRestart()
	}
	if s.restarts++; s.restarts > 1 && s.wipeStatus {
		p := s.prototype()
		if p != nil && !p.Status.Terminal() {
			p.Status = v1alpha1.PrototypeStatus{}
			s.must(s.clean.Status().Update(context.Background(), p))
		}
	}
}

// outcome carries a fault out around an effect on the API server.
func outcome(o memory.Outcome, effect func() error) error {
	if o.After || o.Err == nil && !o.Crash {
		if err := effect(); err != nil {
			return err
		}
	}
	if o.Crash {
		panic(memory.Crash)
	}
	if o.Err != nil {
		return apierrors.NewInternalError(o.Err)
	}
	return nil
}

// react loses calls of the clientset, and does what a real API server does and the fake one does not:
// field selectors and evictions.
func (s *testEnv) react(action kubetesting.Action) (bool, runtime.Object, error) {
	var result runtime.Object
	what := fmt.Sprintf("%s %s/%s", action.GetVerb(), action.GetResource().Resource, action.GetSubresource())
	err := outcome(s.next(what), func() error {
		var err error
		result, err = s.effect(action)
		return err
	})
	return true, result, err
}

func (s *testEnv) effect(action kubetesting.Action) (runtime.Object, error) {
	if action.GetSubresource() == "eviction" {
		return nil, s.evicted(action.(kubetesting.CreateAction))
	}
	if create, ok := action.(kubetesting.CreateActionImpl); ok && action.GetResource().Group == authorizationv1.GroupName {
		return s.reviewed(create.GetObject()), nil
	}
	if create, ok := action.(kubetesting.CreateActionImpl); ok && len(create.CreateOptions.DryRun) > 0 {
		return create.GetObject(), s.admits
	} else if ok && create.Resource.Resource == "pods" && create.Subresource == "" && s.denies > 0 {
		s.denies--
		return nil, forbidden(`User "engine" cannot create resource "pods"`)
	}
	if create, ok := action.(kubetesting.CreateActionImpl); ok {
		create.GetObject().(metav1.Object).SetUID(s.uid())
	}
	if patch, ok := action.(kubetesting.PatchActionImpl); ok && len(patch.PatchOptions.DryRun) > 0 {
		return s.tracked("nodes", "", patch.Name), s.mayTry
	} else if ok && patch.Resource.Resource == "nodes" && patch.Name != donorName && s.mayMark != nil {
		return nil, s.mayMark
	}
	if err := s.precondition(action); err != nil {
		return nil, err
	}
	_, result, err := kubetesting.ObjectReaction(s.objects)(action)
	if list, ok := result.(*corev1.PodList); ok {
		fields := action.(kubetesting.ListAction).GetListRestrictions().Fields
		list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
			node, asked := fields.RequiresExactMatch("spec.nodeName")
			return asked && p.Spec.NodeName != node
		})
	}
	return result, err
}

// precondition is the API server's check of a deletion with a UID.
func (s *testEnv) precondition(action kubetesting.Action) error {
	deletion, is := action.(kubetesting.DeleteActionImpl)
	if !is || deletion.DeleteOptions.Preconditions == nil || deletion.DeleteOptions.Preconditions.UID == nil {
		return nil
	}
	object, err := s.objects.Get(action.GetResource(), action.GetNamespace(), deletion.Name)
	if err != nil {
		return err
	}
	if uid := object.(metav1.Object).GetUID(); uid != *deletion.DeleteOptions.Preconditions.UID {
		return apierrors.NewConflict(action.GetResource().GroupResource(), deletion.Name, fmt.Errorf("the UID is %s", uid))
	}
	return nil
}

// reviewed answers who asks for rights.
func (s *testEnv) reviewed(object runtime.Object) runtime.Object {
	may := func(a *authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: !slices.Contains(s.lacks, strings.TrimSuffix(a.Verb+" "+a.Resource+"/"+a.Subresource, "/"))}
	}
	switch review := object.DeepCopyObject().(type) {
	case *authorizationv1.LocalSubjectAccessReview:
		review.Status = may(review.Spec.ResourceAttributes)
		return review
	case *authorizationv1.SelfSubjectAccessReview:
		review.Status = may(review.Spec.ResourceAttributes)
		return review
	}
	return object
}

func (s *testEnv) evicted(action kubetesting.CreateAction) error {
	if s.blocked > 0 {
		s.blocked--
		err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{
			{Type: "DisruptionBudget", Message: "The disruption budget app needs 3 healthy pods and has 3 currently"},
		}
		return err
	}
	if options := action.GetObject().(*policyv1.Eviction).DeleteOptions; options != nil && len(options.DryRun) > 0 {
		return nil
	}
	name := action.GetObject().(metav1.Object).GetName()
	return s.objects.Delete(corev1.SchemeGroupVersion.WithResource("pods"), action.GetNamespace(), name)
}

var uids atomic.Int64

// decide writes the Prototype, as a person would.
func (s *testEnv) decide(change ...func(*v1alpha1.Prototype)) *testEnv {
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{
		Name: "pool1-2026.03.14", UID: types.UID(fmt.Sprintf("uid-%d", uids.Add(1))), CreationTimestamp: metav1.NewTime(s.clock.Now()),
	}}
	p.Spec = v1alpha1.PrototypeSpec{
		Pool:    "pool1",
		PoolID:  string(s.pool),
		Version: "2026.03.14",
		Donor:   v1alpha1.Donor{NodeName: donorName, ProviderID: string(s.donor)},
	}
	for _, c := range change {
		c(p)
	}
	if s.settings != nil {
		s.settings(p)
	}
	p.Spec.Settings = p.Spec.Settings.Defaulted()
	s.name = p.Name
	s.must(s.clean.Create(s.t.Context(), p))
	return s
}

// prototype is the current Prototype; nil if deleted.
func (s *testEnv) prototype() *v1alpha1.Prototype {
	p := &v1alpha1.Prototype{}
	err := s.clean.Get(context.Background(), client.ObjectKey{Name: s.name}, p)
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must(err)
	return p
}

// each tick of the world after a pass: time goes on, kubelets notice, the generalize pod runs.
func (s *testEnv) tick(d time.Duration) {
	s.clock.Advance(d)
	s.cloud.Settle()
	s.followDonor()
	s.runPod()
	s.runPatch()
	s.runKubelet()
	s.runOthers()
}

func (s *testEnv) tracked(resource, namespace, name string) runtime.Object {
	object, err := s.objects.Get(corev1.SchemeGroupVersion.WithResource(resource), namespace, name)
	if err != nil {
		return nil
	}
	return object.DeepCopyObject()
}

// followDonor makes the node by which the pool has grown the donor.
func (s *testEnv) followDonor() {
	if p := s.prototype(); p != nil && p.Spec.AddsDonor() && !p.Spec.AwaitsDonor() {
		s.donorNode, s.donor = p.Spec.Donor.NodeName, cloud.InstanceID(p.Spec.Donor.ProviderID)
	}
}

// runKubelet lets the donor's kubelet speak: Ready under the boot that runs, or nothing heard.
func (s *testEnv) runKubelet() {
	n, _ := s.tracked("nodes", "", s.donorNode).(*corev1.Node)
	machine := s.cloud.World().Instance(s.donor)
	if machine.ID == "" {
		s.runNone(n)
		return
	}
	running := machine.Power == cloud.PowerRunning && (machine.Boots == 1 || !s.hung)
	if n == nil {
		if running && machine.Boots > 1 {
			fresh := s.node(s.donorNode, s.donor)
			fresh.Annotations, fresh.UID = nil, "node-made-again"
			s.must(s.objects.Create(corev1.SchemeGroupVersion.WithResource("nodes"), fresh, ""))
		}
		return
	}
	before := n.DeepCopy()
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	if running {
		n.Status.Conditions[0].Status, n.Status.NodeInfo.BootID = corev1.ConditionTrue, machine.BootID
	}
	if !equality.Semantic.DeepEqual(before.Status, n.Status) {
		s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
	}
}

// runNone handles a Node without an instance: the kubelet is silent, and a controller of the cloud may delete the Node.
func (s *testEnv) runNone(n *corev1.Node) {
	switch {
	case n == nil:
	case s.tidy:
		s.must(s.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", n.Name))
	case n.Status.Conditions[0].Status != corev1.ConditionUnknown:
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
		s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
	}
}

// runOthers lets the pool's new instances join, each with its own Node.
func (s *testEnv) runOthers() {
	if s.lonely {
		return
	}
	for _, m := range s.cloud.World().Instances {
		name := "node-" + string(m.ID[strings.LastIndex(string(m.ID), "/")+1:])
		if m.ID == s.donor || m.ID == s.peer || m.ID == s.first || m.Power != cloud.PowerRunning || s.tracked("nodes", "", name) != nil {
			continue
		}
		n := s.node(name, m.ID)
		n.Annotations, n.CreationTimestamp = nil, metav1.NewTime(s.clock.Now())
		s.must(s.objects.Create(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
	}
}

// runPod does what the real generalize pod does, guards included.
func (s *testEnv) runPod() {
	pod, order := s.generalizePod(), s.order()
	s.runLook(pod)
	machine := s.cloud.World().Instance(s.donor)
	if pod == nil || order == nil || s.deaf || machine.Power != cloud.PowerRunning || s.tracked("secrets", order.Namespace, s.podName()) == nil {
		return
	}
	if order.Status.Report != "" || order.Spec.Token != machine.BootID || pod.Annotations[v1alpha1.OrderAnnotation] != string(order.UID) {
		return
	}
	s.cloud.MarkGeneralized(s.donor)
	s.signReport(order, pod, v1alpha1.Report{Proof: s.proofFor(order), Contents: s.contents})
	if !s.lingering {
		s.cloud.GuestPowerOff(s.donor)
	}
}

// runLook runs the inspecting pod.
func (s *testEnv) runLook(pod *corev1.Pod) {
	if pod == nil || pod.Labels["app.kubernetes.io/component"] != inspectionContainer || pod.Status.Phase != "" || s.blind ||
		s.cloud.World().Instance(s.donor).Power != cloud.PowerRunning {
		return
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded}
	switch onPeer := pod.Spec.NodeName != s.donorNode; {
	case onPeer && s.summary != nil:
		pod.Status = *s.summary
	case !onPeer && s.finds != nil:
		pod.Status = *s.finds
	}
	s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace))
}

func (s *testEnv) proofFor(order *v1alpha1.NodeOrder) *v1alpha1.Proof {
	digest := ""
	if s.contents != "" {
		digest = v1alpha1.ContentsDigest(s.contents)
	}
	level := ""
	if s.patches != nil {
		level = s.patches.level
	}
	return &v1alpha1.Proof{
		PatchLevel:     level,
		ContentsDigest: digest,
		UID:            order.Spec.Holder.UID,
		Order:          order.UID,
		BootID:         order.Spec.Token,
		Profile:        order.Spec.Generalize.Profile,
		ProfileVersion: "1",
		Rules:          7,
		Met:            7,
		Changed:        3,
		Search:         &v1alpha1.Search{Files: 200, Bytes: 4096, Identities: 2, Kept: 1},
		ManifestDigest: "sha256:0",
		At:             metav1.NewTime(s.clock.Now()),
	}
}

// signReport has the pod sign a report, with the key that lies in the order's Secret.
func (s *testEnv) signReport(order *v1alpha1.NodeOrder, pod *corev1.Pod, report v1alpha1.Report) {
	secret := s.tracked("secrets", order.Namespace, order.Name).(*corev1.Secret)
	key, public, err := v1alpha1.OrderKey(secret.Data[orderKey])
	s.must(err)
	if public != order.Spec.Key {
		s.t.Errorf("the key of order %s is not the one that it names", order.Name)
	}
	report.Order, report.Pod = order.UID, pod.UID
	order.Status, err = report.Sign(key)
	s.must(err)
	s.must(s.clean.Status().Update(context.Background(), order))
}

// generalizePod is the pod on the donor, in whichever namespace; nil if there is none.
func (s *testEnv) generalizePod() *corev1.Pod {
	for _, namespace := range []string{podspace, ourspace} {
		if pod, there := s.tracked("pods", namespace, s.podName()).(*corev1.Pod); there {
			return pod
		}
	}
	return nil
}

// order of the pod, in whichever namespace; nil if there is none.
func (s *testEnv) order() *v1alpha1.NodeOrder {
	for _, namespace := range []string{podspace, ourspace} {
		o := &v1alpha1.NodeOrder{}
		err := s.clean.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: s.podName()}, o)
		if apierrors.IsNotFound(err) {
			continue
		}
		s.must(err)
		return o
	}
	return nil
}

func (s *testEnv) uid() types.UID {
	s.uids++
	return types.UID(fmt.Sprintf("uid-%d", s.uids))
}

func (s *testEnv) text(value any) string {
	text, err := json.Marshal(value)
	s.must(err)
	return string(text)
}

// play drives the capture to its end, restarting after each crash, and holds the invariants on the way.
func (s *testEnv) play(between ...func(pass int)) *v1alpha1.Prototype {
	s.t.Helper()
	for pass := range 600 {
		var result Result
		if memory.RunUntilCrash(func() { result, _ = s.engine.Pass(context.Background(), s.name) }) {
			s.restart()
		}
		if broken := s.cloud.World().Broken(); len(broken) > 0 {
			s.t.Fatalf("after pass %d: %v", pass, broken)
		}
		if result.Done {
			return s.prototype()
		}
		s.tick(max(result.After, 4*time.Second))
		for _, b := range between {
			b(pass)
		}
	}
	s.t.Fatalf("the capture does not end: %+v\nlast calls: %v", s.prototype(), s.calls[max(0, len(s.calls)-20):])
	return nil
}
