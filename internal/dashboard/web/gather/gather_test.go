package gather

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/dashboard"
	"github.com/kamino-dev/kamino/internal/pool"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

var now = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

// newGatherer is a cluster with one pool, its policy, a capture and an event.
func newGatherer(t *testing.T) (*Gatherer, *memory.Cloud, *fake.Clientset) {
	t.Helper()
	c := memory.New(memory.Config{Now: func() time.Time { return now }})
	id := c.AddPool(memory.PoolSpec{Name: "pool1", Capacity: 2, Image: "memory:///pools/pool1/versions/2026.03.01"})
	c.AddVersion(id, memory.VersionSpec{Version: "2026.03.01", CreatedAt: now.Add(-time.Hour)})
	instance := c.AddInstance(id, "1")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{ProviderID: string(instance)}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e1", Namespace: "default"}, InvolvedObject: corev1.ObjectReference{Kind: "Prototype", Name: "pool1-2026.03.09"},
		EventTime: metav1.NewMicroTime(now.Add(-time.Minute)), Reason: "Reserved", Message: "node node-1 is reserved", ReportingController: "kamino",
	}
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "pool1-2026.03.09"}}
	p.Spec = v1alpha1.PrototypeSpec{Pool: "pool1", Version: "2026.03.09", Donor: v1alpha1.Donor{NodeName: "node-1", ProviderID: string(instance)}}
	p.Status.Phase = v1alpha1.PhaseDraining
	policy := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	policy.Status.Pools = []v1alpha1.PoolStatus{{Name: "pool1", ID: string(id),
		Decision: &v1alpha1.PoolDecision{Reason: "Capturing", Message: "node node-1 is captured"}}}
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientset(node, event)
	objects := clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(p, policy).Build()
	finder := &pool.Finder{Cluster: &cluster.Connection{Client: objects, Kube: kube}, Cloud: c, Now: func() time.Time { return now }}
	return &Gatherer{Finder: finder, Cluster: "prod", Explain: func(err error) string { return err.Error() }, Now: finder.Now,
		Lease: func(context.Context) (attention.Lease, error) { return attention.Lease{Known: true}, nil }}, c, kube
}

func gather(t *testing.T, g *Gatherer) dashboard.View {
	t.Helper()
	v, err := g.Gather(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestLook(t *testing.T) {
	g, _, _ := newGatherer(t)
	v := gather(t, g)
	if len(v.Attention) != 1 || !strings.Contains(v.Attention[0].Title, "No Kamino process works") {
		t.Errorf("a capture without a process: %+v", v.Attention)
	}
	if v.Cluster != "prod" || !v.At.Equal(now) || len(v.Troubles) != 0 || len(v.Pools) != 1 {
		t.Fatalf("%+v", v)
	}
	p := v.Pools[0]
	if p.Name != "pool1" || p.Nodes != 1 || p.Ready != 1 || p.Capacity != 2 || p.Recipe != "2026.03.01" {
		t.Errorf("%+v", p)
	}
	if len(p.Bars) != 1 || p.Bars[0].Nodes != 1 || len(p.Versions) != 1 {
		t.Errorf("%+v, %+v", p.Bars, p.Versions)
	}
	if len(p.Figures) == 0 || p.ReportDays != 30 {
		t.Errorf("%d days: %+v", p.ReportDays, p.Figures)
	}
	if len(p.Captures) != 1 || p.Captures[0].Phase != "Draining" || len(p.Policies) != 1 || p.Policies[0].Reason != "Capturing" {
		t.Errorf("%+v, %+v", p.Captures, p.Policies)
	}
	if len(p.Timeline) == 0 || p.Timeline[0].Reason != "Reserved" {
		t.Errorf("%+v", p.Timeline)
	}
}

// TestWithoutTheCloud: the facts of the cluster are there, and the section names the error.
func TestWithoutTheCloud(t *testing.T) {
	g, c, _ := newGatherer(t)
	c.Forbid("Pool")
	p := gather(t, g).Pools[0]
	if p.Nodes != 1 || len(p.Captures) != 1 || len(p.Notes) != 1 || !strings.HasPrefix(p.Notes[0], "The cloud did not describe the pool: ") {
		t.Errorf("%+v", p)
	}
	g, c, _ = newGatherer(t)
	c.Forbid("Instances")
	if p = gather(t, g).Pools[0]; len(p.Versions) != 1 || p.Versions[0].Nodes != "unknown" {
		t.Errorf("%+v", p)
	}
}

// TestWithoutEvents: a missing permission is a trouble of the page.
func TestWithoutEvents(t *testing.T) {
	g, _, kube := newGatherer(t)
	kube.PrependReactor("list", "events", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("may not") })
	v := gather(t, g)
	if len(v.Troubles) != 1 || v.Troubles[0] != "The events are unknown: list events: may not" || len(v.Pools) != 1 {
		t.Errorf("%+v", v)
	}
}

// TestWithoutTheCluster: without nodes there is no page, and a look that takes too long is an error.
func TestWithoutTheCluster(t *testing.T) {
	g, _, kube := newGatherer(t)
	kube.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no answer") })
	if _, err := g.Gather(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("%v", err)
	}
	g, _, _ = newGatherer(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Gather(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
