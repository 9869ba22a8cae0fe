package expression

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// examples are the expressions of docs/concepts/trial.md, each with the result for node() and a peer.
var examples = map[string]bool{
	`node.status.allocatable[?"nvidia.com/gpu"].orValue("0") == "1"`:                                     false,
	`node.spec.?taints.orValue([]).exists(t, t.key == "spot" && t.effect == "NoSchedule")`:               true,
	`!node.status.conditions.exists(c, c.type == "KernelDeadlock" && c.status == "True")`:                true,
	`peers.all(p, p.status.allocatable.cpu == node.status.allocatable.cpu)`:                              false,
	`peers.exists(p, p.metadata.labels["node.kubernetes.io/instance-type"].startsWith("Standard_D4s"))`:  true,
	`size(peers) == 1 && node.status.nodeInfo.kubeletVersion == peers[0].status.nodeInfo.kubeletVersion`: true,
}

func TestExpectation(t *testing.T) {
	peer := node()
	peer.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	for text, want := range examples {
		e, err := CompileExpectation(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if met, err := e.IsMet(node(), []*corev1.Node{peer}); err != nil || met != want {
			t.Errorf("%s: %t, %v", text, met, err)
		}
	}
}

func TestWrongExpectations(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "is empty",
		"node.spec ==":                  "is wrong at line 1",
		"size(peers)":                   "gives int, and must give true or false",
		"now > timestamp(0)":            "undeclared reference to 'now'",
		nested("dyn(", "true", ")", 31): "nested",
	} {
		if _, err := CompileExpectation(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestExpectationsWithoutAValue: an error is no false.
func TestExpectationsWithoutAValue(t *testing.T) {
	for text, want := range map[string]string{
		`node.status.allocatable.gpu == "1"`: "no such key: gpu",
		`peers[0].metadata.name == "n1"`:     "index out of bounds",
		`node.metadata.name`:                 "gives string, and must give true or false",
		`node.metadata.labels.all(a, node.metadata.labels.all(b, (a + b).replace("a", "` + strings.Repeat("b", 900) + `").size() + (a + b).replace("e", "` + strings.Repeat("b", 900) + `").size() > 0)) &&
		 [1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, a+b+c+d+e > 0)))))`: "cost limit",
	} {
		e, err := CompileExpectation(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if met, err := e.IsMet(node(), nil); err == nil || met || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %t, %v, want %q", text, met, err, want)
		}
	}
}
