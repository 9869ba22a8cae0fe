package nodecache_test

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
	"github.com/kamino-dev/kamino/internal/nodecache"
)

func wholeNode(name, cpu string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux"},
		Annotations:   map[string]string{"kept": "yes", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}, Finalizers: []string{"x"},
	}}
	node.Spec.ProviderID = "memory:///pools/pool1/instances/" + name
	node.Spec.Taints = []corev1.Taint{{Key: "t"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "m", LastHeartbeatTime: metav1.Now()}}
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"i"}}}
	node.Status.Addresses = []corev1.NodeAddress{{Address: "10.0.0.1"}}
	node.Status.NodeInfo = corev1.NodeSystemInfo{OperatingSystem: "linux", BootID: "b", KernelVersion: "5.15"}
	return node
}

// TestStripKeepsWhatIsRead: the values that an expression can read stay (see package expression); other values go.
func TestStripKeepsWhatIsRead(t *testing.T) {
	node := wholeNode("n", "8")
	nodecache.Strip(node)
	if node.Labels[corev1.LabelHostname] != "n" || node.Annotations["kept"] != "yes" || len(node.Annotations) != 1 {
		t.Errorf("metadata = %+v", node.ObjectMeta)
	}
	if node.Spec.ProviderID == "" || len(node.Spec.Taints) != 1 {
		t.Errorf("spec = %+v", node.Spec)
	}
	if cpu := node.Status.Capacity[corev1.ResourceCPU]; cpu.String() != "8" || node.Status.NodeInfo.KernelVersion != "5.15" || node.Status.NodeInfo.BootID != "b" {
		t.Errorf("status = %+v", node.Status)
	}
	c := node.Status.Conditions[0]
	if c.Status != corev1.ConditionTrue || c.Reason != "KubeletReady" || c.Message != "" || !c.LastHeartbeatTime.IsZero() {
		t.Errorf("condition = %+v", c)
	}
	if node.ManagedFields != nil || node.Finalizers != nil || node.Status.Images != nil || node.Status.Addresses != nil {
		t.Errorf("kept what nobody reads: %+v", node)
	}
}

// TestStripTellsAmountsApart: equal amounts of resources share one copy, and different amounts do not.
func TestStripTellsAmountsApart(t *testing.T) {
	for _, cpu := range []string{"8", "16", "8000m", "8", "16"} {
		node := wholeNode("n", cpu)
		nodecache.Strip(node)
		if got := node.Status.Capacity[corev1.ResourceCPU]; got.Cmp(resource.MustParse(cpu)) != 0 {
			t.Errorf("cpu %s became %s", cpu, got.String())
		}
	}
}

func TestNodesTellNews(t *testing.T) {
	nodes := nodecache.NewNodes(memory.New(memory.Config{}))
	set := func(name, pool string, change func(*corev1.Node)) bool {
		node := wholeNode(name, "8")
		node.Spec.ProviderID = fmt.Sprintf("memory:///pools/%s/instances/%s", pool, name)
		change(node)
		nodecache.Strip(node)
		return nodes.Set(node)
	}
	place := func() bool { return nodes.Place(t.Context()) == nil }
	same := func(*corev1.Node) {}
	for i, step := range []struct {
		what string
		is   bool
		news bool
	}{
		{"a new node", set("a", "pool1", same), true},
		{"a heartbeat before its pool is known", set("a", "pool1", func(n *corev1.Node) { n.ResourceVersion = "6" }), false},
		{"once its pool is known", place(), true},
		{"a heartbeat", set("a", "pool1", func(n *corev1.Node) { n.ResourceVersion = "7" }), false},
		{"a cordon", set("a", "pool1", func(n *corev1.Node) { n.Spec.Unschedulable = true }), true},
		{"a node of no pool", set("m", "", same), true},
		{"once it is known to have none", place(), true},
		{"its heartbeat", set("m", "", func(n *corev1.Node) { n.ResourceVersion = "7" }), false},
		{"its cordon", set("m", "", func(n *corev1.Node) { n.Spec.Unschedulable = true }), false},
		{"what may tell a pool", set("m", "", func(n *corev1.Node) { n.Annotations["a"] = "b" }), true},
		{"asked once more", place(), true},
		{"another pool", set("a", "pool2", same), true},
		{"its pool", place(), true},
		{"a node of no pool goes", nodes.Delete("m"), false},
		{"a deletion", nodes.Delete("a"), true},
		{"the same once more", nodes.Delete("a"), false},
	} {
		if step.is != step.news {
			t.Errorf("step %d, %s: news %t", i, step.what, step.is)
		}
	}
	if got := nodes.Pools(); len(got) != 0 {
		t.Errorf("pools = %v", got)
	}
	news := map[cloud.PoolID]bool{}
	for _, id := range nodes.News() {
		news[id] = true
	}
	if len(news) != 2 || len(nodes.News()) != 0 {
		t.Errorf("news = %v", news)
	}
}

// TestServing: a Node that is not Ready, has no pool or is the second Node of an instance does not serve.
func TestServing(t *testing.T) {
	nodes := nodecache.NewNodes(memory.New(memory.Config{}))
	set := func(name, instance string, change func(*corev1.Node)) {
		node := wholeNode(name, "8")
		node.Spec.ProviderID = instance
		change(node)
		nodecache.Pack(node)
		nodes.Set(node)
	}
	as := func(*corev1.Node) {}
	set("a", "memory:///pools/pool1/instances/1", as)
	set("b", "memory:///pools/pool2/instances/2", as)
	set("twin", "memory:///pools/pool1/INSTANCES/1", as)
	set("down", "memory:///pools/pool1/instances/3", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
	set("outside", "elsewhere://4", as)
	if err := nodes.Place(t.Context()); err != nil {
		t.Fatal(err)
	}
	set("new", "memory:///pools/pool1/instances/5", as)
	instances, others := nodes.Serving()
	want := map[string]string{"a": "memory:///pools/pool1/instances/1", "b": "memory:///pools/pool2/instances/2", "twin": "memory:///pools/pool1/instances/1"}
	if !maps.Equal(instances, want) || others != 4 {
		t.Errorf("%d others than %v", others, instances)
	}
}
