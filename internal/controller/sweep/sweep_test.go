package sweep_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/controller/sweep"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m)) }

// testEnv is a real API server, a cloud in memory with a pool of three nodes, the real engine, and a sweeper over them.
type testEnv struct {
	*testing.T
	api   client.WithWatch
	kube  kubernetes.Interface
	cloud *memory.Cloud
	// provider is the cloud as this cluster sees it.
	provider cloud.Provider
	pool     cloud.PoolID
	now      time.Time
	sweeper  *sweep.Sweeper
	// asked counts the pools with a look for snapshots, by pass.
	asked []int
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	s := &testEnv{T: t, api: apitest.Client(t), now: time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)}
	s.kube = kubernetes.NewForConfigOrDie(apitest.Server(t))
	s.cloud = memory.New(memory.Config{Now: func() time.Time { return s.now }})
	s.pool = s.cloud.AddPool(memory.PoolSpec{Name: "pool1", Capacity: 4})
	for _, namespace := range []string{v1alpha1.DefaultNamespace, v1alpha1.DefaultGeneralizeNamespace} {
		if err := s.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	s.clean()
	t.Cleanup(s.clean)
	for _, name := range []string{"a", "b", "c", "d"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Spec.ProviderID = string(s.cloud.AddInstance(s.pool, name))
		s.must(s.api.Create(t.Context(), n))
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.now)}}
		s.must(s.api.Status().Update(t.Context(), n))
	}
	s.provider = cloud.InCluster(s.cloud.Provider, cluster.ID(s.kube))
	engine := &capture.Engine{Client: s.api, Kube: s.kube, Cloud: s.provider, Now: func() time.Time { return s.now }, Log: logr.Discard()}
	s.sweeper = &sweep.Sweeper{
		Held: s.reservedNodes, Orphan: engine.Orphan, Now: func() time.Time { return s.now }, Log: logr.Discard(),
		Sweep: func(ctx context.Context, pools []cloud.PoolID) ([]reservations.Leftover, error) {
			s.asked = append(s.asked, len(pools))
			return engine.SweepLeftovers(ctx, pools)
		},
	}
	return s
}

// clean removes the objects of a test: all tests of the package share the API server.
func (s *testEnv) clean() {
	now, ctx := int64(0), context.Background()
	for _, kind := range []client.Object{&corev1.Node{}, &v1alpha1.Prototype{}} {
		s.must(s.api.DeleteAllOf(ctx, kind))
	}
	for _, kind := range []client.Object{&corev1.Pod{}, &v1alpha1.NodeOrder{}} {
		s.must(s.api.DeleteAllOf(ctx, kind, client.InNamespace(v1alpha1.DefaultGeneralizeNamespace), client.GracePeriodSeconds(now)))
	}
}

func (s *testEnv) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// reservedNodes reads the controller's cache.
func (s *testEnv) reservedNodes(ctx context.Context) ([]reservations.Node, []cloud.PoolID, error) {
	var prototypes v1alpha1.PrototypeList
	var nodes corev1.NodeList
	if err := errors.Join(s.api.List(ctx, &prototypes), s.api.List(ctx, &nodes)); err != nil {
		return nil, nil, err
	}
	captures := reservations.CapturesOf(prototypes.Items)
	var found []reservations.Node
	for i := range nodes.Items {
		if n, isHeld := captures.Of(&nodes.Items[i]); isHeld {
			found = append(found, n)
		}
	}
	return found, []cloud.PoolID{s.pool}, nil
}

func (s *testEnv) node(name string) *corev1.Node {
	s.Helper()
	n, err := s.kube.CoreV1().Nodes().Get(s.Context(), name, metav1.GetOptions{})
	s.must(err)
	return n
}

// hold reserves a node as a capture does, with cordon and protection.
func (s *testEnv) hold(name string, holder v1alpha1.Holder) {
	s.Helper()
	_, err := node.Reservations{Kube: s.kube}.Note(s.Context(), s.node(name),
		node.NewReservation(holder, s.node(name), cloud.TokenUnprotected, metav1.NewTime(s.now)))
	s.must(err)
	s.must(node.Cordon(s.Context(), s.kube, s.node(name)))
	s.must(s.cloud.ProtectFromScaleIn(s.Context(), cloud.InstanceID(s.node(name).Spec.ProviderID), cloud.TokenUnprotected))
}

func (s *testEnv) isFree(name string) bool {
	s.Helper()
	n := s.node(name)
	hold, err := s.cloud.Protection(s.Context(), cloud.InstanceID(n.Spec.ProviderID))
	s.must(err)
	return !n.Spec.Unschedulable && len(n.Annotations) == 0 && !hold.Protected
}

func (s *testEnv) pass() {
	s.Helper()
	s.must(s.sweeper.Pass(s.Context()))
	s.now = s.now.Add(2 * time.Minute)
}

// prototype is a running Prototype of a node.
func (s *testEnv) prototype(name, donor string, phase v1alpha1.Phase) *v1alpha1.Prototype {
	s.Helper()
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec = v1alpha1.PrototypeSpec{Pool: "pool1", Version: "2026.03.14", Settings: v1alpha1.Settings{}.Defaulted(),
		Donor: v1alpha1.Donor{NodeName: donor, ProviderID: s.node(donor).Spec.ProviderID}}
	s.must(s.api.Create(s.Context(), p))
	p.Status.Phase = phase
	s.must(s.api.Status().Update(s.Context(), p))
	return p
}

func holderOf(p *v1alpha1.Prototype) v1alpha1.Holder {
	return v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: p.Name, UID: p.UID}
}

// TestNodeIsReleasedAtSecondLook: the cache of Prototypes may be older than the cache of nodes, so one look is not
// enough. Nodes of other holders stay: a running capture, a replacement, an unknown kind, an unreadable holder.
func TestNodeIsReleasedAtSecondLook(t *testing.T) {
	s := newTestEnv(t)
	working := s.prototype("pool1-2026.03.14", "b", v1alpha1.PhaseDraining)
	s.hold("a", v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "pool1-2026.03.13", UID: "gone"})
	s.hold("b", holderOf(working))
	s.hold("c", v1alpha1.Holder{Kind: v1alpha1.HolderReplacement, Name: "kamino-rollback", UID: "kamino-rollback"})
	s.hold("d", v1alpha1.Holder{Kind: "Pioneer", Name: "pool1-2026.03.13", UID: "gone"})
	s.pass()
	if s.isFree("a") {
		t.Error("it was released at the first look")
	}
	s.pass()
	s.pass()
	if !s.isFree("a") {
		t.Errorf("it is not released: %+v", s.node("a"))
	}
	if s.isFree("b") || s.isFree("c") || s.isFree("d") {
		t.Error("the node of another holder was released")
	}
	// The capture ends, and leaves its reservation.
	working.Status.Phase = v1alpha1.PhaseFailed
	s.must(s.api.Status().Update(t.Context(), working))
	s.pass()
	s.pass()
	if !s.isFree("b") || s.isFree("c") || s.isFree("d") {
		t.Error("the node of a capture that has ended is not released, or another one is")
	}
}

// TestNewHolderBetweenTwoLooks: a node with another holder at the second look was not seen twice.
func TestNewHolderBetweenTwoLooks(t *testing.T) {
	s := newTestEnv(t)
	s.hold("a", v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "pool1-2026.03.13", UID: "gone"})
	s.pass()
	working := s.prototype("pool1-2026.03.14", "a", v1alpha1.PhaseDraining)
	s.hold("a", holderOf(working))
	for range 3 {
		s.pass()
	}
	if s.isFree("a") {
		t.Error("a node was taken from a capture at work")
	}
}

// leave creates the objects of a capture: pod, order and snapshot.
func (s *testEnv) leave(name string, holder v1alpha1.Holder) {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "kamino-" + name, Namespace: v1alpha1.DefaultGeneralizeNamespace,
		Labels: map[string]string{v1alpha1.PrototypeLabel: name, v1alpha1.PrototypeUIDLabel: string(holder.UID)}}}
	pod.Spec = corev1.PodSpec{ServiceAccountName: v1alpha1.GeneralizeServiceAccount, Containers: []corev1.Container{{Name: "c", Image: "x"}}}
	order := &v1alpha1.NodeOrder{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}, Spec: v1alpha1.NodeOrderSpec{
		Holder: v1alpha1.Holder{Name: name, UID: holder.UID}, NodeName: "a", Token: "boot", PodName: pod.Name, Key: "key",
		Generalize: v1alpha1.GeneralizeSettings{Profile: v1alpha1.ProfileStatic},
	}}
	s.must(errors.Join(s.api.Create(s.Context(), pod), s.api.Create(s.Context(), order)))
	_, err := s.provider.EnsureSnapshot(s.Context(), cloud.SnapshotSpec{Name: name, Instance: cloud.InstanceID(s.node("a").Spec.ProviderID),
		Tags: map[string]string{cloud.TagPrototype: name, cloud.TagUID: string(holder.UID)}})
	s.must(err)
}

// there counts existing pods, orders and snapshots.
func (s *testEnv) there() (pods, orders, snapshots int) {
	s.Helper()
	var p corev1.PodList
	var o v1alpha1.NodeOrderList
	s.must(errors.Join(s.api.List(s.Context(), &p, client.InNamespace(v1alpha1.DefaultGeneralizeNamespace)), s.api.List(s.Context(), &o)))
	all, err := s.cloud.Snapshots(s.Context(), s.pool)
	s.must(err)
	return len(p.Items), len(o.Items), len(all)
}

// TestLeftoversAreRemoved: leftovers go, and objects of a running capture stay. The sweep asks the cloud at the start,
// until nothing is left, daily, and after the release of a node.
func TestLeftoversAreRemoved(t *testing.T) {
	s := newTestEnv(t)
	working := s.prototype("pool1-2026.03.14", "b", v1alpha1.PhaseSnapshotting)
	s.leave(working.Name, holderOf(working))
	s.leave("pool1-2026.03.12", v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "pool1-2026.03.12", UID: "gone"})
	for range 3 {
		s.pass()
	}
	if pods, orders, snapshots := s.there(); pods != 1 || orders != 1 || snapshots != 1 {
		t.Errorf("%d pods, %d orders and %d snapshots are there: only those of the capture at work should be", pods, orders, snapshots)
	}
	for range 5 {
		s.pass()
	}
	asked := 0
	for _, n := range s.asked {
		asked += n
	}
	if asked > 2 {
		t.Errorf("the cloud was asked %d times: %v", asked, s.asked)
	}
	s.asked = nil
	s.now = s.now.Add(24 * time.Hour)
	s.pass()
	s.pass()
	s.hold("a", v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "pool1-2026.03.13", UID: "gone too"})
	s.pass()
	s.pass()
	if want := []int{1, 0, 0, 1}; len(s.asked) != 4 || [4]int(s.asked) != [4]int(want) {
		t.Errorf("the cloud was asked so: %v, not %v", s.asked, want)
	}
}

// TestACloudThatRefuses is not asked every two minutes, and does not block the release of nodes.
func TestACloudThatRefuses(t *testing.T) {
	s := newTestEnv(t)
	s.cloud.Forbid("Snapshots")
	s.hold("a", v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "pool1-2026.03.13", UID: "gone"})
	refused := 0
	for range 4 {
		if err := s.sweeper.Pass(t.Context()); err != nil {
			refused++
		}
		s.now = s.now.Add(2 * time.Minute)
	}
	if !s.isFree("a") || refused != 2 {
		t.Errorf("free: %t, and the cloud was asked %d times, not twice: at the start, and for the node that was released", s.isFree("a"), refused)
	}
}
