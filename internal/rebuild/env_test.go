package rebuild

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
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

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const (
	bad  = "2026.03.02"
	good = "2026.03.01"
)

// testEnv is a cloud in memory and a cluster. The pool of bad nodes was rolled back. Kubelets follow the machines, and
// each pause between passes advances the clock.
type testEnv struct {
	t     *testing.T
	clock *memory.Clock
	cloud *memory.Cloud
	pool  cloud.PoolID
	kube  *fake.Clientset
	nodes map[string]cloud.InstanceID
	// budget is the number of refused evictions by pod.
	budget map[string]int
	// deaf nodes do not start again.
	deaf map[string]bool
	// between is called in each pause; an error ends the run.
	between func(pauses int) error
	pauses  int
	// worst is the largest number of nodes out of service at once.
	worst int
	said  []string
	// events has the name, type and reason of each event.
	events []string
}

func newTestEnv(t *testing.T, nodes int) *testEnv {
	t.Helper()
	s := &testEnv{t: t, clock: memory.NewClock(time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)), nodes: map[string]cloud.InstanceID{},
		budget: map[string]int{}, deaf: map[string]bool{}}
	s.cloud = memory.New(memory.Config{Now: s.clock.Now, Latency: memory.Latency{Start: time.Minute}})
	s.pool = s.cloud.AddPool(memory.PoolSpec{Name: "pool1"})
	for _, v := range []string{good, bad} {
		s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: v})
	}
	s.kube = fake.NewClientset()
	s.kube.PrependReactor("list", "pods", s.podsOfNode)
	s.kube.PrependReactor("create", "pods", s.evict)
	s.point(good)
	s.join("good-0")
	s.point(bad)
	for i := range nodes {
		s.join(fmt.Sprintf("bad-%d", i))
	}
	s.point(good)
	return s
}

func (s *testEnv) point(version string) {
	s.cloud.ChangeRecipe(s.pool, string(s.pool)+"/versions/"+version)
}

func (s *testEnv) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// join creates an instance with its node and a pod.
func (s *testEnv) join(name string) {
	s.t.Helper()
	id := s.cloud.AddInstance(s.pool, name)
	s.nodes[name] = id
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{v1alpha1.VersionLabel: "?"}}}
	n.Spec.ProviderID = string(id)
	n.Status.NodeInfo.BootID = s.cloud.BootID(id)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	s.must(s.kube.Tracker().Add(n))
	s.must(s.kube.Tracker().Add(podOn(name)))
}

func podOn(node string) *corev1.Pod {
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "on-" + node, Namespace: "default", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app", UID: "rs", Controller: &yes}}}}
	p.Spec.NodeName = node
	p.Status.Phase = corev1.PodRunning
	return p
}

func (s *testEnv) podsOfNode(a kubetesting.Action) (bool, runtime.Object, error) {
	_, result, err := kubetesting.ObjectReaction(s.kube.Tracker())(a)
	if list, ok := result.(*corev1.PodList); ok {
		node, asked := a.(kubetesting.ListAction).GetListRestrictions().Fields.RequiresExactMatch("spec.nodeName")
		list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return asked && p.Spec.NodeName != node })
	}
	return true, result, err
}

func (s *testEnv) evict(a kubetesting.Action) (bool, runtime.Object, error) {
	if a.GetSubresource() != "eviction" {
		return false, nil, nil
	}
	eviction := a.(kubetesting.CreateAction).GetObject().(*policyv1.Eviction)
	name, dry := eviction.Name, eviction.DeleteOptions != nil && len(eviction.DeleteOptions.DryRun) > 0
	if s.budget[name] > 0 {
		if !dry {
			s.budget[name]--
		}
		return true, nil, apierrors.NewTooManyRequests("the budget says no", 0)
	}
	if dry {
		return true, nil, nil
	}
	return true, nil, s.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), a.GetNamespace(), name)
}

func (s *testEnv) replacement() *Replacement {
	return &Replacement{
		Kube: s.kube, Cloud: s.cloud, Pool: s.pool, From: bad, To: good, Now: s.clock.Now,
		Recorder: recorder(func(n *corev1.Node, kind, reason string) {
			s.events = append(s.events, n.Name+" "+kind+" "+reason)
		}),
	}
}

// recorder receives the events about nodes.
type recorder func(n *corev1.Node, kind, reason string)

func (r recorder) Eventf(about, _ runtime.Object, kind, reason, _, _ string, _ ...any) {
	r(about.(*corev1.Node), kind, reason)
}

// show records a report about a node.
func (s *testEnv) show(node, what string) { s.said = append(s.said, node+" "+what) }

// pause advances the clock by ten seconds, for any requested pause. A step may be late by that time.
func (s *testEnv) pause(ctx context.Context, _ time.Duration) error {
	s.countOutOfService()
	s.clock.Advance(10 * time.Second)
	s.cloud.Settle()
	for name, id := range s.nodes {
		s.kubelet(name, id)
	}
	s.countOutOfService()
	s.pauses++
	if s.pauses > 5000 {
		s.t.Fatalf("it does not end; its last words: %v", s.said[max(0, len(s.said)-5):])
	}
	if s.between != nil {
		if err := s.between(s.pauses); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// kubelet updates a node by its machine.
func (s *testEnv) kubelet(name string, id cloud.InstanceID) {
	s.t.Helper()
	n := s.node(name)
	if n == nil {
		return
	}
	machine := s.cloud.World().Instance(id)
	status := corev1.ConditionUnknown
	if machine.Power == cloud.PowerRunning && (!s.deaf[name] || machine.Boots == 1) {
		status, n.Status.NodeInfo.BootID = corev1.ConditionTrue, machine.BootID
	}
	n.Status.Conditions[0].Status = status
	s.must(s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
}

func (s *testEnv) node(name string) *corev1.Node {
	s.t.Helper()
	object, err := s.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must(err)
	return object.(*corev1.Node).DeepCopy()
}

// countOutOfService counts the nodes out of service.
func (s *testEnv) countOutOfService() {
	out := 0
	for name := range s.nodes {
		if n := s.node(name); n != nil && (n.Spec.Unschedulable || !nodestate.Ready(n)) {
			out++
		}
	}
	s.worst = max(s.worst, out)
}

// run makes passes to the end.
func (s *testEnv) run(r *Replacement) Result {
	s.t.Helper()
	result, err := r.Run(s.t.Context(), s.show, s.pause)
	s.must(err)
	return result
}

// wantClean requires that every node is in service, restored and on the right version.
func (s *testEnv) wantClean(version string, names ...string) {
	s.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.node(name)
		if n == nil {
			continue
		}
		delete(n.Annotations, v1alpha1.NotRebuiltAnnotation)
		if n.Spec.Unschedulable || len(n.Annotations) > 0 {
			s.t.Errorf("%s is cordoned %t and carries %v", name, n.Spec.Unschedulable, n.Annotations)
		}
		if built := s.cloud.World().Instance(s.nodes[name]).BuiltFrom; slices.Contains(names, name) && built != version {
			s.t.Errorf("%s runs %s, want %s", name, built, version)
		}
	}
}

func (s *testEnv) badNodes() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.nodes)), func(name string) bool { return !strings.HasPrefix(name, "bad") })
}

func (s *testEnv) rebuilds() int {
	return s.cloud.World().Count(memory.ByCaller, memory.EffectRebuild, "")
}
