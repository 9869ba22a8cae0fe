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
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	server  *inmemory.Server
	clean   client.Client // not subject to faults: the world's own hand
	faulty  client.Client
	wrapped cloud.Provider
	// stale can give old answers of the cloud.
	stale *memory.Stale

	// schedule counts the engine's calls, and loses some by their number. lose, if set, decides about the others by their names.
	schedule *memory.Schedule
	lose     func(call string) memory.Outcome
	// onCall, if set, gets each call before its fate.
	onCall func(call string)

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
	// snapshots and disks take so long in the cloud; zero is the usual time.
	snapshots, disks time.Duration
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
	settings func(*v1alpha1.Prototype)
	// podNamespace of the engine; empty for its default.
	podNamespace string
	engine       *Engine
	name         string
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
	s := &testEnv{t: t, clock: memory.NewClock(noon), schedule: memory.NewSchedule(nil)}
	for _, o := range options {
		o(s)
	}
	copying := 6 * time.Second
	if s.snapshots > 0 {
		copying = s.snapshots
	}
	if s.instant {
		copying = 3 * time.Minute
	}
	s.cloud = memory.New(memory.Config{Now: s.clock.Now, ForbidsLaunches: true, NoHold: s.holdless, Apart: s.apart, Instant: s.instant, Latency: memory.Latency{
		Stop: 10 * time.Second, GuestOff: 3 * time.Second, Start: 20 * time.Second, Snapshot: copying,
		Image: 20 * time.Second, Delete: 5 * time.Second, Attach: s.disks,
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
	s.stale = memory.NewStale(s.cloud, s.clock.Now)
	provider := memory.NewFaulty(s.stale, func(c memory.Call) memory.Outcome { return s.next(c.Op + " " + c.Resource) })
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

// next counts a call and returns its fate.
func (s *testEnv) next(call string) memory.Outcome {
	if s.onCall != nil {
		s.onCall(call)
	}
	if fate := s.schedule.Next(call); fate != memory.Pass() || s.lose == nil {
		return fate
	}
	return s.lose(call)
}

// calls are the engine's calls so far.
func (s *testEnv) calls() []string { return s.schedule.Calls() }

// lastCalls are the last n calls, one per line.
func (s *testEnv) lastCalls(n int) string {
	calls := s.calls()
	return strings.Join(calls[max(0, len(calls)-n):], "\n")
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
	s.server = inmemory.New(s.clock.Now)
	s.clean = s.server.Client(nil)
	s.faulty = s.server.Client(func(call inmemory.Call, effect func() error) error { return outcome(s.next(call.String()), effect) })
}

// restart is a new process: a new engine that knows nothing.
func (s *testEnv) restart() {
	s.engine = &Engine{
		Waves:         true,
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
	if s.schedule.IsWiped() {
		s.onStatus(loseStatus)
	}
}

var uids atomic.Int64

// decide writes the Prototype, as a person would who wants no trial.
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
	p.Spec.Settings.Trial.Mode = v1alpha1.TrialOff
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
	s.t.Fatalf("the capture does not end: %+v\nlast calls:\n%s", s.prototype(), s.lastCalls(20))
	return nil
}

func TestACaptureFromEndToEnd(t *testing.T) {
	s := newTestEnv(t).decide()
	p := s.play()
	s.succeeded(p)
	var phases []v1alpha1.Phase
	for _, step := range p.Status.Steps {
		phases = append(phases, step.Phase)
	}
	want := []v1alpha1.Phase{
		v1alpha1.PhasePreflight,
		v1alpha1.PhaseReserving,
		v1alpha1.PhaseDraining,
		v1alpha1.PhaseGeneralizing,
		v1alpha1.PhaseStopping,
		v1alpha1.PhaseSnapshotting,
		v1alpha1.PhaseStarting,
		v1alpha1.PhaseReleasing,
		v1alpha1.PhasePublishing,
		v1alpha1.PhasePromoting,
	}
	if diff := cmp.Diff(want, slices.Compact(phases)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionGeneralized, v1alpha1.ConditionPublished, v1alpha1.ConditionDonorInService} {
		if !meta.IsStatusConditionTrue(p.Status.Conditions, kind) {
			t.Errorf("condition %s: %+v", kind, p.Status.Conditions)
		}
	}
	if got := s.cloud.World().Pools[0].Capacity; got != 2 {
		t.Errorf("the pool has %d nodes, want 2", got)
	}
	image := s.cloud.World().Images[0]
	if image.Tags[cloud.TagBuiltFrom] != donorName || image.Tags[cloud.TagUID] != string(p.UID) || image.Tags[cloud.TagCluster] != ourCluster ||
		!image.Generalized {
		t.Errorf("image: %+v", image)
	}
	proof := p.Status.Proof
	if got, want := image.Tags[cloud.TagBuiltAt], proof.At.UTC().Format(cloud.BuiltAtLayout); got != want {
		t.Errorf("the image says that it was built at %s, want %s, when its disk was done", got, want)
	}
}
