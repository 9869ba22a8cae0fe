package policy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
	"github.com/kamino-dev/kamino/internal/testing/apitest/inmemory"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// testEnv is a decider with a real API server, a cloud in memory, and nodes of the test. The clock starts at noon of the API
// server's day, because the API server stamps objects by its own clock.
type testEnv struct {
	*testing.T
	client  client.Client
	kube    *fake.Clientset // has only Leases
	clock   *memory.Clock
	cloud   *memory.Cloud
	calls   *memory.Faulty
	nodes   *nodecache.Nodes
	events  *events.FakeRecorder
	decider *policy.Decider
	after   time.Duration
	// isInMemory: the objects are not on the API server.
	isInMemory bool
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	s := &testEnv{T: t, client: newClient(t), kube: fake.NewClientset(), clock: memory.NewClock(time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour))}
	s.cloud = memory.New(memory.Config{Now: s.clock.Now, NoCopy: true, ForbidsLaunches: true})
	s.calls = memory.NewFaulty(s.cloud, nil)
	s.nodes = nodecache.NewNodes(s.cloud)
	s.restart()
	return s
}

// inMemory moves the objects of the stage into memory: a real API server takes most of the time of a test with many passes.
func (s *testEnv) inMemory() {
	s.isInMemory = true
	s.client = inmemory.New(s.clock.Now).Client(nil)
	s.restart()
}

// restart is a new process without memory.
func (s *testEnv) restart() {
	s.events = events.NewFakeRecorder(100)
	looks := policy.NewPoolCache(s.calls, s.clock.Now)
	looks.Intents = &policy.Intents{Kube: s.kube, Namespace: v1alpha1.DefaultNamespace}
	s.decider = &policy.Decider{
		Read: s.client, Client: s.client, Cloud: s.calls, Nodes: s.nodes, PoolCache: looks, Now: s.clock.Now, Recorder: s.events,
	}
}

func (s *testEnv) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// pool adds a pool whose version was captured days ago, with n nodes pool-0 to pool-<n-1>, patched yesterday and rebooted
// since. A node with a higher number is Ready for longer.
func (s *testEnv) pool(name string, n, daysAgo int) cloud.PoolID {
	s.Helper()
	id := s.cloud.AddPool(memory.PoolSpec{Name: name, Capacity: int64(n), MaxSize: 100})
	if daysAgo > 0 {
		at := s.clock.Now().AddDate(0, 0, -daysAgo)
		s.version(id, at, nil)
		s.cloud.ChangeRecipe(id, string(id)+"/versions/"+imageversion.Of(at))
	}
	for i := range n {
		instance := s.cloud.AddInstance(id, fmt.Sprint(i))
		s.node(fmt.Sprintf("%s-%d", name, i), instance, func(node *corev1.Node) {
			node.Annotations[v1alpha1.KuredRebootNeededAnnotation] = s.clock.Now().Add(-24 * time.Hour).Format(time.RFC3339)
			node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(s.clock.Now().Add(-time.Duration(10+i) * time.Hour))
		})
	}
	return id
}

func (s *testEnv) version(id cloud.PoolID, at time.Time, tags map[string]string) {
	all := map[string]string{cloud.TagBuiltAt: at.Format(cloud.BuiltAtLayout)}
	for k, v := range tags {
		all[k] = v
	}
	s.cloud.AddVersion(id, memory.VersionSpec{Version: imageversion.Of(at), Tags: all, CreatedAt: at})
}

// node sets a Ready Linux node.
func (s *testEnv) node(name string, id cloud.InstanceID, change func(*corev1.Node)) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}, Annotations: map[string]string{},
	}}
	node.Spec.ProviderID = string(id)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	change(node)
	s.nodes.Set(node)
}

// change replaces a node.
func (s *testEnv) change(pool cloud.PoolID, name string, change func(*corev1.Node)) {
	s.Helper()
	s.must(s.nodes.Place(s.Context()))
	for _, node := range s.nodes.Of(pool) {
		if node.Name == name {
			changed := node.DeepCopy()
			change(changed)
			s.nodes.Set(changed)
			return
		}
	}
	s.Fatalf("no node %s", name)
}

func (s *testEnv) policy(name string, change func(*v1alpha1.PrototypePolicySpec)) {
	s.Helper()
	p := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if change != nil {
		change(&p.Spec)
	}
	if s.isInMemory { // the API server has defaults, and validates
		s.must(apitest.Client(s.T).Create(s.Context(), p, client.DryRunAll))
		p.UID, p.ResourceVersion, p.CreationTimestamp = "", "", metav1.Time{}
	}
	s.must(s.client.Create(s.Context(), p))
}

// edit changes a policy as a person would.
func (s *testEnv) edit(name string, change func(*v1alpha1.PrototypePolicySpec)) {
	s.Helper()
	p := s.status(name)
	change(&p.Spec)
	s.must(s.client.Update(s.Context(), p))
}

func (s *testEnv) status(name string) *v1alpha1.PrototypePolicy {
	s.Helper()
	p := &v1alpha1.PrototypePolicy{}
	s.must(s.client.Get(s.Context(), client.ObjectKey{Name: name}, p))
	return p
}

// poolStatus is a policy's report on a pool.
func (s *testEnv) poolStatus(name, pool string) v1alpha1.PoolStatus {
	s.Helper()
	status := s.status(name).Status
	i := slices.IndexFunc(status.Pools, func(p v1alpha1.PoolStatus) bool { return p.Name == pool })
	if i < 0 {
		s.Fatalf("policy %s says nothing of pool %s: %+v", name, pool, status)
	}
	return status.Pools[i]
}

func (s *testEnv) runPass() {
	s.Helper()
	after, err := s.decider.Pass(s.Context())
	s.must(err)
	s.after = after
}

func (s *testEnv) prototypes() []v1alpha1.Prototype {
	s.Helper()
	list := &v1alpha1.PrototypeList{}
	s.must(s.client.List(s.Context(), list))
	return list.Items
}

// donors are the nodes of all Prototypes, by the Prototypes' names.
func (s *testEnv) donors() []string {
	s.Helper()
	var donors []string
	for _, p := range s.prototypes() {
		donors = append(donors, p.Spec.Donor.NodeName)
	}
	return donors
}

// end ends a capture as the engine would.
func (s *testEnv) end(name string, phase v1alpha1.Phase) {
	s.Helper()
	p := &v1alpha1.Prototype{}
	s.must(s.client.Get(s.Context(), client.ObjectKey{Name: name}, p))
	p.Status.Phase = phase
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Done", LastTransitionTime: metav1.NewTime(s.clock.Now())}
	if phase == v1alpha1.PhaseFailed {
		ready.Status = metav1.ConditionFalse
		p.Status.Failure = &v1alpha1.Failure{Reason: "DrainTimeout", Message: "the drain took too long"}
	}
	meta.SetStatusCondition(&p.Status.Conditions, ready)
	s.must(s.client.Status().Update(s.Context(), p))
}

// decided checks the decision about a pool, and words of its message.
func (s *testEnv) decided(name, pool, reason string, words ...string) {
	s.Helper()
	d := s.poolStatus(name, pool).Decision
	if d == nil || d.Reason != reason {
		s.Fatalf("decision about pool %s = %+v, want %s", pool, d, reason)
	}
	for _, word := range words {
		if !strings.Contains(d.Message, word) {
			s.Errorf("the decision %q does not say %q", d.Message, word)
		}
	}
}

// stalled checks that a policy is stalled for the reason, and words of its message.
func (s *testEnv) stalled(name, reason string, words ...string) {
	s.Helper()
	status := s.status(name).Status
	for _, kind := range []string{v1alpha1.ConditionStalled, v1alpha1.ConditionReady} {
		c := meta.FindStatusCondition(status.Conditions, kind)
		if c == nil || c.Reason != reason || (c.Status == metav1.ConditionTrue) != (kind == v1alpha1.ConditionStalled) {
			s.Fatalf("condition %s = %+v, want reason %s", kind, c, reason)
		}
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				s.Errorf("the condition %q does not say %q", c.Message, word)
			}
		}
	}
}

func (s *testEnv) well(name string) {
	s.Helper()
	if c := meta.FindStatusCondition(s.status(name).Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Status != metav1.ConditionTrue {
		s.Fatalf("policy %s is not well: %+v", name, c)
	}
}

// drainEvents drains the events.
func (s *testEnv) drainEvents() []string {
	var all []string
	for {
		select {
		case e := <-s.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func (s *testEnv) heardOf(word string) bool {
	return slices.ContainsFunc(s.drainEvents(), func(e string) bool { return strings.Contains(e, word) })
}

func refuseAll(reason string) func(context.Context, *v1alpha1.Prototype) ([]cloud.Refusal, error) {
	return func(_ context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error) {
		return []cloud.Refusal{{Reason: reason, Message: "no: " + p.Spec.Donor.NodeName}}, nil
	}
}
