package policy_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	controller "github.com/kamino-dev/kamino/internal/controller/policy"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m)) }

// cluster is a real API server with a manager that runs the controller, and a cloud in memory.
type cluster struct {
	*testing.T
	client client.Client
	cloud  *memory.Cloud
	calls  *memory.Faulty
	nodes  *nodecache.Nodes
	passes atomic.Int64
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	api := apitest.Server(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{T: t, cloud: memory.New(memory.Config{})}
	var err error
	if c.client, err = client.New(api, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []client.Object{&v1alpha1.Prototype{}, &v1alpha1.PrototypePolicy{}, &corev1.Node{}} {
		if err := c.client.DeleteAllOf(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}
	c.calls = memory.NewFaulty(c.cloud, nil)
	c.nodes = nodecache.NewNodes(c.cloud)
	c.start(api, scheme)
	return c
}

// start runs the controller until the test ends.
func (c *cluster) start(api *rest.Config, scheme *runtime.Scheme) {
	again := true
	manager, err := ctrl.NewManager(api, ctrl.Options{
		Scheme: scheme, Cache: nodecache.InformerOptions(cache.Options{}), Metrics: metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0", Controller: config.Controller{SkipNameValidation: &again},
	})
	if err != nil {
		c.Fatal(err)
	}
	decider := &policy.Decider{
		Read: manager.GetCache(), Client: c.client, Cloud: c.calls, Nodes: c.nodes, PoolCache: policy.NewPoolCache(c.calls, time.Now),
	}
	pass := func(ctx context.Context) (time.Duration, error) {
		defer c.passes.Add(1)
		return decider.Pass(ctx)
	}
	if err := (&controller.Reconciler{Pass: pass, Nodes: c.nodes}).SetupWithManager(manager); err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	c.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, http.ErrServerClosed) {
			c.Errorf("the manager: %v", err)
		}
	})
}

// node creates a patched node that has been Ready for a day, with a realistic status.
func (c *cluster) node(pool cloud.PoolID, name string) *corev1.Node {
	c.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}, Annotations: map[string]string{
		v1alpha1.KuredRebootNeededAnnotation: time.Now().Add(-48 * time.Hour).UTC().Format(time.RFC3339),
	}}}
	node.Spec.ProviderID = string(c.cloud.AddInstance(pool, name))
	c.must(c.client.Create(c.Context(), node))
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-24 * time.Hour)),
		LastHeartbeatTime: metav1.Now(), Message: "kubelet is posting ready status",
	}}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"example.test/app:v1"}, SizeBytes: 1}}
	c.must(c.client.Status().Update(c.Context(), node))
	return node
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// eventually waits for a condition. A test that gives up shows all Prototypes and policies.
func (c *cluster) eventually(what string, so func() bool) {
	c.Helper()
	deadline := time.Now().Add(time.Minute)
	for !so() {
		if time.Now().After(deadline) {
			prototypes, policies := &v1alpha1.PrototypeList{}, &v1alpha1.PrototypePolicyList{}
			err := errors.Join(c.client.List(c.Context(), prototypes), c.client.List(c.Context(), policies))
			c.Fatalf("%s: it did not come about (%v)\nPrototypes %+v\npolicies %+v", what, err, prototypes.Items, policies.Items)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *cluster) donors() (donors []string) {
	list := &v1alpha1.PrototypeList{}
	c.must(c.client.List(c.Context(), list))
	for _, p := range list.Items {
		donors = append(donors, p.Spec.Donor.NodeName)
	}
	return donors
}

func TestNodesAndAPolicyBecomeAPrototype(t *testing.T) {
	c := newCluster(t)
	pool := c.cloud.AddPool(memory.PoolSpec{Name: "pool1", Capacity: 2})
	c.node(pool, "node-a")
	c.node(pool, "node-b")
	c.must(c.client.Create(t.Context(), &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}))
	c.eventually("a Prototype", func() bool { return len(c.donors()) == 1 })
	c.eventually("a status", func() bool {
		p := &v1alpha1.PrototypePolicy{}
		c.must(c.client.Get(t.Context(), client.ObjectKey{Name: "all"}, p))
		return p.Status.PoolCount == 1 && p.Status.Pools[0].Prototype != ""
	})
	for _, node := range c.nodes.Of(pool) {
		if node.Status.Images != nil || node.ManagedFields != nil || !node.Status.Conditions[0].LastHeartbeatTime.IsZero() {
			t.Errorf("node %s is kept with unread fields: %+v", node.Name, node)
		}
	}
}

// A heartbeat causes neither a pass nor a request to the cloud; a change that a decision reads causes one pass.
func TestAHeartbeatCostsNothing(t *testing.T) {
	c := newCluster(t)
	pool := c.cloud.AddPool(memory.PoolSpec{Name: "pool1", Capacity: 2})
	node := c.node(pool, "node-a")
	// One candidate is too few, so that the decision stays the same.
	c.must(c.client.Create(t.Context(), &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.PrototypePolicySpec{
		Selection: v1alpha1.SelectionSettings{MinCandidates: 2},
	}}))
	c.eventually("a decision", func() bool {
		p := &v1alpha1.PrototypePolicy{}
		c.must(c.client.Get(t.Context(), client.ObjectKey{Name: "all"}, p))
		return p.Status.PoolCount == 1 && p.Status.Pools[0].Candidates == 1
	})
	c.settle()
	passes, calls := c.passes.Load(), len(c.calls.Calls())
	for i := range 20 {
		node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Duration(i) * time.Second))
		node.Status.Images[0].SizeBytes++
		c.must(c.client.Status().Update(t.Context(), node))
	}
	c.settle()
	if got := c.passes.Load() - passes; got != 0 {
		t.Errorf("20 heartbeats cost %d passes", got)
	}
	// A later change arrives, so the heartbeats have arrived.
	node.Annotations["news"] = "x"
	c.must(c.client.Update(t.Context(), node))
	c.eventually("a pass", func() bool { return c.passes.Load() > passes })
	c.settle()
	if got := c.passes.Load() - passes; got != 1 {
		t.Errorf("one change after the heartbeats cost %d passes", got)
	}
	if got := len(c.calls.Calls()); got != calls {
		t.Errorf("the cloud was asked %d times", got-calls)
	}
}

// settle waits until no pass has run for three times the gather time.
func (c *cluster) settle() {
	for last, since := c.passes.Load(), time.Now(); time.Since(since) < 3*time.Second; time.Sleep(50 * time.Millisecond) {
		if now := c.passes.Load(); now != last {
			last, since = now, time.Now()
		}
	}
}

func TestDeletedNodeAndNewSpecRequestPass(t *testing.T) {
	c := newCluster(t)
	pool := c.cloud.AddPool(memory.PoolSpec{Name: "pool1", Capacity: 2})
	node := c.node(pool, "node-a")
	c.must(c.client.Create(t.Context(), &v1alpha1.PrototypePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.PrototypePolicySpec{Suspend: true},
	}))
	poolCount := func() int32 {
		p := &v1alpha1.PrototypePolicy{}
		c.must(c.client.Get(t.Context(), client.ObjectKey{Name: "all"}, p))
		return p.Status.PoolCount
	}
	c.eventually("a pool", func() bool { return poolCount() == 1 })
	c.must(c.client.Delete(t.Context(), node))
	c.eventually("no pool", func() bool { return poolCount() == 0 })
	c.node(pool, "node-b")
	c.node(pool, "node-c")
	c.eventually("the pool again", func() bool { return poolCount() == 1 })
	p := &v1alpha1.PrototypePolicy{}
	c.must(c.client.Get(t.Context(), client.ObjectKey{Name: "all"}, p))
	p.Spec.Suspend = false
	c.must(c.client.Update(t.Context(), p))
	c.eventually("a Prototype", func() bool { return len(c.donors()) == 1 })
}
