package nodecache_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// storedBytes is the limit of the memory of a stripped node, a seventh above the measured memory.
const storedBytes = 3 << 10

// largeNode is a Node of 11 KiB as a managed cluster has it, decoded as from the API server.
func largeNode(t *testing.T, i int) *corev1.Node {
	name := fmt.Sprintf("node-%05d", i)
	n := wholeNode(name, "8")
	n.Annotations["csi.volume.kubernetes.io/nodeid"] = `{"disk.csi.azure.com":"` + name + `"}`
	n.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(strings.Repeat(`{"f:status":{}}`, 200))
	for _, key := range []string{
		"beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type", "failure-domain.beta.kubernetes.io/region", "kubernetes.io/arch",
		"kubernetes.io/role", "node.kubernetes.io/instance-type", "topology.kubernetes.io/region", "topology.kubernetes.io/zone",
	} {
		n.Labels[key] = "value-of-" + key[:4]
	}
	for _, kind := range []corev1.NodeConditionType{"NetworkUnavailable", "MemoryPressure", "DiskPressure", "PIDPressure"} {
		n.Status.Conditions = append(n.Status.Conditions,
			corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, Reason: "Kubelet" + string(kind),
				Message: "kubelet has sufficient resources available", LastHeartbeatTime: metav1.Now()})
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage, "hugepages-1Gi", "hugepages-2Mi"} {
		n.Status.Capacity[name] = resource.MustParse("16Gi")
	}
	n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	n.Status.Images = nil
	for image := range 50 {
		n.Status.Images = append(n.Status.Images,
			corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.org/team/application-%d@sha256:%064d", image, image)}, SizeBytes: 1 << 20})
	}
	text, err := n.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if len(text) < 10<<10 || len(text) > 12<<10 {
		t.Fatalf("the node has %d bytes, want about 11 KiB", len(text))
	}
	decoded := &corev1.Node{}
	if err := decoded.Unmarshal(text); err != nil {
		t.Fatal(err)
	}
	return decoded
}

// TestMemoryOfNodes limits the memory of the nodes of a large cluster, on any machine.
func TestMemoryOfNodes(t *testing.T) {
	const count = 3000
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := heap()
	nodes := make([]*corev1.Node, count)
	for i := range nodes {
		nodes[i] = largeNode(t, i)
		membership.Strip(nodes[i])
	}
	each := (heap() - before) / count
	runtime.KeepAlive(nodes)
	t.Logf("%d bytes for each of %d nodes", each, count)
	if each > storedBytes {
		t.Errorf("a stripped node takes %d bytes, at most %d are allowed", each, storedBytes)
	}
}
