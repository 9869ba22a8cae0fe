package week

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	kubetesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/contents"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/testing/apitest/inmemory"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

var start = time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC)

const policyName = "all"

// machine is the machine of a node.
type machine struct {
	pool    string
	id      cloud.InstanceID
	disk    int  // the patch level on its disk
	active  int  // the patch level of its last boot
	pending bool // a reboot will activate the patch on the disk
}

type weekEnv struct {
	t      *testing.T
	random *rand.Rand
	clock  *memory.Clock
	cloud  *memory.Cloud
	pools  []cloud.PoolID

	kube     *fake.Clientset
	tracker  kubetesting.ObjectTracker
	clean    client.Client // the world's own hand: never fails
	api      client.Client // the controller's
	nodes    *nodecache.Nodes
	engine   *capture.Engine
	decider  *policy.Decider
	machines map[string]*machine
	// levels are the patches of versions, by levelKey.
	levels map[string]int
	// inUse has the versions of a pool's nodes when its last capture retired versions.
	inUse    map[cloud.PoolID]map[string]bool
	retiring map[cloud.PoolID]string
	// foundOut has the Prototypes whose versions fail their trials. nextIsBad adds the next Prototype.
	foundOut  map[string]bool
	nextIsBad bool
	shortages int
	// contents is the list of a disk with a patch level. joinDelay is the time from the first boot to the Node, and neverJoins
	// decides about machines without a Node. recorded is called for each state of the world. All may be nil.
	contents   func(level int) contents.Contents
	joinDelay  func(m memory.InstanceView) time.Duration
	neverJoins func(m memory.InstanceView) bool
	recorded   func()

	seed       uint64
	mu         sync.Mutex // guards the counts against calls at the same time
	draws      map[string]int
	released   int
	donorsGone map[cloud.PoolID]int
	// killedAtRelease counts the killings between a release of a donor and its report.
	killedAtRelease    map[cloud.PoolID]int
	nextDecision       time.Time
	isChanged, isQuiet bool
	vanishNext         bool
	uids, called, lost int
	killed, vanished   int
}

func levelKey(pool cloud.PoolID, version string) string { return string(pool) + " " + version }

func newWeekEnv(t *testing.T, seed uint64) *weekEnv {
	w := &weekEnv{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 7)), draws: map[string]int{}, clock: memory.NewClock(start),
		machines: map[string]*machine{}, levels: map[string]int{},
		inUse: map[cloud.PoolID]map[string]bool{}, retiring: map[cloud.PoolID]string{}, foundOut: map[string]bool{}, donorsGone: map[cloud.PoolID]int{},
		killedAtRelease: map[cloud.PoolID]int{},
		// fake.NewClientset also tracks field owners, at half of the time.
		kube: &fake.Clientset{}, tracker: kubetesting.NewObjectTracker(kubescheme.Scheme, kubescheme.Codecs.UniversalDecoder()),
	}
	w.cloud = memory.New(memory.Config{Now: w.clock.Now, NoCopy: true, Latency: memory.Latency{
		Stop: 20 * time.Second, GuestOff: 10 * time.Second, Start: time.Minute, Snapshot: 30 * time.Second, Image: 10 * time.Minute, Delete: 20 * time.Second,
	}})
	w.kube.AddReactor("*", "*", w.react)
	w.must(w.tracker.Add(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.GeneralizeServiceAccount,
		Namespace: v1alpha1.DefaultGeneralizeNamespace}}))
	server := inmemory.New(w.clock.Now)
	w.clean, w.api = server.Client(nil), server.Client(w.disturbed)
	w.nodes = nodecache.NewNodes(w.cloud)
	for i := range pools {
		id := w.cloud.AddPool(memory.PoolSpec{Name: fmt.Sprintf("pool%d", i), MaxSize: 30, Bootstrap: []string{"customData", "vmssCSE"}})
		w.pools = append(w.pools, id)
		for n := range 6 {
			w.cloud.AddInstance(id, fmt.Sprint(n))
		}
	}
	w.must(w.clean.Create(t.Context(), &v1alpha1.PrototypePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: policyName, UID: "policy"}, Spec: v1alpha1.PrototypePolicySpec{MaxConcurrent: atOnce},
	}))
	w.runKubelets()
	w.restart()
	return w
}

func (w *weekEnv) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// restart is a new controller without memory. A decision runs concurrent calls, so a kill happens only between decisions.
func (w *weekEnv) restart() {
	w.engine = &capture.Engine{
		Client: w.api, Kube: w.kube, Cloud: memory.NewFaulty(w.cloud, w.trouble(true)).Provider, Image: "kamino:test", MaxConcurrent: 1,
		PolicyConcurrent: func() int { return w.decider.MaxConcurrent() }, Now: w.clock.Now, Log: logr.Discard(), TrialObserver: witness{w},
	}
	provider := memory.NewFaulty(w.cloud, w.trouble(false))
	looks := policy.NewPoolCache(provider, w.clock.Now)
	looks.Intents = &policy.Intents{Kube: w.kube, Namespace: v1alpha1.DefaultNamespace}
	w.decider = &policy.Decider{
		Read: w.clean, Client: w.clean, Cloud: provider, Nodes: w.nodes, PoolCache: looks,
		Preflight: w.engine.Refusals, Now: w.clock.Now, Log: logr.Discard(),
	}
	w.nextDecision = w.clock.Now()
}

func (w *weekEnv) kill() {
	w.killed++
	prototypes := w.prototypes()
	for _, n := range w.allNodes() {
		for _, p := range prototypes {
			d := p.Status.Donor
			unreported := p.Spec.Donor.NodeName == n.Name && d != nil && d.ReservedAt != nil && d.ReleasedAt == nil
			if unreported && n.Annotations[v1alpha1.ReservationAnnotation] == "" {
				w.killedAtRelease[cloud.PoolID(p.Spec.PoolID)]++
			}
		}
	}
	w.restart()
}

// draw is the randomness of a call. The order of concurrent calls, which the seed does not decide, has no influence.
func (w *weekEnv) draw(call string) *rand.Rand {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.called++
	w.draws[call]++
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%s %d", call, w.draws[call])
	return rand.New(rand.NewPCG(w.seed, sum.Sum64()))
}

func (w *weekEnv) countLost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost++
}

// trouble loses calls to the cloud: one in fifty, before or after its effect.
func (w *weekEnv) trouble(crashes bool) func(memory.Call) memory.Outcome {
	return func(call memory.Call) memory.Outcome {
		random := w.draw(fmt.Sprintf("cloud %t %s %s", crashes, call.Op, call.Resource))
		if w.isQuiet || random.IntN(50) > 0 {
			return memory.Pass()
		}
		w.countLost()
		outcomes := []memory.Outcome{
			memory.FailBefore(cloud.Unavailable), memory.FailAfter(cloud.Unavailable), memory.Throttle(30 * time.Second),
			memory.FailBefore(cloud.Conflict), memory.CrashBefore(), memory.CrashAfter(),
		}
		if !crashes {
			outcomes = outcomes[:3]
		}
		return outcomes[random.IntN(len(outcomes))]
	}
}

// disturbed loses calls to the API server: one in a hundred.
func (w *weekEnv) disturbed(call inmemory.Call, effect func() error) error {
	if call.Verb == "list" || call.Verb == "update" {
		return effect()
	}
	random := w.draw(call.String())
	lost := !w.isQuiet && random.IntN(100) == 0
	before := lost && random.IntN(2) == 0
	if lost {
		w.countLost()
	}
	if !before {
		if err := effect(); err != nil {
			return err
		}
	}
	switch {
	case lost && random.IntN(3) == 0:
		panic(memory.Crash)
	case lost:
		return apierrors.NewInternalError(fmt.Errorf("lost"))
	}
	return nil
}

// react adds behaviour of a real API server that the fake lacks: evictions, selection of pods by node, and dry runs without
// effect.
func (w *weekEnv) react(action kubetesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() == "eviction" {
		name := action.(kubetesting.CreateAction).GetObject().(metav1.Object).GetName()
		return true, nil, w.tracker.Delete(corev1.SchemeGroupVersion.WithResource("pods"), action.GetNamespace(), name)
	}
	if create, is := action.(kubetesting.CreateActionImpl); is && create.Resource.Resource == "localsubjectaccessreviews" {
		review := create.GetObject().(*authorizationv1.LocalSubjectAccessReview)
		review.Status.Allowed = true
		return true, review, nil
	}
	if create, is := action.(kubetesting.CreateActionImpl); is && len(create.CreateOptions.DryRun) > 0 {
		return true, create.GetObject(), nil
	}
	if create, is := action.(kubetesting.CreateActionImpl); is && create.Resource.Resource == "pods" {
		create.GetObject().(metav1.Object).SetUID(w.uid())
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

// uid is set by a real API server on creation.
func (w *weekEnv) uid() types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.uids++
	return types.UID(fmt.Sprintf("uid-%d", w.uids))
}

func (w *weekEnv) prototypes() []v1alpha1.Prototype {
	list := &v1alpha1.PrototypeList{}
	w.must(w.clean.List(context.Background(), list))
	return list.Items
}

func (w *weekEnv) prototype(name string) *v1alpha1.Prototype {
	p := &v1alpha1.Prototype{}
	if err := w.clean.Get(context.Background(), client.ObjectKey{Name: name}, p); err != nil {
		return nil
	}
	return p
}

func (w *weekEnv) active() int {
	n := 0
	for _, p := range w.prototypes() {
		if !p.Status.Terminal() || len(p.Finalizers) > 0 {
			n++
		}
	}
	return n
}

func (w *weekEnv) allNodes() []corev1.Node {
	list, err := w.tracker.List(corev1.SchemeGroupVersion.WithResource("nodes"), corev1.SchemeGroupVersion.WithKind("Node"), "")
	w.must(err)
	return list.(*corev1.NodeList).Items
}

func (w *weekEnv) podsOf(namespace string) []corev1.Pod {
	list, err := w.tracker.List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), namespace)
	w.must(err)
	return list.(*corev1.PodList).Items
}

func (w *weekEnv) update(n *corev1.Node) {
	w.must(w.tracker.Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
	w.show(n)
}

// show updates a node in the controller's cache.
func (w *weekEnv) show(n *corev1.Node) {
	kept := n.DeepCopy()
	membership.Strip(kept)
	w.isChanged = w.nodes.Set(kept) || w.isChanged
}

// runKubelets runs the kubelet of each machine: a new kubelet registers, and a running kubelet is Ready.
func (w *weekEnv) runKubelets() {
	known := map[string]*corev1.Node{}
	for _, n := range w.allNodes() {
		known[n.Name] = &n
	}
	there := map[string]bool{}
	for _, m := range w.cloud.World().Instances {
		name := nodeName(m.ID)
		there[name] = true
		n := known[name]
		if n == nil && m.Power == cloud.PowerRunning && w.isJoining(m) {
			w.join(name, m)
			continue
		}
		if n == nil {
			continue
		}
		before := n.DeepCopy()
		want := corev1.ConditionUnknown
		if m.Power == cloud.PowerRunning {
			want = corev1.ConditionTrue
			if n.Status.NodeInfo.BootID != m.BootID {
				n.Status.NodeInfo.BootID = m.BootID
				ready(n).LastTransitionTime = metav1.NewTime(w.clock.Now())
				w.machines[name].active = w.machines[name].disk
			}
		}
		if ready(n).Status != want {
			ready(n).Status, ready(n).LastTransitionTime = want, metav1.NewTime(w.clock.Now())
		}
		if ready(before).Status != want || before.Status.NodeInfo.BootID != n.Status.NodeInfo.BootID {
			w.update(n)
		} else {
			w.show(n)
		}
	}
	for name := range known {
		if !there[name] {
			w.forget(name)
		}
	}
}

func nodeName(id cloud.InstanceID) string {
	return strings.ReplaceAll(strings.TrimPrefix(string(id), "memory://"), "/", "-")
}

// join is a node's first registration: the node has the patch of its image.
func (w *weekEnv) join(name string, m memory.InstanceView) {
	level := w.levels[levelKey(m.Pool, m.BuiltFrom)]
	w.machines[name] = &machine{pool: string(m.Pool), id: m.ID, disk: level, active: level}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelOSStable: "linux"},
		Annotations: map[string]string{}}}
	n.CreationTimestamp = metav1.NewTime(w.clock.Now())
	n.Spec.ProviderID, n.Status.NodeInfo.BootID = string(m.ID), m.BootID
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.clock.Now())}}
	n.Status.Images = w.imagesOf(level)
	w.must(w.tracker.Add(n))
	yes := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "app-" + name, Namespace: "default", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app", UID: "rs", Controller: &yes}}}}
	pod.Spec.NodeName, pod.Status.Phase = name, corev1.PodRunning
	w.must(w.tracker.Add(pod))
	w.show(n)
}

// runPods runs the generalize pods, guards included, and records the patch of the disk.
func (w *weekEnv) runPods() {
	pods := w.podsOf(v1alpha1.DefaultGeneralizeNamespace)
	for _, p := range w.prototypes() {
		m := w.machines[p.Spec.Donor.NodeName]
		at := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Labels[v1alpha1.PrototypeLabel] == v1alpha1.LabelValue(p.Name) })
		if m == nil || at < 0 || w.cloud.World().Instance(m.id).Power != cloud.PowerRunning {
			continue
		}
		if pod := &pods[at]; pod.Labels["app.kubernetes.io/component"] == "look" {
			pod.Status.Phase = corev1.PodSucceeded
			w.must(w.tracker.Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace))
			continue
		}
		order := &v1alpha1.NodeOrder{}
		err := w.clean.Get(context.Background(), client.ObjectKeyFromObject(&pods[at]), order)
		if _, boot := order.Spec.Under(); apierrors.IsNotFound(err) || order.Status.Report != "" || boot != w.cloud.BootID(m.id) {
			continue
		}
		w.must(err)
		w.cloud.MarkGeneralized(m.id)
		list, digest := w.encodedContents(m.disk)
		w.report(order, &pods[at], list, &v1alpha1.Proof{
			UID: p.UID, Order: order.UID, BootID: w.cloud.BootID(m.id), Profile: v1alpha1.ProfileStatic, ProfileVersion: "1", Rules: 7, Met: 7, Changed: 3,
			Search:         &v1alpha1.Search{Files: 200, Bytes: 4096, Identities: 2, Kept: 1},
			ManifestDigest: "sha256:0", ContentsDigest: digest, At: metav1.NewTime(w.clock.Now()),
		})
		pool, err := w.cloud.PoolOf(m.id)
		w.must(err)
		w.levels[levelKey(pool, p.Spec.Version)] = m.disk
		w.cloud.GuestPowerOff(m.id)
	}
}

// report signs with the key of the pod.
func (w *weekEnv) report(order *v1alpha1.NodeOrder, pod *corev1.Pod, list string, proof *v1alpha1.Proof) {
	found, err := w.tracker.Get(corev1.SchemeGroupVersion.WithResource("secrets"), order.Namespace, order.Name)
	w.must(err)
	key, _, err := v1alpha1.OrderKey(found.(*corev1.Secret).Data["key"])
	w.must(err)
	order.Status, err = (&v1alpha1.Report{Order: order.UID, Pod: pod.UID, Proof: proof, Contents: list}).Sign(key)
	w.must(err)
	w.must(w.clean.Status().Update(context.Background(), order))
}

// stagePatches plays unattended-upgrades on every node without the newest patch, and kured, which writes both annotations
// on nodes that need a reboot.
func (w *weekEnv) stagePatches() {
	for _, n := range w.allNodes() {
		m := w.machines[n.Name]
		if m.disk == w.released || n.Annotations[v1alpha1.ReservationAnnotation] != "" {
			continue
		}
		m.disk, m.pending = w.released, true
		found := w.clock.Now().Format(time.RFC3339)
		n.Annotations[v1alpha1.KuredRebootNeededAnnotation], n.Annotations[v1alpha1.KuredRebootInProgressAnnotation] = found, found
		w.update(&n)
	}
}

// rebootOneOfEachPool plays kured, which reboots one node after another, or an operator, who leaves kured's
// annotation. At the end of the day one node still waits.
func (w *weekEnv) rebootOneOfEachPool(leaveOne bool) {
	done := map[string]bool{}
	for _, n := range w.allNodes() {
		m := w.machines[n.Name]
		if !m.pending || done[m.pool] || n.Annotations[v1alpha1.ReservationAnnotation] != "" || leaveOne || !w.cloud.Reboot(m.id) {
			continue
		}
		done[m.pool], m.pending = true, false
		if w.random.IntN(6) == 0 {
			continue // by hand
		}
		delete(n.Annotations, v1alpha1.KuredRebootInProgressAnnotation)
		w.update(&n)
	}
}

// scale is an autoscaler that respects nodes with a protection.
func (w *weekEnv) scale() {
	for _, id := range w.pools {
		members := w.cloud.InstanceIDs(id)
		switch w.random.IntN(3) {
		case 0:
			if len(members) < 12 {
				w.grow(id, 1+w.random.IntN(2))
			}
		case 1:
			name := nodeName(members[w.random.IntN(len(members))])
			n, err := w.tracker.Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", name)
			if err == nil && len(members) > 5 && n.(*corev1.Node).Annotations[v1alpha1.ScaleDownDisabledAnnotation] == "" {
				w.remove(name)
			}
		}
	}
}

func (w *weekEnv) grow(id cloud.PoolID, by int) {
	pool, err := w.cloud.Pool(context.Background(), id)
	w.must(err)
	w.must(w.cloud.Scale(id, pool.Capacity+int64(by)))
}

func (w *weekEnv) newest(id cloud.PoolID) cloud.InstanceID {
	members := w.cloud.InstanceIDs(id)
	return members[len(members)-1]
}

func (w *weekEnv) remove(name string) {
	w.cloud.RemoveInstance(w.machines[name].id)
	w.forget(name)
}

// forget removes the Node of a deleted instance with its pods, as the cloud's node controller does.
func (w *weekEnv) forget(name string) {
	w.must(w.tracker.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", name))
	for _, pod := range w.podsOf("default") {
		if pod.Spec.NodeName == name {
			w.must(w.tracker.Delete(corev1.SchemeGroupVersion.WithResource("pods"), "default", pod.Name))
		}
	}
	w.nodes.Delete(name)
	w.isChanged = true
}

// goBack runs `kamino rollback` for every pool with the bad patch, and suspends the policy until the next patch is on the
// nodes.
func (w *weekEnv) goBack() {
	ctx := context.Background()
	w.suspend(true)
	for w.active() > 0 {
		w.turn(time.Minute)
	}
	for _, id := range w.pools {
		pool, err := w.cloud.Pool(ctx, id)
		w.must(err)
		if w.levels[levelKey(id, pool.Recipe.Version)] != badDay {
			w.t.Errorf("%s: pool %s points at %q with patch %d on the bad day",
				w.clock.Now(), id, pool.Recipe.Version, w.levels[levelKey(id, pool.Recipe.Version)])
			continue
		}
		images, err := w.cloud.Images(ctx, id)
		w.must(err)
		back, refusals := history.Of(history.Facts{Pool: pool, Images: images}).Rollback("", "nodes lose their network")
		if refusals != nil {
			w.t.Fatalf("rollback of %s: %v", id, refusals)
		}
		w.must(w.cloud.TagImage(ctx, cloud.ImageRef{Pool: id, Version: back.From}, back.Tags))
		change, err := w.cloud.RecipeChange(ctx, cloud.ImageRef{Pool: id, Version: back.To}, false)
		w.must(err)
		w.must(w.cloud.SetRecipe(ctx, change))
	}
}

func (w *weekEnv) suspend(on bool) {
	p := &v1alpha1.PrototypePolicy{}
	w.must(w.clean.Get(context.Background(), client.ObjectKey{Name: policyName}, p))
	p.Spec.Suspend = on
	w.must(w.clean.Update(context.Background(), p))
	w.isChanged = true
}
