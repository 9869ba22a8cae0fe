package command

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/sandbox/untried"
)

// install makes Kamino's objects in the sandbox, once.
func install(t *testing.T) {
	t.Helper()
	manifests := sandbox.Must(t, "kamino", "manifests")
	file := t.TempDir() + "/manifests.yaml"
	writeFile(t, file, manifests)
	sandbox.Must(t, "kubectl", "apply", "--server-side", "-f", file)
}

func TestPoolsThatAreRefused(t *testing.T) {
	install(t)
	for name, c := range map[string]struct{ pool, sentence string }{
		"ephemeral":    {"name=ephemeral,nodes=2,ephemeral", "has an ephemeral OS disk"},
		"automatic":    {"name=automatic,nodes=2,upgrade-policy=Automatic", "is Automatic"},
		"rolling":      {"name=rolling,nodes=2,upgrade-policy=Rolling", "is Rolling"},
		"os upgrade":   {"name=osupgrade,nodes=2,os-upgrade", "automatic OS image upgrades"},
		"AKS":          {"name=aks,nodes=2,aks", "belongs to AKS"},
		"confidential": {"name=confidential,nodes=2,security=ConfidentialVM", "confidential VMs"},
		"the only one": {"name=single,nodes=1", "the only one of pool"},
	} {
		t.Run(name, func(t *testing.T) {
			machines := sandbox.Pool(t, c.pool)
			node := machines[0].Node
			before := nodeSpec(t, node)
			result := sandbox.Run(t, nil, "kamino", untried.Capture(node)...)
			if result.Code != 3 || !strings.Contains(result.Stderr, c.sentence) {
				t.Errorf("exit code %d, want 3, and it should say %q:\n%s", result.Code, c.sentence, result.Stderr)
			}
			if after := nodeSpec(t, node); after != before {
				t.Errorf("node %s was changed:\n%s\n%s", node, before, after)
			}
			if now := sandbox.MachinesOf(t, machines[0].Pool); now[0].Boots != machines[0].Boots {
				t.Errorf("machine %s was rebooted", node)
			}
		})
	}
}

// nodeSpec is what of a node a capture would change. Labels and taints are left out: the cluster's own
// controllers write those of a new node in their own time.
func nodeSpec(t *testing.T, name string) string {
	t.Helper()
	node, err := sandbox.Kube().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delete(node.Annotations, "node.alpha.kubernetes.io/ttl")
	raw, err := json.Marshal([]any{node.Annotations, node.Spec.Unschedulable})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
