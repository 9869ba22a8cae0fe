package nodecache_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

func wholeNode(name, cpu string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux"},
		Annotations:   map[string]string{"kept": "yes", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}, Finalizers: []string{"x"},
	}}
	node.Spec.ProviderID = "memory:///pools/pool1/instances/" + name
	node.Spec.Taints = []corev1.Taint{{Key: "t"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "m",
		LastHeartbeatTime: metav1.Now()}}
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"i"}}}
	node.Status.Addresses = []corev1.NodeAddress{{Address: "10.0.0.1"}}
	node.Status.NodeInfo = corev1.NodeSystemInfo{OperatingSystem: "linux", BootID: "b", KernelVersion: "5.15"}
	return node
}

// TestStripKeepsUsedFields: the values that an expression can read stay (see package expression); other values go.
func TestStripKeepsUsedFields(t *testing.T) {
	node := wholeNode("n", "8")
	membership.Strip(node)
	if node.Labels[corev1.LabelHostname] != "n" || node.Annotations["kept"] != "yes" || len(node.Annotations) != 1 {
		t.Errorf("metadata = %+v", node.ObjectMeta)
	}
	if node.Spec.ProviderID == "" || len(node.Spec.Taints) != 1 {
		t.Errorf("spec = %+v", node.Spec)
	}
	if cpu := node.Status.Capacity[corev1.ResourceCPU]; cpu.String() != "8" || node.Status.NodeInfo.KernelVersion != "5.15" ||
		node.Status.NodeInfo.BootID != "b" {
		t.Errorf("status = %+v", node.Status)
	}
	c := node.Status.Conditions[0]
	if c.Status != corev1.ConditionTrue || c.Reason != "KubeletReady" || c.Message != "" || !c.LastHeartbeatTime.IsZero() {
		t.Errorf("condition = %+v", c)
	}
	if node.ManagedFields != nil || node.Finalizers != nil || node.Status.Images != nil || node.Status.Addresses != nil {
		t.Errorf("kept unread fields: %+v", node)
	}
}

// TestStripAgainChangesNothing: the informer strips a listed node twice.
func TestStripAgainChangesNothing(t *testing.T) {
	node := wholeNode("n", "8")
	node.Labels["own"], node.Labels["empty"], node.Annotations["long"] = "n", "", "2026-11-21T00:00:00Z"
	membership.Strip(node)
	once := node.DeepCopy()
	membership.Strip(node)
	if diff := cmp.Diff(once, node); diff != "" {
		t.Errorf("(-once +twice):\n%s", diff)
	}
	if want := map[string]string{corev1.LabelHostname: "n", corev1.LabelOSStable: "linux", "own": "n", "empty": ""}; !maps.Equal(node.Labels, want) {
		t.Errorf("labels = %v", node.Labels)
	}
	if want := map[string]string{"kept": "yes", "long": "2026-11-21T00:00:00Z"}; !maps.Equal(node.Annotations, want) {
		t.Errorf("annotations = %v", node.Annotations)
	}
}

// TestStripSeparatesAmounts: equal amounts of resources share one copy, and different amounts do not.
func TestStripSeparatesAmounts(t *testing.T) {
	for _, cpu := range []string{"8", "16", "8000m", "8", "16"} {
		node := wholeNode("n", cpu)
		membership.Strip(node)
		if got := node.Status.Capacity[corev1.ResourceCPU]; got.Cmp(resource.MustParse(cpu)) != 0 {
			t.Errorf("cpu %s became %s", cpu, got.String())
		}
	}
}

func TestNodesReportChanges(t *testing.T) {
	nodes := nodecache.NewNodes(memory.New(memory.Config{}))
	set := func(name, pool string, change func(*corev1.Node)) bool {
		node := wholeNode(name, "8")
		node.Spec.ProviderID = fmt.Sprintf("memory:///pools/%s/instances/%s", pool, name)
		change(node)
		membership.Strip(node)
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
		{"what may name a pool", set("m", "", func(n *corev1.Node) { n.Annotations["a"] = "b" }), true},
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
	changed := map[cloud.PoolID]bool{}
	for _, id := range nodes.News() {
		changed[id] = true
	}
	if len(changed) != 2 || len(nodes.News()) != 0 {
		t.Errorf("news = %v", changed)
	}
}

// TestServing: a Node that is not Ready, has no pool or is the second Node of an instance does not serve.
func TestServing(t *testing.T) {
	nodes := nodecache.NewNodes(memory.New(memory.Config{}))
	set := func(name, instance string, change func(*corev1.Node)) {
		node := wholeNode(name, "8")
		node.Spec.ProviderID = instance
		change(node)
		membership.Strip(node)
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

// TestStrippedNodesReportChanges: any changed value that stays is a change; a heartbeat is no change.
func TestStrippedNodesReportChanges(t *testing.T) {
	nodes := nodecache.NewNodes(memory.New(memory.Config{}))
	set := func(change func(*corev1.Node)) bool {
		node := wholeNode("n", "8")
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "DiskPressure", Status: corev1.ConditionFalse})
		change(node)
		membership.Strip(node)
		return nodes.Set(node)
	}
	same := func(*corev1.Node) {}
	set(same)
	for what, change := range map[string]func(*corev1.Node){
		"a label":           func(n *corev1.Node) { n.Labels["l"] = "1" },
		"a label's value":   func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "windows" },
		"an annotation":     func(n *corev1.Node) { n.Annotations["kept"] = "no" },
		"a condition":       func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionTrue },
		"a condition's age": func(n *corev1.Node) { n.Status.Conditions[1].LastTransitionTime = metav1.Now() },
		"a boot":            func(n *corev1.Node) { n.Status.NodeInfo.BootID = "c" },
	} {
		if !set(change) || !set(same) {
			t.Errorf("%s is no news", what)
		}
	}
	beat := func(n *corev1.Node) {
		for i := range n.Status.Conditions {
			n.Status.Conditions[i].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Hour))
		}
		n.ResourceVersion, n.Status.Images = "8", nil
	}
	if set(beat) {
		t.Error("a heartbeat is news")
	}
}

// TestStripHasRoomForAnyNumberOfTexts: texts beyond the limit of the shared texts stay in each node.
func TestStripHasRoomForAnyNumberOfTexts(t *testing.T) {
	nodes := nodecache.NewNodes(memory.New(memory.Config{}))
	const many = 30_000
	node := wholeNode("n", "8")
	for i := range many {
		node.Labels[fmt.Sprintf("label-%d", i)] = "v"
	}
	membership.Strip(node)
	nodes.Set(node)
	if err := nodes.Place(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := nodes.Of(nodes.Pools()[0])[0].Labels
	if len(got) != many+2 || got["label-29999"] != "v" || got["label-0"] != "v" {
		t.Errorf("%d labels", len(got))
	}
}

// TestReservedNodesAreFound: all reserved nodes, complete and sorted by name, and no other nodes.
func TestReservedNodesAreFound(t *testing.T) {
	nodes := nodecache.NewNodes(memory.New(memory.Config{}))
	for name, reservation := range map[string]string{"b": "held", "a": "held too", "c": ""} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": name}, Annotations: map[string]string{"other": name}}}
		if reservation != "" {
			n.Annotations[v1alpha1.ReservationAnnotation] = reservation
		}
		n.Spec.ProviderID = "memory:///pools/pool1/instances/" + name
		membership.Strip(n)
		nodes.Set(n)
	}
	if err := nodes.Place(t.Context()); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, n := range nodes.Reserved() {
		found = append(found, n.Name+" "+n.Labels["of"]+" "+n.Annotations["other"]+" "+n.Annotations[v1alpha1.ReservationAnnotation])
	}
	if diff := cmp.Diff([]string{"a a a held too", "b b b held"}, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
